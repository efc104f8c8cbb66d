"""Where an update's time goes, stage by stage, beside what this machine would need for it at the least.

The stages of the gradient that is written out (`dragoman.training.explicit`) and of the optimizer are timed one by one.
Beside each: floating-point operations of its matrix products, bytes it must read and write at the least (each tensor
once), and the longer of the two times at the rates measured here: of a big product in the same number format, and of
a copy that no cache holds. What lies above one is what could still be gained.

    python benchmarks/stages.py PREPARED [--recipe demo] [--precision bf16] [--updates 30] [--threads 2]
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from measure import RESULTS, prepare_process, threads_of

from dragoman.data.batches import Batch, BatchLoader, BatchPlan
from dragoman.data.prepared import open_prepared
from dragoman.machine import DTYPES
from dragoman.model.config import ModelConfig
from dragoman.model.count import count_parameters
from dragoman.model.transformer import Transformer
from dragoman.provenance import provenance
from dragoman.recipes.named import read_recipe
from dragoman.training import explicit
from dragoman.training.optimizer import FlatAdam
from dragoman.training.products import Products
from dragoman.training.step import optimizer_for, update

STAGES = {
    "products of the layers": [
        (Products, name) for name in ("forward", "by_input", "add_by_input", "by_weight")
    ],
    "attention": ["packed_forward", "packed_backward"],
    "output map and loss": [(explicit, "loss_and_gradients")],
    "residual, norm, dropout": ["residual_forward", "residual_backward", "random_words"],
    "embedding": ["embed_forward", "embed_backward"],
    "optimizer": [(FlatAdam, "gather"), (FlatAdam, "scale_gradient"), (FlatAdam, "step")],
}


@dataclass(frozen=True)
class Stage:
    """One stage of the mean update.

    Attributes:
        operations: of matrix products, two for a multiply-add.
        bytes: read and written at the least.
        least_ms: at this machine's rates.
        ms: measured.
    """

    name: str
    operations: float
    bytes: float
    least_ms: float
    ms: float


class Clock:
    """Adds up the time spent in functions, by stage; what a stage calls of another counts as its own."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._inside = False

    def watch(self, owner: Any, name: str, stage: str) -> None:
        """Replaces a function by one that is timed."""
        plain = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            if self._inside:
                return plain(*arguments, **named)
            self._inside, began = True, time.perf_counter()
            try:
                return plain(*arguments, **named)
            finally:
                self._inside = False
                self.seconds[stage] += time.perf_counter() - began

        setattr(owner, name, timed)


def product_rate(dtype: torch.dtype) -> float:
    """Operations a second of a big product."""
    a, b = (torch.randn(2048, 2048).to(dtype) for _ in range(2))
    return 2 * 2048**3 / _least(lambda: a @ b)


def copy_rate() -> float:
    """Bytes a second, read and written, of a copy that no cache holds."""
    source = torch.zeros(256 << 20, dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * source.numel() / _least(lambda: target.copy_(source))


def _least(work: Callable[[], object]) -> float:
    work()
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def counted(config: ModelConfig, batches: list[Batch], size: int) -> dict[str, tuple[float, float]]:
    """Operations and bytes of each stage, of the mean batch; `size` bytes a number."""
    parameters = count_parameters(config)
    d, d_ff, V = config.d_model, config.d_ff, config.vocab_size
    width_k, width_v = config.h * config.d_k, config.h * config.d_v
    count = len(batches)
    S, T = (
        sum(getattr(batch, side) for batch in batches) / count for side in ("source_tokens", "target_tokens")
    )
    lengths = [
        (int((source != 0).sum()), int((target != 0).sum()))
        for batch in batches
        for source, target in zip(batch.source_ids, batch.target_output_ids, strict=True)
    ]
    squares = sum(s * s + t * t + s * t for s, t in lengths) / count
    layer_rows = config.N * (S + T)
    attention_maps = (
        2 * d * (2 * S * (width_k + width_v) + T * (3 * width_k + 3 * width_v) + S * (width_k + width_v))
    )
    products = config.N * (attention_maps + 4 * d * d_ff * (S + T))
    residuals = config.N * (2 * S + 3 * T) * d
    return {
        "products of the layers": (3 * products, size * layer_rows * (10 * d + 4 * d_ff)),
        "attention": (
            config.N * (2 + 5) * 2 * squares * (width_k + width_v) / 2,
            size * config.N * (2 * S + 4 * T) * (width_k + width_v) * 3,
        ),
        "output map and loss": (4 * 2 * T * d * V, 3 * size * V * d + 4 * V * d),
        "residual, norm, dropout": (0.0, residuals * (10 * size)),
        "embedding": (0.0, (S + T) * d * (3 * size + 8)),
        # Gradient in, total out and in, master and two moments in and out, weights out.
        "optimizer": (0.0, parameters.total * (size + 8 + 24 + size)),
    }


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("prepared", type=Path)
    options.add_argument("--recipe", default="demo")
    options.add_argument("--precision", choices=tuple(DTYPES), default="bf16")
    options.add_argument("--updates", type=int, default=30)
    options.add_argument("--threads", type=int, default=None)
    given = options.parse_args()
    threads = threads_of(given.threads)
    prepare_process(threads)
    corpus = open_prepared(given.prepared)
    recipe = read_recipe(given.recipe).with_changes([f"training.precision={given.precision}"])
    config = ModelConfig.from_shape(recipe.model, vocab_size=corpus.target_subwords.vocab_size)
    model = Transformer(config, seed=1)
    kernels = explicit.serves(model)
    if kernels is None:
        raise SystemExit("without the kernels in C++ there is nothing to look at here")
    clock = Clock()
    for stage, functions in STAGES.items():
        for function in functions:
            owner, name = (kernels, function) if isinstance(function, str) else function
            clock.watch(owner, name, stage)
    plan = BatchPlan.of(
        corpus.train,
        source_tokens=recipe.batch.source_tokens,
        target_tokens=recipe.batch.target_tokens,
        seed=1,
        max_length=recipe.batch.max_length,
    )
    made = [
        b for b, _ in itertools.islice(BatchLoader(corpus.train, plan, prefetch=0).batches(), given.updates)
    ]
    optimizer = optimizer_for(model, recipe)
    for step, batch in enumerate(made, start=1):  # kernels for each shape are made in the first round
        update(model, optimizer, batch, recipe, step)
    clock.seconds = dict.fromkeys(STAGES, 0.0)
    began = time.perf_counter()
    for step, batch in enumerate(made, start=1):
        update(model, optimizer, batch, recipe, step)
    total = (time.perf_counter() - began) / len(made) * 1e3
    dtype = DTYPES[given.precision]
    operations_rate, bytes_rate = product_rate(dtype), copy_rate()
    rows = []
    for stage, (operations, moved) in counted(config, made, dtype.itemsize).items():
        least = 1e3 * max(operations / operations_rate, moved / bytes_rate)
        rows.append(Stage(stage, operations, moved, least, 1e3 * clock.seconds[stage] / len(made)))
    rest = total - sum(row.ms for row in rows)
    print(
        f"\n{given.recipe}, {given.precision}, {threads} threads: {total:.1f} ms an update; here a big product makes "
        f"{operations_rate / 1e9:,.0f} GFLOP/s, a copy {bytes_rate / 1e9:,.1f} GB/s\n"
        f"  {'stage':26} {'GFLOP':>8} {'MB':>8} {'least ms':>9} {'ms':>8} {'share':>6}"
    )
    for row in rows:
        print(
            f"  {row.name:26} {row.operations / 1e9:8.2f} {row.bytes / 1e6:8.1f} {row.least_ms:9.1f} {row.ms:8.1f} "
            f"{row.ms / total:6.0%}"
        )
    print(f"  {'everything else':26} {'':8} {'':8} {'':9} {rest:8.1f} {rest / total:6.0%}")
    RESULTS.mkdir(exist_ok=True)
    record = {
        "settings": {**vars(given), "prepared": None, "threads": threads},
        "provenance": provenance(),
        "rates": {"operations": operations_rate, "bytes": bytes_rate},
        "total_ms": total,
        "stages": [asdict(row) for row in rows],
    }
    (RESULTS / "stages.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
