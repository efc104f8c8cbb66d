"""I03: pairs stay pairs. Prepared pair k is (source unit k, target unit k), or is left out by number."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.data.prepare import PreparedCorpus, prepare
from dragoman.errors import DataError
from dragoman.text.normalize import is_blank, normalize
from dragoman.text.subwords import Subwords

# What breaks readers of lines, beside ordinary letters and what is blank.
_ODD = "ab c\t\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\u00a0\u200b\u2581\ufeffä漢😀\x00"
UNITS = st.text(st.sampled_from(_ODD), max_size=12) | st.just("word " * 30)
PAIRS = st.lists(st.tuples(UNITS, UNITS), min_size=1, max_size=12)

_MODEL = Subwords.train(["ab c word", "a b word word"] * 3, vocab_size=280)
_FEW_TOKENS = 40


def written(path: Path, units: list[str]) -> Path:
    # A unit's last CR and a first byte-order mark are doubled, as the line rule drops one of each.
    data = b"".join(unit.encode() + (b"\r\n" if unit.endswith("\r") else b"\n") for unit in units)
    path.write_bytes(b"\xef\xbb\xbf" + data if data.startswith(b"\xef\xbb\xbf") else data)
    return path


def prepared(folder: Path, pairs: list[tuple[str, str]], seed: int) -> PreparedCorpus:
    _MODEL.save(folder / "m.model")
    return prepare(
        written(folder / "s", [source for source, _ in pairs] + ["a dev"] * 2),
        written(folder / "t", [target for _, target in pairs] + ["a dev"] * 2),
        out=folder / "out",
        dev_source=written(folder / "ds", ["dev"]),
        dev_target=written(folder / "dt", ["dev"]),
        subwords=folder / "m.model",
        max_unit_tokens=_FEW_TOKENS,
        seed=seed,
    )


def reason_to_leave_out(pair: tuple[str, str]) -> str | None:
    if any(is_blank(normalize(unit)) for unit in pair):
        return "a side is blank"
    if any(len(_MODEL.encode(unit)) >= _FEW_TOKENS for unit in pair):
        return "a side has too many tokens"
    return None


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs=PAIRS, seed=st.integers(0, 99))
def test_each_pair_is_in_the_shards_at_its_line_or_left_out_by_number(
    pairs: list[tuple[str, str]], seed: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        corpus = prepared(Path(name), pairs, seed)
        kept = {
            int(corpus.train.line_numbers[k]): (
                corpus.train.source(k).tolist(),
                corpus.train.target(k).tolist(),
            )
            for k in range(len(corpus.train))
        }
        left_out = {pair.line: pair.reason for pair in corpus.left_out_pairs()}
        corpus.verify()
    for number, pair in enumerate([*pairs, ("a dev", "a dev"), ("a dev", "a dev")], 1):
        reason = reason_to_leave_out(pair)
        assert left_out.get(number) == reason
        expected = tuple([*_MODEL.encode(unit), Subwords.EOS_ID] for unit in pair)
        assert kept.get(number) == (expected if reason is None else None)
    assert len(kept) + len(left_out) == len(pairs) + 2


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs=PAIRS, more=st.integers(1, 3), target_is_longer=st.booleans())
def test_a_unit_more_on_one_side_refuses_before_any_output(
    pairs: list[tuple[str, str]], more: int, target_is_longer: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        extra = ["x"] * more
        source = written(folder / "s", [s for s, _ in pairs] + ([] if target_is_longer else extra))
        target = written(folder / "t", [t for _, t in pairs] + (extra if target_is_longer else []))
        with pytest.raises(DataError) as caught:
            prepare(source, target, out=folder / "out")
        for wanted in (str(source), str(target), str(len(pairs)), str(len(pairs) + more)):
            assert wanted in caught.value.what
        assert sorted(os.listdir(folder)) == ["s", "t"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(count=st.integers(4, 40), dev_size=st.integers(1, 3), seed=st.integers(0, 99))
def test_splitting_off_a_dev_set_parts_the_pairs_and_loses_none(count: int, dev_size: int, seed: int) -> None:
    units = [f"word {k}" for k in range(count)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _MODEL.save(folder / "m.model")
        corpus = prepare(
            written(folder / "s", units),
            written(folder / "t", units),
            out=folder / "out",
            subwords=folder / "m.model",
            dev_size=dev_size,
            seed=seed,
        )
        lines = [*corpus.train.line_numbers.tolist(), *corpus.dev.line_numbers.tolist()]
        dev_texts = corpus.dev_texts()
        dev_lines = corpus.dev.line_numbers.tolist()
    assert sorted(lines) == list(range(1, count + 1))
    assert dev_texts.sources == dev_texts.targets == tuple(units[line - 1] for line in dev_lines)
