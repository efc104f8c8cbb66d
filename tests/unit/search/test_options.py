"""Options are checked when they are made.

Paper: 6.1
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.search import SamplingOptions, SearchOptions
from dragoman.search.options import check_ids


def test_defaults_are_the_papers() -> None:
    options = SearchOptions()
    assert (options.beam_size, options.alpha, options.max_extra) == (4, 0.6, 50)
    assert (options.n_best, options.min_length) == (1, 1)


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SearchOptions().beam_size = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beam_size", 0),
        ("beam_size", -1),
        ("beam_size", 1_001),
        ("beam_size", 2.0),
        ("beam_size", True),
        ("beam_size", "4"),
        ("n_best", 0),
        ("min_length", 0),
        ("max_extra", -1),
        ("alpha", math.nan),
        ("alpha", math.inf),
        ("alpha", 10.5),
        ("alpha", None),
        ("alpha", False),
    ],
)
def test_bad_search_options(name: str, value: Any) -> None:
    """Checked by ourselves, hence without the tests' type checker in between."""
    with pytest.raises(Exception, match=name) as caught:
        SearchOptions(**{name: value})
    if isinstance(value, int | float) and not isinstance(value, bool) and value != 2.0:
        assert isinstance(caught.value, ConfigError)
        assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("samples", 0),
        ("samples", 10_001),
        ("temperature", 0.0),
        ("temperature", -1.0),
        ("temperature", math.nan),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("alpha", -11.0),
        ("min_length", 0),
        ("max_extra", -1),
    ],
)
def test_bad_sampling_options(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        SamplingOptions(**{"seed": 1, name: value})


def test_more_than_the_beam_holds() -> None:
    with pytest.raises(ConfigError, match="n_best 5 is above beam_size 4") as caught:
        SearchOptions(n_best=5)
    assert caught.value.cure is not None
    assert "at least 5" in caught.value.cure
    assert SearchOptions(n_best=5, beam_size=5).n_best == 5


def test_eos_cannot_be_forbidden() -> None:
    with pytest.raises(ConfigError, match="EOS"):
        check_ids(bos_id=2, eos_id=1, forbidden_ids=[0, 1])
    check_ids(bos_id=2, eos_id=1, forbidden_ids=[0, 2])


@pytest.mark.parametrize("ids", [(-1, 1, []), (2, -1, []), (2, 1, [-5])])
def test_negative_ids_are_refused(ids: tuple[int, int, list[int]]) -> None:
    with pytest.raises(ConfigError, match=r"_ids? is -"):
        check_ids(bos_id=ids[0], eos_id=ids[1], forbidden_ids=ids[2])
