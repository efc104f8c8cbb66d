"""Peak memory of training: ours against plain loops around torch.nn.Transformer and Marian, each in a process of its own.

The same sizes, batches and number formats as `train_step.py`; two rounds over its batches. Printed: the most memory
resident, imports included, and the ratio to `transformers` in the same format. On Linux.

    python benchmarks/memory.py [--size tiny] [--tokens 4096] [--threads 2]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys

from measure import RESULTS, prepare_process, threads_of
from train_step import DTYPES, VOCABULARY, batches, marian_update, our_update, plain_update

from dragoman.model.config import ModelConfig
from dragoman.provenance import provenance

BUILDS = {"torch.nn": plain_update, "transformers": marian_update, "dragoman": our_update}
KILOBYTE = 1024


def peak_bytes(name: str, precision: str, size: str, tokens: int, threads: int) -> int:
    """Of a process that does nothing else."""
    command = [sys.executable, __file__, "--size", size, "--tokens", str(tokens), "--threads", str(threads)]
    result = subprocess.run(
        [*command, "--alone", name, precision], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(result.stdout)


def alone(name: str, precision: str, size: str, tokens: int) -> None:
    step, _ = BUILDS[name](getattr(ModelConfig, size)(vocab_size=VOCABULARY), precision)
    made = batches(tokens)
    for _ in range(2):
        for batch in made:
            step(batch)
    with open("/proc/self/status", encoding="ascii") as status:  # getrusage counts the parent's too
        print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * KILOBYTE)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--tokens", type=int, default=4_096, help="target tokens a batch, padding included")
    options.add_argument("--size", choices=("tiny", "base"), default="tiny")
    options.add_argument("--threads", type=int, default=None)
    options.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    threads = threads_of(given.threads)
    if given.alone:
        prepare_process(threads)
        alone(*given.alone, given.size, given.tokens)
        return
    names = [name for name in BUILDS if name != "transformers" or importlib.util.find_spec("transformers")]
    peaks = {
        (name, precision): peak_bytes(name, precision, given.size, given.tokens, threads)
        for precision in DTYPES
        for name in names
    }
    print(f"\npeak memory of training, {given.size}, {given.tokens} target tokens a batch, {threads} threads")
    for (name, precision), peak in peaks.items():
        ratio = peak / peaks.get(("transformers", precision), peaks["torch.nn", precision])
        print(f"  {name + ' ' + precision:20} {peak / 1e6:8,.0f} MB  {ratio:.2f}x")
    RESULTS.mkdir(exist_ok=True)
    record = {
        "settings": {"size": given.size, "tokens": given.tokens, "threads": threads},
        "provenance": provenance(),
        "peak_bytes": {" ".join(key): peak for key, peak in peaks.items()},
    }
    (RESULTS / "memory.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
