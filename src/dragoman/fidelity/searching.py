"""Probes of the rules of search: real searches over a step function that answers the same at every step.

Paper: none (measures what other modules do)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.fidelity.small import agreed, exact
from dragoman.model.packed import PackedModel
from dragoman.model.transformer import Transformer
from dragoman.recipe import SearchSection
from dragoman.search import length
from dragoman.search.beam import search_of
from dragoman.search.options import SearchOptions
from dragoman.search.step import Hypothesis
from dragoman.search.task import SearchTask
from dragoman.text.subwords import Subwords
from dragoman.variants.search_rules import SearchRules
from dragoman.whole_search import search_all

EOS = Subwords.EOS_ID
CPU = torch.device("cpu")
PENALTY, POWER = "((5 + n) / 6)^alpha", "n^alpha"
PAPERS = SearchRules()
ALPHA = 0.6  # at 0 all penalties are alike


class Steady:
    """A step function whose next token is as probable as ever, whatever came before.

    Args:
        p_end: probability of EOS; the other tokens share the rest.
        vocab_size: V.
    """

    def __init__(self, *, p_end: float, vocab_size: int) -> None:
        others = (1.0 - p_end) / (vocab_size - 1)
        probabilities = torch.full((vocab_size,), others, dtype=torch.float64)
        # No two are quite alike, so that no order among equals matters.
        probabilities *= 1.0 + 1e-6 * torch.arange(vocab_size)
        probabilities[EOS] = p_end
        self.logits, self.widths = probabilities.log(), list[int]()

    def __call__(self, tokens_BK: Int64[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """The same logits for every prefix."""
        self.widths.append(tokens_BK.shape[1])
        return self.logits.expand(*tokens_BK.shape, -1)

    def reorder(self, sentences_B: Int64[Tensor, " B"], parents_BK: Int64[Tensor, "B K"]) -> None:
        """Nothing depends on the prefix."""


def _task(lengths: Sequence[int], options: SearchOptions) -> SearchTask:
    return SearchTask.of(
        lengths, options=options, bos_id=Subwords.BOS_ID, eos_id=EOS, forbidden_ids=(), device=CPU
    )


def _options(rules: SearchRules, **numbers: Any) -> SearchOptions:
    """As a translator that was given these rules makes them."""
    return SearchOptions(penalty=rules.penalty or length.length_penalty, limit=rules.limit, **numbers)


def length_penalty(model: Transformer, rules: SearchRules = PAPERS) -> str:
    """By what log P was divided, at several lengths, in each search there is.

    Args:
        model: any; the kernels search with it.
        rules: what the search does otherwise than published.
    """
    return agreed(_penalty(list(hypotheses)) for hypotheses in _hypotheses(model, replace(rules, limit=None)))


def _hypotheses(model: Transformer, rules: SearchRules) -> Iterator[Iterator[Hypothesis]]:
    """Greedy search and beam search, ended and cut at the limit; and the whole search of the kernels."""
    for beam_size in (1, 3):
        options = _options(rules, beam_size=beam_size, alpha=ALPHA, min_length=4, max_extra=4)
        for p_end in (0.0, 0.9):
            found = search_of(Steady(p_end=p_end, vocab_size=8), _task([2, 9], options))
            yield (hypothesis for row in found for hypothesis in row)
    packed = PackedModel.of(exact(model).float())
    if packed is not None:
        sources = [[5, 6, EOS], [7, 8, 9, 10, 11, 12, EOS]]
        options = _options(rules, beam_size=3, alpha=ALPHA, n_best=3, min_length=5, max_extra=4)
        found = search_all(packed, sources, _task([3, 7], options))
        yield (hypothesis for row in found for hypothesis in row)


def _penalty(hypotheses: list[Hypothesis]) -> str:
    lengths = [len(h.tokens) for h in hypotheses]
    penalties = [h.log_probability / h.score for h in hypotheses]
    formulas = {
        PENALTY: [((5 + n) / 6) ** ALPHA for n in lengths],
        POWER: [float(n) ** ALPHA for n in lengths],
        "none": [1.0 for _ in lengths],
    }
    for said, expected in formulas.items():
        if all(math.isclose(p, e, rel_tol=1e-6) for p, e in zip(penalties, expected, strict=True)):
            return said
    return "another"


def end_of_search(rules: SearchRules = PAPERS) -> str:
    """How many steps are taken where an end is nine times as probable as all else."""
    step = Steady(p_end=0.9, vocab_size=8)
    search_of(step, _task([5], _options(rules, beam_size=4, alpha=ALPHA)))
    return "as soon as no live prefix can win" if len(step.widths) == 1 else f"after {len(step.widths)} steps"


@dataclass(frozen=True)
class SearchMeasured:
    """What a recipe's search does.

    Attributes:
        beam_size: the most prefixes of a sentence that were alive.
        alpha: from the penalty of a hypothesis of 13 tokens, which is 3^alpha; or n^alpha.
        max_extra: how many tokens over the source's the longest output had; the rule, where it is another.
    """

    beam_size: int
    alpha: float
    max_extra: int | str


def search_measured(
    search: SearchSection, rules: SearchRules = PAPERS, penalty_is: str = PENALTY
) -> SearchMeasured:
    """Searches as the recipe has it, over a step function that never ends."""
    numbers = {"beam_size": search.beam_size, "alpha": search.alpha}
    options = _options(rules, max_extra=search.max_extra, **numbers)
    limits = _task([7, 20], options).limits
    short = _options(replace(rules, limit=None), max_extra=8, **numbers)
    step = Steady(p_end=0.0, vocab_size=search.beam_size + 2)
    task = _task([5], short)
    best = search_of(step, task)[0][0]
    over = len(best.tokens) - task.limits[0]  # 0 unless the search does not keep to its limit
    penalty = best.log_probability / best.score
    n = len(best.tokens)
    alpha = math.log(max(penalty, 1e-9)) / math.log(n if penalty_is == POWER else (5 + n) / 6)
    return SearchMeasured(max(step.widths), alpha, _limit(limits, over))


def _limit(limits: Sequence[int], over: int) -> int | str:
    """What is added to the source's length, the same for 7 tokens and for 20; or the line through the two limits."""
    times = (limits[1] - limits[0]) / 13
    plus = round(limits[0] - 7 * times) + over
    if times == 1.0:
        return plus
    return f"{plus} in all" if times == 0.0 else f"{times:.3g} S" + (f" + {plus}" if plus else "")
