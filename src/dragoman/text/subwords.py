"""Subwords: SentencePiece BPE models, trained here or elsewhere, behind one set of ids.

Paper: 5.1
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dragoman.text.corpus import SkipReport

SizePolicy = Literal["exact", "nearest"]


@dataclass(frozen=True)
class TrainingReport:
    """What a training of subwords used, and what it left out."""

    units: int  # units seen
    used: int  # units trained on
    left_out: SkipReport  # by stream and number (from 1): "too long", "blank", ...
    vocab_size_asked: int
    vocab_size: int  # differs from the size asked for only under the policy "nearest"


class Subwords:
    """(stub: signatures are final)"""

    PAD_ID: ClassVar[int] = 0
    EOS_ID: ClassVar[int] = 1
    BOS_ID: ClassVar[int] = 2
    UNK_ID: ClassVar[int] = 3
    training_report: TrainingReport | None

    @classmethod
    def train(
        cls,
        units: Iterable[str] | Mapping[str, Iterable[str]],  # a mapping: one stream a name, trained jointly
        *,
        vocab_size: int,
        size_policy: SizePolicy = "nearest",
        seed: int = 1,
        share: float = 1.0,  # share of the units to train on, chosen by seed
        byte_fallback: bool = True,
        character_coverage: float | None = None,
        max_bytes: int = 4192,
    ) -> Subwords:
        raise NotImplementedError

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Subwords:
        raise NotImplementedError

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str = "subword model") -> Subwords:
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        raise NotImplementedError

    @property
    def vocab_size(self) -> int:
        raise NotImplementedError

    @property
    def digest(self) -> str:
        raise NotImplementedError

    @property
    def forbidden_ids(self) -> tuple[int, ...]:
        raise NotImplementedError

    def normalize(self, text: str) -> str:
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        raise NotImplementedError

    def encode_with_dropout(self, text: str, p: float, seed: int) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        raise NotImplementedError

    def pieces(self, ids: Sequence[int]) -> list[str]:
        raise NotImplementedError

    def ids_of(self, pieces: Sequence[str]) -> list[int]:
        raise NotImplementedError
