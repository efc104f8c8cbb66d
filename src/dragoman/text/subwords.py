"""Subwords: a SentencePiece model, trained here or elsewhere, behind one numbering of the pieces.

Paper: 5.1
Silent: which pieces are special and where they stand; here padding 0, end 1, begin 2, unknown 3, whatever the
model's own numbers, and 4 onwards the other pieces in the model's order.
"""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import sentencepiece

from dragoman.errors import CHECK_ROOM, CheckpointError, ConfigError, DataError
from dragoman.text.bpe_dropout import MergeTable
from dragoman.text.lines import replacing
from dragoman.text.normalize import SPACE_MARK, normalize
from dragoman.text.sentencepiece_format import ModelFacts, read_facts, read_whole_pieces
from dragoman.text.subword_training import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SENTENCEPIECE_LIMIT_BYTES,
    UNK_ID,
    SizePolicy,
    SubwordSettings,
    TrainingReport,
    UnitStreams,
    train_model,
)

__all__ = ["SizePolicy", "Subwords", "TrainingReport"]

_SPECIAL_NAMES = ("<pad>", "</s>", "<s>", "<unk>")
_UNKNOWN_SURFACE = "\u2047"
_NOT_IN_MODEL = -1


class Subwords:
    """Text to ids and back.

    Ids 0 to 3 are padding, end, begin and unknown for every model. A `.model` trained elsewhere with other
    numbers for them, or without some of them, works the same: its pieces are renumbered, and `model_ids`
    tells its own number of each. Immutable; copies and pickles as the bytes of its model.

    For models trained here, decode(encode(x)) == normalize(x) for every string x; one trained elsewhere
    also applies the normalization stored in it, which `normalization` names.
    """

    PAD_ID: ClassVar[int] = PAD_ID
    EOS_ID: ClassVar[int] = EOS_ID
    BOS_ID: ClassVar[int] = BOS_ID
    UNK_ID: ClassVar[int] = UNK_ID

    def __init__(
        self, processor: sentencepiece.SentencePieceProcessor, model: bytes, facts: ModelFacts
    ) -> None:
        """Use `load`, `from_bytes` or `train`."""
        self._processor = processor
        self._model = model
        self._facts = facts
        self.training_report: TrainingReport | None = None
        self._number_pieces()

    def _number_pieces(self) -> None:
        model, size = self._processor, self._processor.get_piece_size()
        special = (model.pad_id(), model.eos_id(), model.bos_id(), model.unk_id())
        others = [piece for piece in range(size) if piece not in special]
        self.model_ids: tuple[int, ...] = (*special, *others)  # -1: the model has no such piece
        ids = [0] * size
        for number, piece in enumerate(self.model_ids):
            if piece != _NOT_IN_MODEL:
                ids[piece] = number
        self._ids = ids
        self._same_numbers = ids == list(range(size)) and len(self.model_ids) == size
        self._pieces = [
            _SPECIAL_NAMES[number] if piece == _NOT_IN_MODEL else model.id_to_piece(piece)
            for number, piece in enumerate(self.model_ids)
        ]
        self._surfaces = [self._surface(number) for number in range(len(self._pieces))]
        self._byte_ids = {self._surfaces[k]: k for k in range(len(self._pieces)) if self._is_byte(k)}
        self._normalizes_nothing = model.normalize("  \u00c5 ") == f"{SPACE_MARK * 3}\u00c5{SPACE_MARK}" and (
            self._facts.normalization == "identity"
        )

    # --- making, reading, writing

    @classmethod
    def train(
        cls,
        units: UnitStreams,
        *,
        vocab_size: int,
        size_policy: SizePolicy = "nearest",
        seed: int = 1,
        share: float = 1.0,
        byte_fallback: bool = True,
        character_coverage: float | None = None,
        max_bytes: int = SENTENCEPIECE_LIMIT_BYTES,
    ) -> Subwords:
        """Train BPE subwords; `training_report` of the result says on what.

        Args:
            units: the text in a stream, or several by name, which are trained on jointly. What can be read
                only once cannot be adapted when `vocab_size` is too small for its characters.
            vocab_size: see `SubwordSettings`, as for all that follow.
            size_policy: "exact" or "nearest".
            seed: for `share`.
            share: of the units to train on.
            byte_fallback: so that no text is unknown.
            character_coverage: share of the characters that are pieces.
            max_bytes: longer units are left out and reported.

        Raises:
            DataError: no unit can be used; or whatever reading the units raises.
            ConfigError: a setting is not possible, or the vocabulary size does not fit the text.
        """
        settings = SubwordSettings(
            vocab_size=vocab_size,
            size_policy=size_policy,
            seed=seed,
            share=share,
            byte_fallback=byte_fallback,
            character_coverage=character_coverage,
            max_bytes=max_bytes,
        )
        trained = train_model(units, settings)
        subwords = cls.from_bytes(trained.model)
        subwords.training_report = trained.report
        return subwords

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Subwords:
        """Read a `.model` file.

        Raises:
            CheckpointError: the file cannot be read or is no whole SentencePiece model.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise CheckpointError(
                f"the subword model cannot be read: {error.strerror or error}",
                where=os.fspath(path),
                cure="check the path",
            ) from error
        return cls.from_bytes(data, name=os.fspath(path))

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str = "subword model") -> Subwords:
        """Make subwords from the bytes of a `.model` file, called `name` in errors.

        Raises:
            CheckpointError: the bytes are no whole SentencePiece model.
        """
        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(data)
            facts = read_facts(data)
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(
                "this is not a SentencePiece model, or it is damaged",
                where=name,
                cure="give a .model file as SentencePiece writes it (not its .vocab)",
            ) from error
        return cls(processor, data, facts)

    def to_bytes(self) -> bytes:
        """The bytes of the `.model` file, exactly as read or trained."""
        return self._model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the `.model` file, whole or not at all.

        Raises:
            CheckpointError: it cannot be written.
        """
        try:
            with replacing(Path(os.path.realpath(path))) as stream:
                stream.write(self._model)
        except OSError as error:
            raise CheckpointError(
                f"the subword model cannot be written: {error.strerror or error}",
                where=os.fspath(path),
                cure=CHECK_ROOM,
            ) from error

    def __reduce__(self) -> tuple[object, ...]:
        return Subwords.from_bytes, (self._model,), {"training_report": self.training_report}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subwords) and self._model == other._model

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Subwords(vocab_size={self.vocab_size}, digest={self.digest[:12]})"

    # --- what it is

    @property
    def vocab_size(self) -> int:
        """Number of ids, special ones included."""
        return len(self._pieces)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the model's bytes, in hexadecimal."""
        return hashlib.sha256(self._model).hexdigest()

    @property
    def normalization(self) -> str:
        """Name of the normalization stored in the model: "identity" for those trained here."""
        return self._facts.normalization or "unnamed"

    @property
    def has_byte_fallback(self) -> bool:
        """Whether all 256 bytes are pieces, so that no text is unknown."""
        return len(self._byte_ids) == 256

    @cached_property
    def forbidden_ids(self) -> tuple[int, ...]:
        """Ids no translation may hold: padding, begin and other controls but the end; what would break a
        line (LF, CR); the unknown piece where bytes can write everything.
        """
        forbidden = {self.PAD_ID, self.BOS_ID}
        forbidden |= {k for k in range(self.vocab_size) if self._is_control(k) and k != self.EOS_ID}
        forbidden |= {k for k, surface in enumerate(self._surfaces) if b"\n" in surface or b"\r" in surface}
        if self.has_byte_fallback:
            forbidden.add(self.UNK_ID)
        return tuple(sorted(forbidden))

    # --- text to ids

    def normalize(self, text: str) -> str:
        """What remains of a text after encoding and decoding it, where nothing is unknown.

        That is `dragoman.text.normalize.normalize`, and then the model's own normalization if it has one.
        """
        text = normalize(text)
        if self._normalizes_nothing:
            return text
        marked: str = self._processor.normalize(text)
        if self._facts.adds_space and marked:
            marked = marked[:-1] if self._facts.space_is_suffix else marked[1:]
        return marked.replace(SPACE_MARK, " ")

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin and end. No text gives a control id, whatever it spells."""
        return self._renumber(self._processor.encode(normalize(text)))

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` for each text, faster."""
        encoded = self._processor.encode([normalize(text) for text in texts])
        return encoded if self._same_numbers else [self._renumber(ids) for ids in encoded]

    def encode_with_dropout(self, text: str, p: float, seed: int) -> list[int]:
        """The ids of a text cut with BPE-dropout (Provilkov et al. 2020), the same for the same arguments.

        Args:
            text: the text.
            p: probability of leaving a merge out; 0 gives `encode`, 1 single characters. Theirs is 0.1.
            seed: 0 or more; take another for each text and epoch.

        Raises:
            ConfigError: `p` is no probability, `seed` negative, or the model is not BPE.
        """
        if not 0 <= p <= 1:
            raise ConfigError(f"the dropout of merges is {p}", cure="use a probability, from 0 to 1")
        if seed < 0:
            raise ConfigError(f"the seed is {seed}", cure="use 0 or more")
        marked = self._processor.normalize(normalize(text))
        return self._ids_with_fallback(self._merges.segment(marked, p=p, seed=seed))

    def encode_inside(self, text: str) -> list[int]:
        """The ids of a text that goes on where another has ended: no space is put before it.

        Raises:
            ConfigError: the model is not BPE.
        """
        marked: str = self._processor.normalize(normalize(text))
        if self._facts.adds_space and marked:
            marked = marked[:-1] if self._facts.space_is_suffix else marked[1:]
        return self._ids_with_fallback(self._merges.segment(marked, p=0.0, seed=0))

    @cached_property
    def _merges(self) -> MergeTable:
        if self._facts.kind != "bpe":
            raise ConfigError(
                f"BPE-dropout and texts inside others need a BPE model; this one is {self._facts.kind}",
                cure="train BPE subwords, or turn BPE-dropout off",
            )
        model = self._processor
        space = model.normalize("a")[:1] if self._facts.adds_space else SPACE_MARK
        return MergeTable(
            {self._pieces[k]: model.get_score(self.model_ids[k]) for k in self._mergeable.values()},
            whole=read_whole_pieces(self._model),
            space=SPACE_MARK if self._facts.space_is_suffix else space,
        )

    @cached_property
    def _mergeable(self) -> dict[str, int]:
        """Ids by piece, of those that text can be cut into; control and byte pieces are never spelled."""
        return {
            piece: k
            for k, piece in enumerate(self._pieces)
            if k > self.UNK_ID and not self._is_control(k) and not self._is_byte(k)
        }

    def _ids_with_fallback(self, pieces: Iterable[str]) -> list[int]:
        known, ids = self._mergeable, list[int]()
        for piece in pieces:
            number = known.get(piece)
            if number is not None:
                ids.append(number)
            elif self.has_byte_fallback:
                ids.extend(self._byte_ids[bytes([byte])] for byte in piece.encode("utf-8"))
            elif not ids or ids[-1] != self.UNK_ID:  # a run of unknown characters is one unknown piece
                ids.append(self.UNK_ID)
        return ids

    def _renumber(self, model_ids: list[int]) -> list[int]:
        return model_ids if self._same_numbers else [self._ids[piece] for piece in model_ids]

    # --- ids to text

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids: one unit, never with a line end in it.

        Control ids are passed over; bytes that form no UTF-8 become U+FFFD, an unknown piece U+2047.

        Raises:
            DataError: an id is not in the vocabulary.
        """
        text = b"".join([self._surfaces[k] for k in self._checked(ids)])
        return normalize(self._without_added_space(text).decode("utf-8", errors="replace"))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces of ids as the model writes them, a space as U+2581.

        Raises:
            DataError: an id is not in the vocabulary.
        """
        return [self._pieces[k] for k in self._checked(ids)]

    def ids_of(self, pieces: Iterable[str]) -> list[int]:
        """The ids of pieces; the inverse of `pieces`.

        Raises:
            DataError: a piece is not in the vocabulary.
        """
        try:
            return [self._ids_by_piece[piece] for piece in pieces]
        except KeyError as error:
            raise DataError(
                f"{error.args[0]!r} is not a piece of this vocabulary",
                cure="take pieces as `pieces` gives them",
            ) from error

    @cached_property
    def _ids_by_piece(self) -> dict[str, int]:
        return {piece: k for k, piece in reversed(list(enumerate(self._pieces)))}

    def _without_added_space(self, text: bytes) -> bytes:
        if not self._facts.adds_space:
            return text
        return text.removesuffix(b" ") if self._facts.space_is_suffix else text.removeprefix(b" ")

    def _checked(self, ids: Iterable[int]) -> list[int]:
        numbers = [operator.index(k) for k in ids]
        for number in numbers:
            if not 0 <= number < self.vocab_size:
                raise DataError(
                    f"id {number} is not in this vocabulary of {self.vocab_size}",
                    cure="take the subwords that the ids are of",
                )
        return numbers

    # --- kinds of pieces, by our numbers

    def _surface(self, number: int) -> bytes:
        piece = self._pieces[number]
        if number == self.UNK_ID:
            return _UNKNOWN_SURFACE.encode()
        if self._is_special(number):
            return b""
        if self._is_byte(number):
            return bytes([int(piece[3:5], 16)])
        return piece.replace(SPACE_MARK, " ").encode("utf-8")

    def _is_special(self, number: int) -> bool:
        return number in (self.PAD_ID, self.EOS_ID, self.BOS_ID) or self._is_control(number)

    def _is_control(self, number: int) -> bool:
        piece = self.model_ids[number]
        return piece == _NOT_IN_MODEL or self._processor.is_control(piece)

    def _is_byte(self, number: int) -> bool:
        return self.model_ids[number] != _NOT_IN_MODEL and self._processor.is_byte(self.model_ids[number])
