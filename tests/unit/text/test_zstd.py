"""Zstandard streams: frames in a row, cut frames, reads of any size."""

from __future__ import annotations

import io
import random

import pytest
import zstandard

from dragoman.text.zstd import open_zstd

CONTENT = random.Random(1).randbytes(300_000)


def test_one_frame_in_reads_of_any_size() -> None:
    stream = open_zstd(io.BytesIO(zstandard.compress(CONTENT)))
    assert b"".join(iter(lambda: stream.read(777), b"")) == CONTENT


def test_frames_empty_and_full() -> None:
    frames = zstandard.compress(b"") + zstandard.compress(CONTENT) + zstandard.compress(b"") * 3
    assert open_zstd(io.BytesIO(frames)).read() == CONTENT


@pytest.mark.parametrize("cut", [1, 3, 10, 1000, 200_000])
def test_cut_frame_is_an_error(cut: int) -> None:
    with pytest.raises(EOFError, match="middle of a frame"):
        open_zstd(io.BytesIO(zstandard.compress(CONTENT)[:-cut])).read()


def test_garbage_after_a_frame_is_an_error() -> None:
    with pytest.raises(zstandard.ZstdError):
        open_zstd(io.BytesIO(zstandard.compress(b"a") + b"no frame at all")).read()


def test_closing_closes_the_file() -> None:
    compressed = io.BytesIO(zstandard.compress(b"a"))
    with open_zstd(compressed) as stream:
        assert stream.readable()
    assert compressed.closed
