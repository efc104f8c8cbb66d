"""Text in, translations out: subwords, batches, model and search put together.

Paper: 6.1
Silent: what to do with a text longer than the model was trained on (it is split where a sentence or a word
ends, translated in parts and joined by a space, and flagged `split`); blank units (they give blank units, score
0).

B sentences of a batch, S source positions, T target positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from dragoman import native
from dragoman.bundle import Bundle, bundle_in, open_bundle
from dragoman.data.rows import BATCH_TOKENS, as_tensor, padded_length, runs_of_one_length
from dragoman.data.shortlist import Shortlist
from dragoman.errors import ConfigError, DragomanError
from dragoman.fastest import fastest_products
from dragoman.machine import DTYPES
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.incremental_native import NativeDecoder
from dragoman.model.packed import PackedModel
from dragoman.model.transformer import Transformer
from dragoman.native.build import SWITCH, is_switched_off
from dragoman.recipe import SearchSection
from dragoman.search.beam import search_of
from dragoman.search.choices import Among
from dragoman.search.length import Penalty, length_penalty
from dragoman.search.options import SearchOptions
from dragoman.search.sampling import SamplingOptions, sample
from dragoman.search.step import Hypothesis, StepFunction
from dragoman.search.task import SearchTask
from dragoman.text.normalize import REPLACEMENT, is_blank
from dragoman.text.split import split_ids
from dragoman.text.subwords import Subwords
from dragoman.variants.parts import for_kernels
from dragoman.variants.search_rules import SearchRules
from dragoman.whole_search import search_all

Precision = Literal["fp32", "bf16", "fp16", "int8", "auto"]
Engine = Literal["auto", "exact"]

VERBS = {
    "decoder_only": "dragoman generate, dragoman evaluate",
    "encoder_only": "dragoman fill, dragoman evaluate",
}
_PARTS_A_UNIT = 1 << 20  # more parts than any unit has: keeps the random numbers of units apart


@dataclass(frozen=True)
class Alternative:
    """One hypothesis as text.

    Attributes:
        text: the translation.
        score: log P / lp(n), natural logarithm with lp(n) = ((5 + n) / 6)^alpha, or the penalty of the model's recipe.
        log_probability: log P of the pieces, EOS included.
        pieces: its subwords, without EOS; of a split unit those of all parts.
        truncated: the length limit cut it: it has no EOS.
    """

    text: str
    score: float
    log_probability: float
    pieces: tuple[str, ...]
    truncated: bool


@dataclass(frozen=True)
class Translation:
    """What became of one unit; always one for each unit, in order.

    Attributes:
        source: the unit as given.
        text: its translation.
        score, log_probability, pieces, truncated: as in `Alternative`.
        split: the unit was too long for the model and was translated in parts.
        parts: how many parts (1, or 0 for a blank unit).
        alternatives: the second to n-th best.
    """

    source: str
    text: str
    score: float
    log_probability: float
    pieces: tuple[str, ...]
    truncated: bool
    split: bool = False
    parts: int = 1
    alternatives: tuple[Alternative, ...] = ()

    @property
    def replaced(self) -> bool:
        """The source holds U+FFFD, which stands where there were bytes that are no text."""
        return REPLACEMENT in self.source

    @property
    def flags(self) -> tuple[str, ...]:
        """Names of what a reader should know: "truncated", "split", "replaced"."""
        return tuple(name for name in ("truncated", "split", "replaced") if getattr(self, name))


@dataclass(frozen=True)
class _Part:
    """A run of source tokens that fits the model, EOS last: the rank-th part of a unit."""

    unit: int
    rank: int
    ids: list[int]


# A search over parts: hypotheses of each. And one over a batch of parts, given a step function of them.
Search = Callable[[list[_Part]], list[list[Hypothesis]]]
BatchSearch = Callable[[StepFunction, list[_Part]], list[list[Hypothesis]]]


@dataclass(frozen=True)
class Translator:
    """A model with its subwords, ready to translate.

    On a CPU a unit's translation depends on the unit alone, whatever units it is translated with and in whatever order.
    The kernels in C++ make each sum in one fixed order. Where PyTorch computes, in fp32, what is computed for a sentence
    has the same shapes in any batch (the length of its padded source is a matter of its own, `linear` sees to the number
    of rows, and everything else is done row by row). On a GPU, and by PyTorch in bf16, the last bits may differ, and with
    them now and then a word.

    Attributes:
        model: in evaluation mode.
        source_subwords, target_subwords: those it was trained with.
        max_source_tokens: longest source the model is given at once, EOS included.
        batch_tokens: source positions, padding included, searched at once where PyTorch searches; fewer take less memory.
        batch_rows: most units searched at once; None: as many as are fast, or as batch_tokens allow.
        source_language, target_language: codes, or None.
        standing: one line on how the model stands to the paper.
        departures: its choices of another rule than the paper's.
        search: beam size, alpha and length limit where none are given: those of the model's recipe.
        rules: what the recipe's search does otherwise than published.
        engine: "auto": the kernels where they serve; "exact": always the equations as PyTorch computes them, and the
            search step by step, which everything else is compared with.
        products: number format of products by the kernels: "fp32", "bf16", "int8".
        shortlist: what translations may consist of, by their sources; None: of everything. `sample` has no use for it.
    """

    model: Transformer
    source_subwords: Subwords
    target_subwords: Subwords
    max_source_tokens: int = 256
    batch_tokens: int = BATCH_TOKENS
    batch_rows: int | None = None
    source_language: str | None = None
    target_language: str | None = None
    standing: str = ""
    departures: tuple[str, ...] = ()
    search: SearchSection = field(default_factory=SearchSection)
    rules: SearchRules = field(default_factory=SearchRules)
    engine: Engine = "auto"
    products: str = "fp32"
    shortlist: Shortlist | None = None
    path: Path | None = None
    _device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: str = "cpu",
        precision: Precision = "fp32",
        engine: Engine = "auto",
        shortlist: str | Path | None = None,
    ) -> Translator:
        """Loads a model bundle, or the model or newest checkpoint of a run.

        Args:
            path: a directory.
            device: "cpu", "cuda", "cuda:1", "mps".
            precision: number format of weights and of what they are multiplied with; "auto": the fastest that the
                kernels have here for a model of this size (measured once, then remembered), without them fp32.
            engine: see the attribute; "exact" wants fp32.
            shortlist: a file that `dragoman shortlist` wrote; see the attribute.

        Raises:
            CheckpointError: there is no whole model there.
            DataError, VocabularyMismatch: the shortlist cannot be read, or is of other subwords.
            ConfigError: the device is not there, or the precision or the engine has no such name, or int8 is wanted
                where there are no kernels for it.
        """
        if engine not in get_args(Engine):
            raise ConfigError(f"no engine {engine!r}", cure=f"choose from {', '.join(get_args(Engine))}")
        if engine == "exact" and precision != "fp32":
            raise ConfigError(
                f"the exact engine computes in fp32, not in {precision}", cure="leave one of them out"
            )
        if precision not in get_args(Precision):
            raise ConfigError(
                f"no precision {precision!r}", cure=f"choose from {', '.join(get_args(Precision))}"
            )
        bundle = open_bundle(bundle_in(Path(path)))
        translator = cls.of(bundle, device=usable_device(device), precision=precision)
        facts = bundle.facts
        likely = None
        if shortlist is not None:
            likely = Shortlist.load(
                Path(shortlist),
                source_subwords=facts.source_subwords,
                target_subwords=facts.target_subwords,
            )
        return replace(translator, engine=engine, shortlist=likely)

    @classmethod
    def of(cls, bundle: Bundle, *, device: torch.device, precision: Precision) -> Translator:
        """The translator of an opened bundle.

        Raises:
            ConfigError: int8 is wanted where there are no kernels for it, or none for the model's parts.
        """
        facts = bundle.facts
        if facts.stack is not None:
            raise ConfigError(
                f"this is a model of one text ({facts.stack.name}), and translates nothing",
                where=str(bundle.directory),
                cure=f"use: {VERBS[facts.stack.name]}",
            )
        kernels = native.kernels() if device.type == "cpu" else None
        departs = not for_kernels(facts.recipe.departures.architecture)  # then there are no kernels for it
        by_kernels = (
            kernels is not None and not departs and (precision == "auto" or precision in kernels.formats)
        )
        if precision == "int8" and departs:
            raise ConfigError(
                "products of 8-bit numbers are for the paper's parts, and the model has others",
                where=f"--precision int8, {bundle.manifest.standing}",
                cure="leave it out, or: --precision auto",
            )
        if precision == "int8" and not by_kernels:
            wanted = "they want a C++ compiler, and a processor with AMX, AVX-512 VNNI or AVX2"
            raise ConfigError(
                f"there are no products of 8-bit numbers here: {f'{SWITCH} is 0' if is_switched_off() else wanted}",
                where=f"--precision int8, --device {device}",
                cure="leave it out, or: --precision auto",
            )
        wide = by_kernels or precision == "auto"
        model = bundle.model(torch.float32 if wide else DTYPES[precision]).to(device)
        assert isinstance(model, Transformer)
        products = fastest_products(model) if precision == "auto" else precision
        return cls(
            model=model,
            source_subwords=facts.source_subwords,
            target_subwords=facts.target_subwords,
            max_source_tokens=facts.recipe.batch.max_length,
            source_language=facts.source_language,
            target_language=facts.target_language,
            standing=bundle.manifest.standing,
            departures=bundle.manifest.departures,
            search=facts.recipe.search,
            rules=facts.recipe.search_rules,
            path=bundle.directory,
            _device=device,
            products=products,
        )

    def translate(
        self,
        units: Sequence[str],
        *,
        beam_size: int | None = None,
        alpha: float | None = None,
        n_best: int = 1,
        min_length: int = 1,
        max_extra: int | None = None,
    ) -> list[Translation]:
        """Translates each unit; as many come back as were given, in order.

        Args:
            units: texts; a blank one (nothing but white space) has an empty translation, without the model.
            beam_size: 1 is greedy; as `search` has it where None.
            alpha: exponent of the length penalty; as `search` has it where None.
            n_best: how many translations of each; the first is the translation, the others are its
                alternatives. The k-th of a split unit joins the k-th of each part, so that its alternatives
                need not fall in score.
            min_length: fewest tokens, EOS included.
            max_extra: most tokens over the source's length, EOS included on both; as `search` has it where None.

        Raises:
            ConfigError: an option is not usable, or `units` is not a list of texts.
        """
        options = SearchOptions(
            beam_size=self.search.beam_size if beam_size is None else beam_size,
            alpha=self.search.alpha if alpha is None else alpha,
            n_best=n_best,
            min_length=min_length,
            max_extra=self.search.max_extra if max_extra is None else max_extra,
            penalty=self.penalty,
            limit=self.rules.limit if max_extra is None else None,
        )

        packed = self._packed

        def task_of(parts: list[_Part]) -> SearchTask:
            return SearchTask.of(
                [len(part.ids) for part in parts],
                options=options,
                bos_id=Subwords.BOS_ID,
                eos_id=Subwords.EOS_ID,
                forbidden_ids=self.target_subwords.forbidden_ids,
                device=self._device,
            )

        def whole(parts: list[_Part]) -> list[list[Hypothesis]]:
            assert packed is not None
            order = sorted(range(len(parts)), key=lambda k: -len(parts[k].ids))  # what takes longest first
            longest_first = [parts[k] for k in order]
            ids = [part.ids for part in longest_first]
            found = search_all(
                packed,
                ids,
                task_of(longest_first),
                most_at_once=self.batch_rows,
                choices=self._choices(longest_first),
            )
            return [
                hypotheses for _, hypotheses in sorted(zip(order, found, strict=True), key=lambda p: p[0])
            ]

        def of_batch(step: StepFunction, parts: list[_Part]) -> list[list[Hypothesis]]:
            if (choices := self._choices(parts)) is not None:
                step = Among(step, choices, self.model.config.vocab_size)
            return search_of(step, task_of(parts))

        search = whole if packed is not None else self._batch_by_batch(of_batch)
        return self._translate(units, search, options.alpha, n_best)

    def sample(
        self,
        units: Sequence[str],
        *,
        seed: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        alpha: float | None = None,
        n: int = 1,
        max_extra: int | None = None,
        first: int = 0,
    ) -> list[Translation]:
        """Draws translations instead of searching for the best; the same seed gives the same ones.

        Args:
            units: texts.
            seed: of the draws; unit k draws from (seed, k), whatever batch it is in.
            temperature: logits are divided by it.
            top_k: draw from the k most probable tokens only; 0: from all.
            top_p: draw from the fewest tokens that hold this much probability.
            alpha: for the reported score; as `search` has it where None.
            n: draws a unit.
            max_extra: as in `translate`.
            first: number of the first unit in a longer text given in runs.

        Raises:
            ConfigError: an option is not usable.
        """
        options = SamplingOptions(
            seed=seed,
            samples=n,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            alpha=self.search.alpha if alpha is None else alpha,
            max_extra=self.search.max_extra if max_extra is None else max_extra,
            penalty=self.penalty,
            limit=self.rules.limit if max_extra is None else None,
        )

        def search(step: StepFunction, parts: list[_Part]) -> list[list[Hypothesis]]:
            return sample(
                step,
                source_lengths=[len(part.ids) for part in parts],
                options=options,
                sentence_numbers=[(first + part.unit) * _PARTS_A_UNIT + part.rank for part in parts],
                bos_id=Subwords.BOS_ID,
                eos_id=Subwords.EOS_ID,
                forbidden_ids=self.target_subwords.forbidden_ids,
                device=self._device,
            )

        return self._translate(units, self._batch_by_batch(search), options.alpha, n)

    def _translate(self, units: Sequence[str], search: Search, alpha: float, n: int) -> list[Translation]:
        check_units(units, "units")
        parts = [part for number, unit in enumerate(units) for part in self._parts(number, unit)]
        by_unit: list[list[list[Hypothesis]]] = [[] for _ in units]
        for part, hypotheses in zip(parts, search(parts), strict=True):
            by_unit[part.unit].append(hypotheses)
        return [
            self._translation(unit, answers, alpha) if answers else _blank(unit, n)
            for unit, answers in zip(units, by_unit, strict=True)
        ]

    def _choices(self, parts: list[_Part]) -> list[Tensor] | None:
        return None if self.shortlist is None else [self.shortlist.choices(part.ids) for part in parts]

    def _batch_by_batch(self, search: BatchSearch) -> Search:
        def of_all(parts: list[_Part]) -> list[list[Hypothesis]]:
            found: list[list[Hypothesis]] = [[] for _ in parts]
            for numbers in self._batches([len(part.ids) for part in parts]):
                chosen = [parts[k] for k in numbers]
                step = self._decoder(self._as_tensor([part.ids for part in chosen]))
                for k, hypotheses in zip(numbers, search(step, chosen), strict=True):
                    found[k] = hypotheses
            return found

        return of_all

    @property
    def penalty(self) -> Penalty:
        """lp of n and alpha: the paper's, or that of the model's recipe."""
        return self.rules.penalty or length_penalty

    @cached_property
    def _packed(self) -> PackedModel | None:
        return None if self.engine == "exact" else PackedModel.of(self.model, self.products)

    def _decoder(self, source_ids: Tensor) -> StepFunction:
        if self._packed is None:
            return IncrementalDecoder(self.model, source_ids)
        return NativeDecoder(self._packed, source_ids)

    def _parts(self, number: int, unit: str) -> list[_Part]:
        if is_blank(unit):
            return []
        ids = self.source_subwords.encode(unit)
        runs = split_ids(ids, self.source_subwords.pieces(ids), longest=self.max_source_tokens - 1)
        return [_Part(number, rank, [*run, Subwords.EOS_ID]) for rank, run in enumerate(runs)]

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Numbers of the parts, longest first; those of one padded length, as many as fit."""
        longest_first = sorted(range(len(lengths)), key=lambda k: -lengths[k])
        padded = [padded_length(lengths[k]) for k in longest_first]
        for run in runs_of_one_length(padded, self.batch_tokens, self.batch_rows):
            yield [longest_first[j] for j in run]

    def _as_tensor(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Rows of ids, padded to the multiple above the longest."""
        length = padded_length(max(map(len, rows)))
        return as_tensor(rows, length, self._device, self.model.config.pad_id)

    def _translation(self, unit: str, answers: list[list[Hypothesis]], alpha: float) -> Translation:
        if not all(answers):
            raise DragomanError(
                "the model leaves no token that may be produced",
                where=f"unit {unit[:60]!r}",
                cure="lower min_length, or check the model: it may have diverged",
            )
        count = max(map(len, answers))
        ranked = [self._joined([a[min(rank, len(a) - 1)] for a in answers], alpha) for rank in range(count)]
        best = ranked[0]
        return Translation(
            unit,
            best.text,
            best.score,
            best.log_probability,
            best.pieces,
            best.truncated,
            split=len(answers) > 1,
            parts=len(answers),
            alternatives=tuple(ranked[1:]),
        )

    def _joined(self, hypotheses: list[Hypothesis], alpha: float) -> Alternative:
        """One hypothesis of each part, joined; log P and lengths add up."""
        subwords = self.target_subwords
        tokens = [[t for t in h.tokens if t != Subwords.EOS_ID] for h in hypotheses]
        log_probability = sum(h.log_probability for h in hypotheses)
        n = sum(len(h.tokens) for h in hypotheses)
        return Alternative(
            text=" ".join(subwords.decode(run) for run in tokens),
            score=log_probability / self.penalty(n, alpha),
            log_probability=log_probability,
            pieces=tuple(piece for run in tokens for piece in subwords.pieces(run)),
            truncated=any(h.truncated for h in hypotheses),
        )

    def score(
        self, sources: Sequence[str], targets: Sequence[str], alpha: float | None = None
    ) -> list[float]:
        """log P / lp(n) of each target given its source, in its canonical segmentation.

        The exponent of lp is `search.alpha` where `alpha` is None.

        Two blank units score 0, as `translate` says. A text may be longer than any trained on: it is scored
        whole.

        Raises:
            ConfigError: the lists differ in length, or hold something else than texts.
        """
        check_units(sources, "sources")
        check_units(targets, "targets")
        _check_counts(sources, targets)
        blank = [is_blank(s) and is_blank(t) for s, t in zip(sources, targets, strict=True)]
        ids = [[] if b else self.target_subwords.encode(t) for b, t in zip(blank, targets, strict=True)]
        return self.score_ids(sources, ids, alpha)

    def score_pieces(
        self, sources: Sequence[str], pieces: Sequence[Sequence[str]], alpha: float | None = None
    ) -> list[float]:
        """As `score`, of targets given as pieces: reproduces what `translate` reported.

        Not of units it flagged: a truncated translation has no EOS, and a split one was scored in parts.

        Raises:
            ConfigError: the lists differ in length, or a target is a text.
            DataError: a piece is not in the vocabulary.
        """
        check_units(sources, "sources")
        _check_counts(sources, pieces)
        for number, row in enumerate(pieces):
            check_units(row, f"pieces[{number}]")
        return self.score_ids(sources, [self.target_subwords.ids_of(row) for row in pieces], alpha)

    def score_ids(
        self, sources: Sequence[str], target_ids: Sequence[Sequence[int]], alpha: float | None = None
    ) -> list[float]:
        """As `score`, of target ids without BOS and EOS."""
        check_units(sources, "sources")
        _check_counts(sources, target_ids)
        alpha = self.search.alpha if alpha is None else alpha
        scores = [0.0] * len(sources)
        blank = [is_blank(s) and not t for s, t in zip(sources, target_ids, strict=True)]
        kept = [k for k in range(len(sources)) if not blank[k]]
        source_ids = {k: [*self.source_subwords.encode(sources[k]), Subwords.EOS_ID] for k in kept}
        outputs = {k: [*target_ids[k], Subwords.EOS_ID] for k in kept}
        lengths = [max(len(source_ids[k]), len(outputs[k])) for k in kept]
        for numbers in self._batches(lengths):
            rows = [kept[j] for j in numbers]
            totals = self._log_probabilities([source_ids[k] for k in rows], [outputs[k] for k in rows])
            for k, total in zip(rows, totals, strict=True):
                scores[k] = total / self.penalty(len(outputs[k]), alpha)
        return scores

    @torch.inference_mode()
    def _log_probabilities(self, sources: list[list[int]], outputs: list[list[int]]) -> list[float]:
        """log P of each output, EOS included, by one pass over all positions at once."""
        inputs = self._as_tensor([[Subwords.BOS_ID, *row[:-1]] for row in outputs])
        true = self._as_tensor(outputs)
        logits = self.model(self._as_tensor(sources), inputs).float()
        chosen = logits.gather(-1, true[:, :, None])[:, :, 0] - logits.logsumexp(dim=-1)
        is_token = torch.arange(true.shape[1], device=self._device) < torch.tensor(
            [[len(row)] for row in outputs], device=self._device
        )
        totals: list[float] = chosen.double().masked_fill(~is_token, 0.0).sum(dim=1).tolist()
        return totals


def _blank(unit: str, n: int) -> Translation:
    """A blank unit has an empty translation, as often as translations were asked for."""
    again = Alternative("", 0.0, 0.0, (), truncated=False)
    return Translation(unit, "", 0.0, 0.0, (), truncated=False, parts=0, alternatives=(again,) * (n - 1))


def _check_counts(sources: Sequence[str], targets: Sequence[object]) -> None:
    if len(sources) != len(targets):
        raise ConfigError(
            f"{len(sources)} sources but {len(targets)} targets to score",
            cure="give a target for each source",
        )


def check_units(units: Sequence[str], name: str) -> None:
    """Refuses a single text where a list of them is due, and anything in it that is no text.

    Raises:
        ConfigError: names the place.
    """
    if isinstance(units, str):
        raise ConfigError(f"{name} is one text, not a list of texts", cure=f"give [{name}]")
    if not isinstance(units, Sequence):
        raise ConfigError(f"{name} is {type(units).__name__}, not a list of texts", cure=f"give list({name})")
    for number, unit in enumerate(units):
        if not isinstance(unit, str):
            raise ConfigError(
                f"{name}[{number}] is {type(unit).__name__}, not a text", where=name, cure="give texts alone"
            )


def usable_device(name: str) -> torch.device:
    """The device of that name.

    Raises:
        ConfigError: there is none here.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        known = "cpu, cuda, cuda:1, mps"
        raise ConfigError(f"device {name!r} is none of {known}", cure="use --device cpu") from None
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError(
            f"device {name!r} cannot be used: this PyTorch or this machine has no MPS",
            cure="use --device cpu",
        )
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).split("\n")[0]
        raise ConfigError(f"device {name!r} cannot be used: {reason}", cure="use --device cpu") from None
    if device.type == "meta":
        raise ConfigError(f"device {name!r} computes nothing", cure="use --device cpu")
    return device
