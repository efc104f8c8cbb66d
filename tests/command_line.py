"""The command line under test: in this process for most, as a process of its own where signals and pipes matter."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dragoman.cli.main import app

PATIENCE_SECONDS = 120.0  # for a process on a busy machine; none needs a tenth of it on a quiet one

NUMBERS = {
    "zero": "nul",
    "one": "een",
    "two": "twa",
    "three": "tri",
    "four": "kvar",
    "five": "pent",
    "six": "ses",
    "seven": "sep",
    "eight": "okt",
    "nine": "nau",
    "ten": "dek",
    "eleven": "elf",
    "twelve": "tolv",
}

# Learns most of two-word sentences in 200 updates, about two seconds.
RECIPE = """
name = "test"

[model]
N = 1
d_model = 16
d_ff = 32
h = 2
d_k = 8
d_v = 8
P_drop = 0.0

[batch]
source_tokens = 100
target_tokens = 100
max_length = 64
tokens_at_once = 100

[optimizer]
warmup_steps = 60
factor = 0.5

[training]
max_steps = 200
checkpoint_steps = 100
keep_checkpoints = 2
validation_sentences = 4
log_steps = 1

[search]
average_checkpoints = 1
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        """Lines of the output, by LF alone; the last must be ended."""
        assert self.text == "" or self.text.endswith("\n")
        return self.text.split("\n")[:-1]

    @property
    def json(self) -> Any:
        """The output as one JSON value: strict, without NaN."""
        return strict_json(self.text)

    @property
    def records(self) -> list[Any]:
        """The output as one JSON value a line."""
        return [strict_json(line) for line in self.lines]


def strict_json(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def dragoman(*arguments: object, stdin: bytes = b"") -> Ended:
    """Runs a command in this process; whatever it raises but SystemExit would be a traceback."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"a traceback for {arguments}") from result.exception
    return Ended(result.exit_code, result.stdout_bytes, result.stderr)


def done(*arguments: object, stdin: bytes = b"") -> Ended:
    """As `dragoman`, of a command that must succeed."""
    result = dragoman(*arguments, stdin=stdin)
    assert result.code == 0, result.err
    return result


def refused(code: int, *arguments: object, stdin: bytes = b"") -> str:
    """As `dragoman`, of a command that must fail in words with this exit code; what it said."""
    result = dragoman(*arguments, stdin=stdin)
    assert result.code == code, (result.code, result.err, result.out)
    assert result.err.strip()
    return result.err


def start(*arguments: object, **streams: Any) -> subprocess.Popen[bytes]:
    """Starts a process of its own, with pipes for all streams that are not given."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **streams.pop("environment", {})}
    return subprocess.Popen(command, env=environment, **{**pipes, **streams})


def finish(
    process: subprocess.Popen[bytes],
    stdin: bytes | None = None,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Ended:
    """Waits for a process; kills it if it never ends."""
    try:
        out, err = process.communicate(stdin, timeout=patience_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    return Ended(process.returncode, out or b"", (err or b"").decode())


def finish_after(process: subprocess.Popen[bytes], number: signal.Signals) -> Ended:
    """Sends a signal and waits for the end; what is on standard input stays open meanwhile."""
    process.send_signal(number)
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    with process:
        return Ended(process.returncode, process.stdout.read(), process.stderr.read().decode())


def word_pairs(count: int, *, seed: int) -> list[tuple[str, str]]:
    """Pairs of one to three numbers, word for word."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        words = draw.choices(list(NUMBERS), k=draw.randint(1, 3))
        made.append((" ".join(words), " ".join(NUMBERS[word] for word in words)))
    return made


def write_lines(path: Path, units: list[str]) -> Path:
    path.write_bytes("".join(f"{unit}\n" for unit in units).encode())
    return path


@dataclass(frozen=True)
class Lab:
    """A corpus, what was prepared from it, and a run trained on that; all by the command line.

    Attributes:
        source, target: 300 training pairs.
        dev_source, dev_target: 20 pairs.
        recipe: of the run.
        prepared, run: directories.
    """

    source: Path
    target: Path
    dev_source: Path
    dev_target: Path
    recipe: Path
    prepared: Path
    run: Path

    @property
    def model(self) -> Path:
        return self.run / "model"


def make_lab(folder: Path) -> Lab:
    """Prepares and trains, which takes some seconds."""
    files = {}
    for name, count in (("train", 300), ("dev", 20)):
        pairs = word_pairs(count, seed=count)
        files[name] = (
            write_lines(folder / f"{name}.en", [source for source, _ in pairs]),
            write_lines(folder / f"{name}.xx", [target for _, target in pairs]),
        )
    recipe = folder / "test.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    lab = Lab(*files["train"], *files["dev"], recipe, folder / "prepared", folder / "run")
    done(
        *("prepare", lab.source, lab.target, "--out", lab.prepared, "--vocab-size", 345),
        *("--dev-source", lab.dev_source, "--dev-target", lab.dev_target),
    )
    done("train", lab.prepared, "--out", lab.run, "--recipe", recipe)
    return lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Shared: no test writes into it."""
    return make_lab(tmp_path_factory.mktemp("lab"))


def everything_in(folder: Path) -> list[str]:
    """Names of all files and directories, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
