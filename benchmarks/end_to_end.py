"""Training from the command line, data included: ours and other systems' own commands in turn; target tokens a second.

`dragoman train` with a recipe on a prepared corpus, for `--steps` updates; each peer by its own command line on the same
pairs, sizes and batch, for as long as its command says or `--seconds`. Rates are those of each side's own log, the
median of its reports but for the first fifth; of ours the same from its events. Give a peer's settings in its command;
what was searched for it belongs beside the figures. The logs of OpenNMT-py and Eole ("SOURCE/TARGET tok/s"), fairseq
("wps") and Sockeye ("tokens/sec") are read.

    python benchmarks/end_to_end.py PREPARED --peer "Eole=eole train -config tiny.yaml" [--recipe tiny] [--steps 300]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from measure import RESULTS, threads_of

from dragoman.machine import fast_precision
from dragoman.provenance import provenance

# How a log tells the rate of target tokens.
REPORTS = (
    re.compile(r"[\d.]+/\s*([\d.]+) tok/s"),
    re.compile(r"wps[=\s|]+([\d.]+)"),
    re.compile(r"([\d.]+) tokens/sec"),
)


def rate_of_log(text: str) -> float:
    """The median of a log's reports, without its first fifth.

    Raises:
        ValueError: there are none.
    """
    for pattern in REPORTS:
        found = [float(number) for number in pattern.findall(text)]
        if found:
            return statistics.median(found[len(found) // 5 :])
    raise ValueError("the log tells no rate of tokens:\n" + text[-2000:])


def peer_rate(command: str, seconds: float, threads: int) -> float:
    """Of another system's command, stopped after so many seconds."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    with subprocess.Popen(
        shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            text, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            text, _ = process.communicate()
    return rate_of_log(text)


def our_rate(prepared: Path, recipe: str, precision: str, steps: int, threads: int) -> float:
    """Target tokens a second of `dragoman train`, by its events."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        changes = (
            f"max_steps={steps}",
            f"precision={precision}",
            "validation_sentences=0",
            "log_steps=1",
        )
        command = [sys.executable, "-m", "dragoman", "train", str(prepared), "--out", str(run)]
        command += ["--recipe", recipe, "--threads", str(threads)]
        for change in changes:
            command += ["--set", f"training.{change}"]
        subprocess.run(command, check=True, capture_output=True)
        lines = [json.loads(line) for line in (run / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    logged = [line for line in lines if line["event"] == "stepped"][steps // 5 :]
    return sum(line["target_tokens"] for line in logged[1:]) / (logged[-1]["seconds"] - logged[0]["seconds"])


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("prepared", type=Path)
    options.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    options.add_argument("--recipe", default="tiny")
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--seconds", type=float, default=60.0, help="of each peer")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=None)
    given = options.parse_args()
    threads = threads_of(given.threads)
    torch.set_num_threads(threads)
    peers = dict(peer.split("=", 1) for peer in given.peer)
    precisions = ["fp32", *({"bf16"} & {fast_precision(torch.device("cpu"))})]
    found: dict[str, list[float]] = {}
    for _ in range(given.rounds):
        for precision in precisions:
            rate = our_rate(given.prepared, given.recipe, precision, given.steps, threads)
            found.setdefault(f"dragoman {precision}", []).append(rate)
        for name, command in peers.items():
            found.setdefault(name, []).append(peer_rate(command, given.seconds, threads))
    print(f"\n{given.recipe}, {threads} threads, target tokens a second, medians of {given.rounds}")
    best = max((statistics.median(found[name]) for name in peers), default=None)
    for name, rates in found.items():
        middle = statistics.median(rates)
        ratio = "" if best is None else f"  {middle / best:5.2f}x the best peer"
        print(f"  {name:20} {middle:10,.0f}  spread {(max(rates) - min(rates)) / middle:4.0%}{ratio}")
    RESULTS.mkdir(exist_ok=True)
    settings = {
        "recipe": given.recipe,
        "steps": given.steps,
        "seconds": given.seconds,
        "threads": threads,
        "peers": peers,
    }
    record = {"settings": settings, "provenance": provenance(), "found": found}
    (RESULTS / "end_to_end.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
