"""One call of a search: what is banned when, and who leaves."""

from __future__ import annotations

import pytest
import torch

from dragoman.errors import ConfigError
from dragoman.search.options import SearchOptions
from dragoman.search.task import SearchTask, split_positions


def task_of(min_length: int, forbidden_ids: tuple[int, ...] = (0, 2)) -> SearchTask:
    return SearchTask.of(
        [3, 1],
        options=SearchOptions(min_length=min_length, max_extra=4),
        bos_id=2,
        eos_id=1,
        forbidden_ids=forbidden_ids,
        device="cpu",
    )


def test_limits_and_first_tokens() -> None:
    task = task_of(1)
    assert task.limits == (7, 5)
    assert task.limits_tensor().tolist() == [7, 5]
    assert task.first_tokens().tolist() == [[2], [2]]
    assert task.first_tokens().dtype == torch.int64


@pytest.mark.parametrize("min_length", [1, 2, 5])
def test_eos_is_banned_before_the_minimum_only(min_length: int) -> None:
    task = task_of(min_length)
    for length in range(1, 6):
        assert (1 in task.banned_ids(length)) == (length < min_length)
        assert {0, 2} <= set(task.banned_ids(length))


@pytest.mark.parametrize("min_length", [1, 2, 5])
def test_bans_change_where_it_says(min_length: int) -> None:
    task = task_of(min_length)
    for length in range(2, 6):
        if task.banned_ids(length) != task.banned_ids(length - 1):
            assert task.bans_change_at(length)
    assert task.bans_change_at(1)


def test_bad_tasks_are_refused() -> None:
    with pytest.raises(ConfigError, match="EOS"):
        task_of(1, forbidden_ids=(1,))
    with pytest.raises(ConfigError, match="sentence 1"):
        task_of(6)


def test_split_positions() -> None:
    done, staying = split_positions([True, False, False, True], device=torch.device("cpu"))
    assert done.tolist() == [0, 3]
    assert staying.tolist() == [1, 2]
    done, staying = split_positions([False], device=torch.device("cpu"))
    assert done.tolist() == []
    assert done.dtype == staying.dtype == torch.int64
