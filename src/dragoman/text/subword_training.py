"""Training subwords with SentencePiece's byte-pair encoding, and an account of what it was trained on.

Paper: 5.1
Silent: the program, its normalization and its limits. Here SentencePiece, whose file others read too, with
no normalization of its own (`dragoman.text.normalize` has ours), all 256 bytes as pieces for rare
characters, and the special pieces at the rows 0 to 3 in tensor2tensor's order.
"""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import sentencepiece

from dragoman.errors import ConfigError, DataError
from dragoman.text.normalize import is_blank, normalize
from dragoman.text.skips import SkipLog, SkipReport

SizePolicy = Literal["exact", "nearest"]
UnitStreams = Iterable[str] | Mapping[str, Iterable[str]]

PAD_ID, EOS_ID, BOS_ID, UNK_ID = 0, 1, 2, 3
SENTENCEPIECE_LIMIT_BYTES = 4192  # its default; longer lines are left out, which it says in a log only
BLANK = "blank"
_RESERVED = "\u2585"  # SentencePiece leaves out any line with this character, so it is trained on as a space
_SILENT = 5  # above its highest log level: what it has to say is in its exceptions


@dataclass(frozen=True)
class SubwordSettings:
    """How subwords are trained.

    Args:
        vocab_size: pieces wanted, the four special ones and the 256 bytes included.
        size_policy: when the text cannot give that many, or has more characters than that: "exact" is an
            error that names the size possible, "nearest" takes the size possible.
        seed: chooses the units when `share` is below 1.
        share: share of the units to train on, above 0, at most 1.
        byte_fallback: write a character that is no piece as its bytes, so that no text is unknown.
        character_coverage: share of the text's characters that are pieces of their own. When not given,
            0.9995 with byte fallback (SentencePiece's default), 1 without.
        max_bytes: longer units are left out of the training, and reported.
    """

    vocab_size: int
    size_policy: SizePolicy = "nearest"
    seed: int = 1
    share: float = 1.0
    byte_fallback: bool = True
    character_coverage: float | None = None
    max_bytes: int = SENTENCEPIECE_LIMIT_BYTES

    def __post_init__(self) -> None:
        coverage = self.coverage
        if self.vocab_size < 1:
            raise ConfigError(f"vocab_size is {self.vocab_size}", cure="ask for 1 subword or more")
        if self.size_policy not in ("exact", "nearest"):
            raise ConfigError(f'size_policy is "{self.size_policy}"', cure='use "exact" or "nearest"')
        if not 0 < self.share <= 1:
            raise ConfigError(f"share is {self.share}", cure="use a number above 0 and at most 1")
        if not 0.9 <= coverage <= 1:
            raise ConfigError(f"character_coverage is {coverage}", cure="use a number from 0.9 to 1")
        if self.max_bytes < 1:
            raise ConfigError(f"max_bytes is {self.max_bytes}", cure="use 1 or more")

    @property
    def coverage(self) -> float:
        """The character coverage in use."""
        if self.character_coverage is not None:
            return self.character_coverage
        return 0.9995 if self.byte_fallback else 1.0


@dataclass(frozen=True)
class TrainingReport:
    """What a training of subwords used, and what it left out."""

    units: int  # seen
    used: int  # trained on; the rest was left out, or not drawn when `share` is below 1
    left_out: SkipReport  # by name of the stream and number of the unit in it, from 1
    vocab_size_asked: int
    vocab_size: int

    def lines(self) -> list[str]:
        """What a user should be told, one line of plain text each."""
        told = self.left_out.lines()
        if self.units > self.used + self.left_out.total:
            told.append(f"trained on a sample: {self.used} of {self.units} units")
        if self.vocab_size < self.vocab_size_asked:
            told.append(
                f"{self.vocab_size} subwords, not {self.vocab_size_asked}: this text has no more to merge"
            )
        if self.vocab_size > self.vocab_size_asked:
            told.append(
                f"{self.vocab_size} subwords, not {self.vocab_size_asked}: "
                "the special pieces, bytes and characters of this text take as many"
            )
        return told


@dataclass(frozen=True)
class TrainedModel:
    """The bytes of a `.model` and the account of its training."""

    model: bytes
    report: TrainingReport


class _Feed:
    """Gives the units to the trainer, and counts."""

    def __init__(self, units: UnitStreams, settings: SubwordSettings) -> None:
        self._streams = units if isinstance(units, Mapping) else {"": units}
        self._settings = settings
        self.failure: BaseException | None = None  # the trainer would hide its kind
        self._start()

    def _start(self) -> None:
        self.seen = self.used = 0
        self.skips = SkipLog()

    def can_restart(self) -> bool:
        """Whether every stream can be read again from its start."""
        return all(iter(stream) is not stream for stream in self._streams.values())

    def __iter__(self) -> Iterator[str]:
        self._start()
        try:
            for name, stream in self._streams.items():
                yield from self._usable(name, stream)
        except GeneratorExit:
            raise
        except BaseException as error:  # what a signal raises, too
            self.failure = error
            raise

    def _usable(self, name: str, stream: Iterable[str]) -> Iterator[str]:
        draw = random.Random(self._settings.seed).random
        share, max_bytes = self._settings.share, self._settings.max_bytes
        for number, unit in enumerate(stream, 1):
            self.seen += 1
            if share < 1 and draw() >= share:
                continue
            text = normalize(unit).replace(_RESERVED, " ")
            if is_blank(text):
                self.skips.add(BLANK, number, where=name)
            elif len(text.encode("utf-8")) > max_bytes:
                self.skips.add(f"over {max_bytes} bytes", number, where=name)
            else:
                self.used += 1
                yield text


def train_model(units: UnitStreams, settings: SubwordSettings) -> TrainedModel:
    """Train a SentencePiece BPE model; the same units and settings give the same bytes.

    Args:
        units: the text, or several by name, which are trained on jointly.
        settings: see `SubwordSettings`.

    Raises:
        DataError: no unit can be used; or whatever reading the units raises.
        ConfigError: the vocabulary is too large or too small for the text, and may not be adapted.
    """
    feed = _Feed(units, settings)
    size = settings.vocab_size
    try:
        model = _train_once(feed, settings, size)
    except _TooSmall as error:
        if settings.size_policy == "exact" or not feed.can_restart():
            raise _size_error(size, "too small", error.needed) from None
        size = error.needed
        model = _train_once(feed, settings, size)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
    report = TrainingReport(feed.seen, feed.used, feed.skips.report(), settings.vocab_size, pieces)
    return TrainedModel(model, report)


class _TooSmall(Exception):
    def __init__(self, needed: int) -> None:
        self.needed = needed


def _train_once(feed: _Feed, settings: SubwordSettings, size: int) -> bytes:
    written = io.BytesIO()
    try:
        _call_trainer(iter(feed), written, settings, size)
    except RuntimeError as error:
        failure: RuntimeError | None = error
    else:
        failure = None
    if feed.failure is not None:
        raise feed.failure
    if failure is not None:
        raise _translate(failure, feed, size) from None
    return written.getvalue()


def _call_trainer(units: Iterator[str], written: io.BytesIO, settings: SubwordSettings, size: int) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=units,
        model_writer=written,
        model_type="bpe",
        vocab_size=max(size, UNK_ID + 1),  # with fewer it fails before it can say how many it needs
        hard_vocab_limit=settings.size_policy == "exact",
        character_coverage=settings.coverage,
        byte_fallback=settings.byte_fallback,
        pad_id=PAD_ID,
        eos_id=EOS_ID,
        bos_id=BOS_ID,
        unk_id=UNK_ID,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        max_sentence_length=settings.max_bytes,
        num_threads=1,
        minloglevel=_SILENT,
    )


def _translate(error: RuntimeError, feed: _Feed, size: int) -> Exception:
    message = str(error)
    if feed.used == 0:
        left_out = "; ".join(feed.skips.report().lines())
        return DataError(
            f"no usable lines to train subwords on ({left_out or 'the text is empty'})",
            cure="give text with lines that are not blank, or split the long ones",
        )
    if found := re.search(r"smaller than required_chars\. (\d+) vs (\d+)", message):
        return _TooSmall(int(found[2]))
    if found := re.search(r"value <= (\d+)", message):
        return _size_error(size, "too large", int(found[1]))
    return DataError(
        f"SentencePiece could not train on this text: {message}",
        cure="give more text, or ask for a smaller vocabulary",
    )


def _size_error(size: int, fault: str, possible: int) -> ConfigError:
    bound = "at most" if fault == "too large" else "at least"
    return ConfigError(
        f"a vocabulary of {size} subwords is {fault} for this text",
        where="vocab_size",
        cure=f'ask for {bound} {possible}, or let it be adapted (size_policy="nearest")',
    )
