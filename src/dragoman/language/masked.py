"""A masked language model at work: hidden words filled in, and how well the words of texts are known from the others.

Later: Devlin et al. 2018, arXiv:1810.04805; Salazar et al. 2020, "Masked Language Model Scoring", arXiv:1910.14659

A mark in a line stands for one hidden subword. A subword that begins a word has its space with it, so the space before a
mark belongs to what the mark stands for. Of several marks in a line, each is filled in by itself, the others hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.bundle import Bundle, bundle_in, open_bundle
from dragoman.data.rows import as_tensor, padded_length, runs_of_one_length
from dragoman.errors import ConfigError
from dragoman.language.model import Precision
from dragoman.machine import DTYPES
from dragoman.search.rescore import token_log_probabilities
from dragoman.text.subwords import Subwords
from dragoman.translator import check_units, usable_device
from dragoman.variants.encoder_only import MASK_ID, EncoderOnly

MARK = "<mask>"
GUESSES = 5


@dataclass(frozen=True)
class Guess:
    """What may stand in a marked place.

    Attributes:
        piece: the subword, a space as U+2581.
        probability: of it among all subwords.
        text: the line with it, and with the best guesses at the other marks.
    """

    piece: str
    probability: float
    text: str


@dataclass(frozen=True)
class Filled:
    """What became of one line; always one for each, in order.

    Attributes:
        source: the line as given.
        text: with the best guess at each mark; a line without marks as it is.
        guesses: the best at each mark, most probable first.
    """

    source: str
    text: str
    guesses: tuple[tuple[Guess, ...], ...]


@dataclass(frozen=True)
class Known:
    """How well the tokens of a text are known, each from all the others.

    Attributes:
        log_probability: sum of the log P of each token given the others, EOS not among them: the pseudo-log-likelihood.
        right: how many tokens are the most probable ones in their places.
        tokens: how many there are.
    """

    log_probability: float
    right: int
    tokens: int


@dataclass(frozen=True)
class MaskedLanguageModel:
    """An encoder alone with its subwords, ready to fill in.

    Attributes:
        model: in evaluation mode.
        subwords: those it was trained with.
        language: code, or None.
        standing: one line on how the model stands to the paper.
        departures: its choices of another rule than the paper's.
    """

    model: EncoderOnly
    subwords: Subwords
    language: str | None = None
    standing: str = ""
    departures: tuple[str, ...] = ()
    path: Path | None = None
    _device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def load(
        cls, path: str | Path, *, device: str = "cpu", precision: Precision = "fp32"
    ) -> MaskedLanguageModel:
        """Loads a model bundle, or the model or newest checkpoint of a run.

        Raises:
            CheckpointError: there is no whole model there.
            ConfigError: it is no masked language model, or the device is not there.
        """
        return cls.of(open_bundle(bundle_in(Path(path))), device=usable_device(device), precision=precision)

    @classmethod
    def of(cls, bundle: Bundle, *, device: torch.device, precision: Precision) -> MaskedLanguageModel:
        """The masked language model of an opened bundle.

        Raises:
            ConfigError: it is none.
        """
        facts = bundle.facts
        model = bundle.model(DTYPES[precision]).to(device)
        if not isinstance(model, EncoderOnly):
            verb = "dragoman translate" if facts.stack is None else "dragoman generate"
            raise ConfigError(
                "this is no masked language model",
                where=f"{bundle.directory}: {bundle.manifest.standing}",
                cure=f"use: {verb}; or train one: dragoman train PREPARED --recipe masked-lm --out RUN",
            )
        return cls(
            model=model,
            subwords=facts.source_subwords,
            language=facts.source_language,
            standing=bundle.manifest.standing,
            departures=bundle.manifest.departures,
            path=bundle.directory,
            _device=device,
        )

    def fill(self, lines: Sequence[str], *, n_best: int = GUESSES, mark: str = MARK) -> list[Filled]:
        """What stands at the marks; as many lines come back as were given, in order.

        Args:
            lines: texts with marks in them.
            n_best: guesses at each mark.
            mark: how a hidden subword is written.

        Raises:
            ConfigError: there are not so many guesses, the mark is empty, or `lines` is not a list of texts.
        """
        check_units(lines, "lines")
        most = self.subwords.vocab_size - len(self._no_guesses())
        if not 1 <= n_best <= most:
            raise ConfigError(f"n_best is {n_best}", where="n_best", cure=f"give a number from 1 to {most}")
        if not mark:
            raise ConfigError("the mark is empty", where="mark", cure=f"leave it out, which is {MARK}")
        rows = [self._with_marks(line, mark) for line in lines]
        marked = [k for k, row in enumerate(rows) if MASK_ID in row]
        found = {k: Filled(line, line, ()) for k, line in enumerate(lines) if k not in set(marked)}
        lengths = [padded_length(len(rows[k]) + 1) for k in marked]
        for numbers in runs_of_one_length(lengths):
            some = [marked[j] for j in numbers]
            given = as_tensor([[*rows[k], Subwords.EOS_ID] for k in some], lengths[numbers[0]], self._device)
            for k, p in zip(some, self._probabilities(given), strict=True):
                found[k] = self._filled(lines[k], rows[k], p, n_best)
        return [found[k] for k in range(len(lines))]

    def _with_marks(self, line: str, mark: str) -> list[int]:
        """The ids of a line, `MASK_ID` for each mark."""
        parts = line.split(mark)
        ids = self.subwords.encode(parts[0].removesuffix(" ") if len(parts) > 1 else parts[0])
        for number, part in enumerate(parts[1:], start=2):
            ids += [
                MASK_ID,
                *self.subwords.encode_inside(part.removesuffix(" ") if number < len(parts) else part),
            ]
        return ids

    def _no_guesses(self) -> list[int]:
        """Ids that are no text."""
        return sorted({*self.subwords.forbidden_ids, Subwords.EOS_ID, MASK_ID})

    @torch.inference_mode()
    def _probabilities(self, given: Tensor) -> Float[Tensor, "B S V"]:
        p: Tensor = self.model(given).float().softmax(dim=-1)
        return p

    def _filled(self, line: str, row: list[int], p: Float[Tensor, "S V"], n_best: int) -> Filled:
        places = [place for place, token in enumerate(row) if token == MASK_ID]
        at_places = p[places].cpu()
        at_places[:, self._no_guesses()] = -1.0
        ranked = at_places.sort(dim=-1, descending=True, stable=True)
        best = list(row)
        for place, tokens in zip(places, ranked.indices.tolist(), strict=True):
            best[place] = tokens[0]
        guesses = []
        for place, values, tokens in zip(
            places, ranked.values[:, :n_best].tolist(), ranked.indices[:, :n_best].tolist(), strict=True
        ):
            texts = [self.subwords.decode([*best[:place], token, *best[place + 1 :]]) for token in tokens]
            guesses.append(tuple(map(Guess, self.subwords.pieces(tokens), values, texts)))
        return Filled(line, self.subwords.decode(best), tuple(guesses))

    def known(self, texts: Sequence[str]) -> list[Known]:
        """How well the tokens of each text are known, one being hidden at a time.

        Raises:
            ConfigError: `texts` is not a list of texts.
        """
        check_units(texts, "texts")
        return self.known_ids([self.subwords.encode(text) for text in texts])

    def known_ids(self, rows: Sequence[Sequence[int]]) -> list[Known]:
        """As `known`, of ids without EOS."""
        places = [(k, place) for k, row in enumerate(rows) for place in range(len(row))]
        totals, right = [0.0] * len(rows), [0] * len(rows)
        for (k, _), found in zip(places, self.known_at(rows, places), strict=True):
            totals[k] += found.log_probability
            right[k] += found.right
        return [Known(totals[k], right[k], len(row)) for k, row in enumerate(rows)]

    @torch.inference_mode()
    def known_at(self, rows: Sequence[Sequence[int]], places: Sequence[tuple[int, int]]) -> list[Known]:
        """How well single tokens are known, each as if it alone were hidden.

        Args:
            rows: ids without EOS.
            places: number of a row, and place in it.
        """
        found: list[Known] = [Known(0.0, 0, 1)] * len(places)
        lengths = [padded_length(len(rows[k]) + 1) for k, _ in places]
        for numbers in runs_of_one_length(lengths):
            some = [places[j] for j in numbers]
            given = as_tensor([_hidden(rows[k], at) for k, at in some], lengths[numbers[0]], self._device)
            each, at = torch.arange(len(some)), torch.tensor([at for _, at in some])
            wanted = torch.tensor([rows[k][at] for k, at in some], device=self._device)
            logits = self.model.logits(self.model.hidden(given, given)[each, at][:, None]).float()
            log_p = token_log_probabilities(logits, wanted[:, None])[:, 0].tolist()
            best = (logits[:, 0].argmax(dim=-1) == wanted).tolist()
            for j, value, is_best in zip(numbers, log_p, best, strict=True):
                found[j] = Known(value, int(is_best), 1)
        return found


def _hidden(row: Sequence[int], place: int) -> list[int]:
    """A text with one token hidden, EOS at its end."""
    return [*row[:place], MASK_ID, *row[place + 1 :], Subwords.EOS_ID]
