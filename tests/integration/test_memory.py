"""Memory: preparing streams, and training holds no corpus.

`DRAGOMAN_MEMORY_PAIRS` sets the size; ten million pairs take about ten minutes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import RECIPE

PAIRS = int(os.environ.get("DRAGOMAN_MEMORY_PAIRS", "1000000"))
# Resident at the most, whatever the size of the corpus (the vocabulary is learned from 600,000 pairs at most).
PREPARE_BYTES = 500e6
# Lengths and order of the pairs are held while training, their text and their tokens are not: these are mapped, and their
# pages are the file cache's, which the system takes back when it needs them.
TRAIN_BYTES_A_PAIR = 50
TRAIN_BYTES = 60e6  # whatever their number: the parts of memory that malloc holds differ from run to run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5_400)]

PEAK = """
import sys, threading
from dragoman.cli.main import app

# Not by getrusage, which counts what the process that started this one had.
def resident(kind):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(kind)) * 1024

most, ended = 0, threading.Event()
def watch():
    global most
    while not ended.wait(0.02):
        most = max(most, resident("RssAnon"))

watcher = threading.Thread(target=watch)
watcher.start()
try:
    app(sys.argv[1:])
finally:
    ended.set()
    watcher.join()
    print(resident("VmHWM"), most, file=sys.stderr)
"""


def peak_bytes(*arguments: object) -> tuple[int, int]:
    """Most memory resident while a command runs: all, and without what is mapped from files."""
    command = [sys.executable, "-c", PEAK, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    resident, own = result.stderr.split()[-2:]
    return int(resident), int(own)


def sentences(count: int, *, seed: int) -> Iterator[str]:
    """Five to twelve words of two thousand."""
    draw = random.Random(seed)
    words = [
        "".join(draw.choice("abcdefghiklmnoprstuvwz") for _ in range(draw.randint(2, 8))) for _ in range(2000)
    ]
    for _ in range(count):
        yield " ".join(draw.choices(words, k=draw.randint(5, 12)))


def write(path: Path, count: int, *, seed: int) -> Path:
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{sentence}\n" for sentence in sentences(count, seed=seed))
    return path


def prepared(folder: Path, pairs: int) -> tuple[Path, int]:
    folder.mkdir()
    source, target = write(folder / "t.en", pairs, seed=1), write(folder / "t.de", pairs, seed=2)
    peak, _ = peak_bytes("prepare", source, target, "--out", folder / "prepared", "--vocab-size", 4000)
    return folder / "prepared", peak


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is counted otherwise elsewhere")
def test_neither_preparing_nor_training_holds_the_corpus(tmp_path):
    small, small_peak = prepared(tmp_path / "small", 20_000)
    large, large_peak = prepared(tmp_path / "large", PAIRS)
    print(f"prepare: {small_peak / 1e6:.0f} MB for 20,000 pairs, {large_peak / 1e6:.0f} MB for {PAIRS:,}")
    assert large_peak < PREPARE_BYTES
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    rest = ["--recipe", recipe, "--max-steps", 3, "--set", "training.validation_sentences=0"]
    for field in ("source_tokens", "target_tokens", "tokens_at_once"):
        rest += ["--set", f"batch.{field}=1000"]
    peaks = [
        peak_bytes("train", corpus, "--out", tmp_path / f"run{k}", *rest)[1]
        for k, corpus in enumerate((small, large))
    ]
    print(f"train: {peaks[0] / 1e6:.0f} MB for 20,000 pairs, {peaks[1] / 1e6:.0f} MB for {PAIRS:,}")
    assert peaks[1] - peaks[0] < TRAIN_BYTES + TRAIN_BYTES_A_PAIR * PAIRS
