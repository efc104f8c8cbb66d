"""The fastest number format: measured once, remembered for the same kernels, sizes and threads."""

from __future__ import annotations

import os

import pytest
import torch
from wide_models import compiled, wide_model

from dragoman import fastest, remembered
from dragoman.fastest import fastest_products
from dragoman.native import build

pytestmark = pytest.mark.skipif(compiled is None, reason="no C++ compiler here: there is one format")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(remembered, "cache_directory", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def with_seconds(monkeypatch, seconds: dict[str, float]) -> list[str]:
    """Pretends that formats take so long; the list grows with what was measured."""
    measured = []

    def pretend(packed) -> float:
        name = ("fp32", "bf16", "int8")[packed.structure.output.layout]
        measured.append(name)
        return seconds[name]

    monkeypatch.setattr(fastest, "_seconds", pretend)
    return measured


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({"fp32": 1.0, "bf16": 0.5, "int8": 0.7}, "bf16"),
        ({"fp32": 1.0, "bf16": 0.5, "int8": 0.3}, "int8"),
        ({"fp32": 0.4, "bf16": 0.5, "int8": 0.7}, "fp32"),
        ({"fp32": 1.0, "bf16": 0.99, "int8": 0.98}, "fp32"),  # not worth their rounding
    ],
)
def test_the_fastest_is_chosen_and_a_tie_goes_to_the_finer(cache, monkeypatch, seconds, chosen):
    with_seconds(monkeypatch, seconds)
    if any(name not in compiled.formats for name in seconds):
        pytest.skip("this processor has not all of them")
    assert fastest_products(wide_model(N=1)) == chosen


def test_it_is_measured_once_for_each_size_and_number_of_threads(cache, monkeypatch):
    measured = with_seconds(monkeypatch, {"fp32": 1.0, "bf16": 0.5, "int8": 0.7})
    first = fastest_products(wide_model(N=1))
    many = len(measured)
    assert many == 3 * len(compiled.formats)
    assert fastest_products(wide_model(N=1)) == first
    assert len(measured) == many
    fastest_products(wide_model(N=2))
    assert len(measured) == 2 * many
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    fastest_products(wide_model(N=2))
    torch.set_num_threads(threads)
    assert len(measured) == 3 * many


@pytest.mark.parametrize("content", [b"", b"fp64", b"\xff\xfe"])
def test_a_damaged_memory_is_measured_anew(cache, monkeypatch, content):
    measured = with_seconds(monkeypatch, {"fp32": 1.0, "bf16": 0.5, "int8": 0.7})
    first = fastest_products(wide_model(N=1))
    (place,) = cache.iterdir()
    place.write_bytes(content)
    assert fastest_products(wide_model(N=1)) == first
    assert len(measured) == 6 * len(compiled.formats)
    assert place.read_text() == first


def test_where_nothing_can_be_written_it_is_measured_each_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(remembered, "cache_directory", lambda: tmp_path / "file" / "cache")
    measured = with_seconds(monkeypatch, {"fp32": 1.0, "bf16": 2.0, "int8": 2.0})
    assert fastest_products(wide_model(N=1)) == fastest_products(wide_model(N=1)) == "fp32"
    assert len(measured) == 6 * len(compiled.formats)


def test_the_measurement_itself(cache):
    assert fastest_products(wide_model(N=1)) in compiled.formats


def test_without_kernels_there_is_one_format(monkeypatch):
    monkeypatch.setattr(fastest, "kernels_for", lambda _weight: None)
    assert fastest_products(wide_model(N=1)) == "fp32"


def test_the_cache_is_beside_the_kernels(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build.cache_directory() == tmp_path / "dragoman"
    assert os.path.dirname(build._place()) == str(build.cache_directory())
