"""Beam search, k live prefixes a sentence, over a step function.

Paper: 6.1 (beam 4, alpha 0.6, at most S + 50 tokens, "terminate early when possible")
Silent: how hypotheses finish and when the search may stop. As tensor2tensor: of the 2k best continuations
    those with EOS enter a pool of the k best by score, the k best others live on; a sentence is done when no
    live prefix can reach the worst that would be returned. Prefixes cut at the limit only fill up n_best,
    after finished ones.

Shapes: B sentences still searched, K live prefixes, C = 2k continuations, T tokens so far, N length limit,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.search.candidates import (
    DEAD,
    Bans,
    Continuations,
    accumulator_type,
    best_continuations,
    checked_logits,
)
from dragoman.search.greedy import greedy_search
from dragoman.search.length import penalty_table, score_bounds
from dragoman.search.options import SearchOptions
from dragoman.search.pool import Pool, picked
from dragoman.search.step import Hypothesis, StepFunction
from dragoman.search.task import SearchTask, split_positions


def beam_search(
    step: StepFunction,
    *,
    source_lengths: Sequence[int],
    options: SearchOptions,
    bos_id: int,
    eos_id: int,
    forbidden_ids: Sequence[int] = (),
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, best first.

    Args:
        step: a model that was given the sources and no target yet.
        source_lengths: S of each sentence, EOS included.
        options: beam_size 1 is greedy.
        bos_id: what the first step is given.
        eos_id: what ends a hypothesis.
        forbidden_ids: tokens never produced; they keep their share of probability.
        device: where `step` wants its tokens and gives its logits.

    Returns:
        For each sentence, in the order given, n_best distinct hypotheses: finished ones by falling score,
        then those the limit cut, by falling score. Fewer only where fewer are possible, or where the bans
        leave the live prefixes no next token.

    Raises:
        ConfigError: min_length above a limit, EOS forbidden, ids beyond the vocabulary.
        DragomanError: logits that are not finite.
    """
    task = SearchTask.of(
        source_lengths,
        options=options,
        bos_id=bos_id,
        eos_id=eos_id,
        forbidden_ids=forbidden_ids,
        device=device,
    )
    return search_of(step, task)


def search_of(step: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
    """`beam_search` of a task as it stands."""
    with torch.no_grad():
        return greedy_search(step, task) if task.options.beam_size == 1 else _beam_search(step, task)


def _beam_search(step: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
    state, tokens_BK = _State.start(task), task.first_tokens()
    found: dict[int, list[Hypothesis]] = {}
    while state.rows:
        logits = checked_logits(step(tokens_BK), tokens_BK)
        if task.bans_change_at(state.length + 1):
            banned = task.banned_ids(state.length + 1)
            bans = Bans.of(banned, vocab_size=logits.shape[-1], device=logits.device)
        best = best_continuations(
            logits, state.log_probabilities_BK, count=2 * task.options.beam_size, bans=bans
        )
        state, parents_BK = state.continued(best, task)
        done, staying = split_positions(state.is_done(task.options).tolist(), device=task.device)
        if len(done):
            found.update(state.keep(done).outputs(task.options))
            state, parents_BK = state.keep(staying), parents_BK[staying]
        if state.rows:
            step.reorder(staying, parents_BK)
            tokens_BK = state.tokens_BKT[:, :, -1].contiguous()
    return [found[row] for row in range(len(task.limits))]


@dataclass(frozen=True)
class _State:
    """The sentences still searched: live prefixes, best first, and pools.

    Args:
        rows: the place of each sentence among those the search was given.
        limits_B: N of each.
        penalties: lp(0) ... lp(N + 1) for the largest N.
        tokens_BKT: the live prefixes.
        log_probabilities_BK: their log P; -inf where there are fewer than k.
        pool: the finished hypotheses.
    """

    rows: list[int]
    limits_B: Int64[Tensor, " B"]
    penalties: Float[Tensor, " lengths"]
    tokens_BKT: Int64[Tensor, "B K T"]
    log_probabilities_BK: Float[Tensor, "B K"]
    pool: Pool

    @classmethod
    def start(cls, task: SearchTask) -> _State:
        """One empty prefix a sentence, and empty pools."""
        sentences, device, dtype = len(task.limits), task.device, accumulator_type(task.device)
        longest, options = max(task.limits, default=0) + 1, task.options
        return cls(
            rows=list(range(sentences)),
            limits_B=task.limits_tensor(),
            penalties=penalty_table(
                longest, alpha=options.alpha, device=device, dtype=dtype, penalty=options.penalty
            ),
            tokens_BKT=torch.zeros((sentences, 1, 0), dtype=torch.int64, device=device),
            log_probabilities_BK=torch.zeros((sentences, 1), dtype=dtype, device=device),
            pool=Pool.empty(sentences, options.beam_size, device=device, dtype=dtype),
        )

    @property
    def length(self) -> int:
        """m, the tokens of each live prefix."""
        return self.tokens_BKT.shape[2]

    def continued(self, best: Continuations, task: SearchTask) -> tuple[_State, Int64[Tensor, "B K"]]:
        """One token further: what ends enters the pool, the k best others live on, with their parents."""
        tokens_BCT = torch.cat([picked(self.tokens_BKT, best.parents_BC), best.tokens_BC.unsqueeze(2)], 2)
        ends_BC = best.tokens_BC == task.eos_id
        penalty = task.options.lp(self.length + 1)
        pool = self.pool.add(tokens_BCT, best.values_BC.masked_fill(~ends_BC, DEAD), penalty=penalty)
        values, order = best.values_BC.masked_fill(ends_BC, DEAD).sort(dim=1, descending=True, stable=True)
        values, order = values[:, : task.options.beam_size], order[:, : task.options.beam_size]
        live = _State(self.rows, self.limits_B, self.penalties, picked(tokens_BCT, order), values, pool)
        return live, best.parents_BC.gather(1, order)

    def is_done(self, options: SearchOptions) -> Bool[Tensor, " B"]:
        """Whether no live prefix can change what will be returned, or the limit is reached."""
        bounds_B = score_bounds(
            self.log_probabilities_BK[:, 0],
            length=self.length,
            limits=self.limits_B,
            penalties=self.penalties,
            alpha=options.alpha,
        )
        # Without a live prefix the bound is -inf, which an empty place of the pool (-inf) reaches as well.
        return (self.pool.scores_BP[:, options.n_best - 1] >= bounds_B) | (self.limits_B == self.length)

    def keep(self, sentences: Int64[Tensor, " n"]) -> _State:
        """The state of some sentences."""
        return _State(
            [self.rows[k] for k in sentences.tolist()],
            self.limits_B[sentences],
            self.penalties,
            self.tokens_BKT[sentences],
            self.log_probabilities_BK[sentences],
            self.pool.keep(sentences),
        )

    def outputs(self, options: SearchOptions) -> dict[int, list[Hypothesis]]:
        """By row, the n_best hypotheses of sentences that are done: finished ones, then live ones, cut."""
        finished = self.pool.hypotheses(options.n_best)
        penalty = options.lp(self.length)
        prefixes, log_probabilities = self.tokens_BKT.tolist(), self.log_probabilities_BK.tolist()
        outputs = {}
        for k, row in enumerate(self.rows):
            cut = [
                Hypothesis(tuple(tokens), value, value / penalty, finished=False)
                for tokens, value in zip(prefixes[k], log_probabilities[k], strict=True)
                if value > DEAD
            ]
            outputs[row] = (finished[k] + cut)[: options.n_best]
        return outputs
