"""The few facts of a SentencePiece `.model` that its library does not tell: the kind of model, its edges.

Paper: none (infrastructure)

A `.model` is a protocol buffer. Of its fields this reads the trainer's `model_type` (2.3) and
`treat_whitespace_as_suffix` (2.24), the normalizer's `name` (3.1) and `add_dummy_prefix` (3.3), and of the
pieces (1) their spelling (1.1) and `type` (1.3); everything else is skipped by its wire type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

ModelKind = Literal["unigram", "bpe", "word", "char"]

_KINDS: dict[int, ModelKind] = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
_USER_DEFINED = 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class ModelFacts:
    """How a SentencePiece model cuts, and what it does to the text before."""

    kind: ModelKind = "unigram"  # the format's defaults
    normalization: str = ""  # "identity", "nmt_nfkc", "nfkc_cf", ...
    adds_space: bool = True  # one space before the text, or after it
    space_is_suffix: bool = False


def read_facts(model: bytes) -> ModelFacts:
    """Read the facts from the bytes of a `.model` that the library has accepted.

    Raises:
        ValueError: the bytes are no protocol buffer.
    """
    parts = {number: value for number, value in _fields(model) if isinstance(value, bytes)}
    trainer = dict(_fields(parts.get(2, b"")))
    normalizer = dict(_fields(parts.get(3, b"")))
    name = normalizer.get(1, b"")
    return ModelFacts(
        kind=_KINDS.get(_number(trainer.get(3, 1)), "unigram"),
        normalization=name.decode("utf-8", errors="replace") if isinstance(name, bytes) else "",
        adds_space=bool(_number(normalizer.get(3, 1))),
        space_is_suffix=bool(_number(trainer.get(24, 0))),
    )


def read_whole_pieces(model: bytes) -> list[str]:
    """The user-defined pieces, which are found in a text before any merge and never merged."""
    whole = []
    for number, value in _fields(model):
        if number == 1 and isinstance(value, bytes):
            piece = dict(_fields(value))
            spelling = piece.get(1, b"")
            if piece.get(3) == _USER_DEFINED and isinstance(spelling, bytes) and spelling:
                whole.append(spelling.decode("utf-8", errors="replace"))
    return whole


def _number(value: int | bytes) -> int:
    return value if isinstance(value, int) else 0


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of one message as (number, value); later ones overrule earlier ones."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            size, position = _varint(message, position)
        elif wire_type in (_FIXED32, _FIXED64):
            size = 4 if wire_type == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire_type} at byte {position}")
        if position + size > len(message):
            raise ValueError(f"a field at byte {position} is cut")
        yield number, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise ValueError(f"a number at byte {position} is cut")
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
