"""One call of a search, checked: the options, the special ids and the length limit of each sentence.

Paper: none (infrastructure)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from dragoman.search.length import length_limits
from dragoman.search.options import SearchOptions, check_ids


@dataclass(frozen=True, slots=True)
class SearchTask:
    """What a search over a batch is given besides the step function.

    Args:
        limits: N of each sentence.
        options: how to search.
        bos_id: what the first step is given.
        eos_id: what ends a hypothesis.
        forbidden_ids: tokens never produced.
        device: of the step function.
    """

    limits: tuple[int, ...]
    options: SearchOptions
    bos_id: int
    eos_id: int
    forbidden_ids: tuple[int, ...]
    device: torch.device

    @classmethod
    def of(
        cls,
        source_lengths: Sequence[int],
        *,
        options: SearchOptions,
        bos_id: int,
        eos_id: int,
        forbidden_ids: Sequence[int],
        device: torch.device | str,
    ) -> SearchTask:
        """The task, or ConfigError where it makes no sense."""
        check_ids(bos_id=bos_id, eos_id=eos_id, forbidden_ids=forbidden_ids)
        limits = length_limits(
            source_lengths,
            max_extra=options.max_extra,
            min_length=options.min_length,
            limit=options.limit,
        )
        return cls(tuple(limits), options, bos_id, eos_id, tuple(forbidden_ids), torch.device(device))

    def banned_ids(self, length: int) -> tuple[int, ...]:
        """The tokens that must not be the `length`-th; they change at 1 and at min_length only."""
        early = (self.eos_id,) if length < self.options.min_length else ()
        return self.forbidden_ids + early

    def bans_change_at(self, length: int) -> bool:
        """Whether `banned_ids(length)` may differ from those one token before."""
        return length in (1, self.options.min_length)

    def first_tokens(self) -> Int64[Tensor, "B 1"]:
        """BOS for each sentence."""
        return torch.full((len(self.limits), 1), self.bos_id, dtype=torch.int64, device=self.device)

    def limits_tensor(self) -> Int64[Tensor, " B"]:
        """`limits` on the device."""
        return torch.tensor(self.limits, dtype=torch.int64, device=self.device)


def split_positions(
    is_done: Sequence[bool], *, device: torch.device
) -> tuple[Int64[Tensor, " d"], Int64[Tensor, " s"]]:
    """The positions of a batch that are done, and those that stay; each ascending."""
    done = [k for k, flag in enumerate(is_done) if flag]
    staying = [k for k, flag in enumerate(is_done) if not flag]
    as_tensor = [torch.tensor(part, dtype=torch.int64, device=device) for part in (done, staying)]
    return as_tensor[0], as_tensor[1]
