"""A language model at work: texts continued, and how probable texts are.

Later: Radford et al. 2018; Liu et al. 2018, arXiv:1801.10198

A text is a line; the model ends it with EOS. What was drawn or found for a prompt depends on the prompt alone, whatever
prompts are beside it, as for `Translator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from dragoman.bundle import Bundle, bundle_in, open_bundle
from dragoman.data.rows import BATCH_TOKENS, as_tensor, padded_length, runs_of_one_length
from dragoman.errors import ConfigError, DragomanError
from dragoman.machine import DTYPES
from dragoman.recipe import SearchSection
from dragoman.search.beam import beam_search
from dragoman.search.length import length_penalty
from dragoman.search.options import SearchOptions, check_integer
from dragoman.search.rescore import token_log_probabilities
from dragoman.search.sampling import SamplingOptions, sample
from dragoman.search.step import Hypothesis, StepFunction
from dragoman.text.normalize import is_blank
from dragoman.text.subwords import Subwords
from dragoman.translator import Alternative, check_units, usable_device
from dragoman.variants.decoder_only import DecoderOnly, PromptedDecoder
from dragoman.variants.search_rules import SearchRules

Precision = Literal["fp32", "bf16", "fp16"]

# A search over prompts, given by their numbers and a step function of them.
_Search = Callable[[StepFunction, list[int]], list[list[Hypothesis]]]


@dataclass(frozen=True)
class Continuation:
    """What became of one prompt; always one for each, in order.

    Attributes:
        prompt: as given.
        text: the prompt and what was put after it.
        score: log P of what was put after it over the length penalty.
        log_probability: log P of what was put after it, EOS included, in nats.
        pieces: its subwords, without EOS.
        truncated: the limit cut it.
        alternatives: further draws, or the second to n-th best.
    """

    prompt: str
    text: str
    score: float
    log_probability: float
    pieces: tuple[str, ...]
    truncated: bool
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True)
class LanguageModel:
    """A decoder alone with its subwords, ready to continue texts.

    Attributes:
        model: in evaluation mode.
        subwords: those it was trained with.
        max_tokens: most tokens that are put after a prompt where no number is given: what a line it was trained on has.
        language: code, or None.
        standing: one line on how the model stands to the paper.
        departures: its choices of another rule than the paper's.
        search: alpha where none is given: that of the model's recipe.
        rules: what the recipe's search does otherwise than published.
    """

    model: DecoderOnly
    subwords: Subwords
    max_tokens: int = 256
    language: str | None = None
    standing: str = ""
    departures: tuple[str, ...] = ()
    search: SearchSection = field(default_factory=SearchSection)
    rules: SearchRules = field(default_factory=SearchRules)
    path: Path | None = None
    _device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu", precision: Precision = "fp32") -> LanguageModel:
        """Loads a model bundle, or the model or newest checkpoint of a run.

        Raises:
            CheckpointError: there is no whole model there.
            ConfigError: it is no language model, or the device is not there.
        """
        return cls.of(open_bundle(bundle_in(Path(path))), device=usable_device(device), precision=precision)

    @classmethod
    def of(cls, bundle: Bundle, *, device: torch.device, precision: Precision) -> LanguageModel:
        """The language model of an opened bundle.

        Raises:
            ConfigError: it is none.
        """
        facts = bundle.facts
        model = bundle.model(DTYPES[precision]).to(device)
        if not isinstance(model, DecoderOnly):
            verb = "dragoman translate" if facts.stack is None else "dragoman fill"
            raise ConfigError(
                "this is no language model that continues a text",
                where=f"{bundle.directory}: {bundle.manifest.standing}",
                cure=f"use: {verb}; or train one: dragoman train PREPARED --recipe lm --out RUN",
            )
        return cls(
            model=model,
            subwords=facts.target_subwords,
            max_tokens=facts.recipe.batch.max_length,
            language=facts.target_language,
            standing=bundle.manifest.standing,
            departures=bundle.manifest.departures,
            search=facts.recipe.search,
            rules=facts.recipe.search_rules,
            path=bundle.directory,
            _device=device,
        )

    def generate(
        self,
        prompts: Sequence[str],
        *,
        beam_size: int = 1,
        alpha: float | None = None,
        n_best: int = 1,
        max_tokens: int | None = None,
    ) -> list[Continuation]:
        """The most probable continuations that a search finds; beam_size 1 takes the most probable token each time.

        Args:
            prompts: beginnings of texts; a blank one is none at all.
            beam_size, n_best: of the search.
            alpha: exponent of the length penalty; as `search` has it where None.
            max_tokens: most tokens after a prompt, EOS included; `self.max_tokens` where None.

        Raises:
            ConfigError: an option is not usable, or `prompts` is not a list of texts.
        """
        options = SearchOptions(
            beam_size=beam_size,
            n_best=n_best,
            alpha=self.search.alpha if alpha is None else alpha,
            max_extra=self._limit(max_tokens) - 1,
            penalty=self.rules.penalty or length_penalty,
        )

        def search(step: StepFunction, numbers: list[int]) -> list[list[Hypothesis]]:
            return beam_search(
                step,
                source_lengths=[1] * len(numbers),
                options=options,
                bos_id=Subwords.BOS_ID,
                eos_id=Subwords.EOS_ID,
                forbidden_ids=self.subwords.forbidden_ids,
                device=self._device,
            )

        return self._continue(prompts, search, rows_of_each=beam_size)

    def sample(
        self,
        prompts: Sequence[str],
        *,
        seed: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        n: int = 1,
        max_tokens: int | None = None,
        first: int = 0,
    ) -> list[Continuation]:
        """Continuations drawn from the model's distribution; the same seed gives the same ones.

        Args:
            prompts, max_tokens: as in `generate`.
            seed: of the draws; prompt k draws from (seed, first + k).
            temperature, top_k, top_p: as in `Translator.sample`.
            n: draws a prompt.
            first: number of the first prompt in a longer text given in runs.

        Raises:
            ConfigError: an option is not usable.
        """
        options = SamplingOptions(
            seed=seed,
            samples=n,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            alpha=self.search.alpha,
            max_extra=self._limit(max_tokens) - 1,
            penalty=self.rules.penalty or length_penalty,
        )

        def search(step: StepFunction, numbers: list[int]) -> list[list[Hypothesis]]:
            return sample(
                step,
                source_lengths=[1] * len(numbers),
                options=options,
                sentence_numbers=[first + number for number in numbers],
                bos_id=Subwords.BOS_ID,
                eos_id=Subwords.EOS_ID,
                forbidden_ids=self.subwords.forbidden_ids,
                device=self._device,
            )

        return self._continue(prompts, search, rows_of_each=n)

    def _limit(self, max_tokens: int | None) -> int:
        if max_tokens is not None:
            check_integer("max_tokens", max_tokens, least=1)
        return self.max_tokens if max_tokens is None else max_tokens

    def _continue(self, prompts: Sequence[str], search: _Search, rows_of_each: int) -> list[Continuation]:
        check_units(prompts, "prompts")
        rows = [[Subwords.BOS_ID, *([] if is_blank(p) else self.subwords.encode(p))] for p in prompts]
        found: list[list[Hypothesis]] = [[] for _ in rows]
        for numbers in runs_of_one_length(list(map(len, rows)), max(1, BATCH_TOKENS // rows_of_each)):
            length = len(rows[numbers[0]])  # of each of them: prompts are not padded
            step = PromptedDecoder(self.model, as_tensor([rows[k] for k in numbers], length, self._device))
            for k, hypotheses in zip(numbers, search(step, numbers), strict=True):
                found[k] = hypotheses
        return [
            self._continuation(prompt, row[1:], hypotheses)
            for prompt, row, hypotheses in zip(prompts, rows, found, strict=True)
        ]

    def _continuation(self, prompt: str, ids: list[int], hypotheses: list[Hypothesis]) -> Continuation:
        if not hypotheses:
            raise DragomanError(
                "the model leaves no token that may come next",
                where=f"prompt {prompt[:60]!r}",
                cure="check the model: it may have diverged",
            )
        best, *others = (self._alternative(prompt, ids, hypothesis) for hypothesis in hypotheses)
        return Continuation(
            prompt,
            best.text,
            best.score,
            best.log_probability,
            best.pieces,
            best.truncated,
            alternatives=tuple(others),
        )

    def _alternative(self, prompt: str, ids: list[int], hypothesis: Hypothesis) -> Alternative:
        """The prompt is given back as it was given, whatever subwords make of it."""
        added = [token for token in hypothesis.tokens if token != Subwords.EOS_ID]
        decoded = self.subwords.decode([*ids, *added])
        rest = decoded.removeprefix(self.subwords.decode(ids))
        return Alternative(
            text=(prompt if ids else "") + rest,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            pieces=tuple(self.subwords.pieces(added)),
            truncated=hypothesis.truncated,
        )

    def log_probabilities(self, texts: Sequence[str]) -> list[float]:
        """log P of each text in its canonical segmentation, EOS included, in nats.

        Raises:
            ConfigError: `texts` is not a list of texts.
        """
        check_units(texts, "texts")
        return self.log_probabilities_of_ids([self.subwords.encode(text) for text in texts])

    @torch.inference_mode()
    def log_probabilities_of_ids(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """As `log_probabilities`, of ids without BOS and EOS."""
        found = [0.0] * len(rows)
        lengths = [padded_length(len(row) + 1) for row in rows]
        for numbers in runs_of_one_length(lengths):
            texts, length = [rows[k] for k in numbers], lengths[numbers[0]]
            given = as_tensor([[Subwords.BOS_ID, *row] for row in texts], length, self._device)
            wanted = as_tensor([[*row, Subwords.EOS_ID] for row in texts], length, self._device)
            log_p = token_log_probabilities(self.model(given).float(), wanted)
            for k, total in zip(numbers, _sums(log_p, [len(row) + 1 for row in texts]), strict=True):
                found[k] = total
        return found


def _sums(log_p: Tensor, lengths: Sequence[int]) -> list[float]:
    """Of the first so many numbers of each row."""
    is_token = torch.arange(log_p.shape[1], device=log_p.device) < torch.tensor(
        [[length] for length in lengths], device=log_p.device
    )
    totals: list[float] = log_p.masked_fill(~is_token, 0.0).sum(dim=1).tolist()
    return totals
