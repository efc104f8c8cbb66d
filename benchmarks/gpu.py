"""Training and translating on a GPU: seconds of an update, share of the peak, tokens a second.

For base and big at the paper's batch (25,000 source and 25,000 target tokens), in bf16 and fp32, layers as written and
compiled: the median update, source and target tokens a second, and model FLOPs utilisation, which is the operations of
the paper's equations (`dragoman.model.count`) over what the device could do in that time at `--peak` (dense TFLOP/s in
bf16; 989 for an H100 or H200). Then a search over random sources with the same model: target tokens a second, lengths
pinned. Prepared to take under ten minutes.

    python benchmarks/gpu.py [--device cuda] [--sizes base big] [--tokens 25000] [--updates 10] [--peak 989]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass

import torch
from measure import RESULTS

from dragoman.data.batches import Batch
from dragoman.machine import DTYPES
from dragoman.model.config import ModelConfig
from dragoman.model.count import training_flops
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.transformer import Transformer
from dragoman.provenance import provenance
from dragoman.recipes.named import recipe_named
from dragoman.search.beam import beam_search
from dragoman.search.options import SearchOptions
from dragoman.text.subwords import Subwords
from dragoman.training.compiled import compile_layers
from dragoman.training.step import optimizer_for, update

VOCABULARY = 37_000
LENGTH = 28  # of sources and targets: WMT's mean
FIRST_ID = 4  # of an ordinary subword


@dataclass(frozen=True)
class Training:
    """Of the median update."""

    size: str
    precision: str
    compiled: bool
    seconds: float
    tokens_per_second: float
    utilisation: float
    peak_bytes: int


def batch_of(tokens: int, device: torch.device) -> Batch:
    """Random sentences of one length, `tokens` a side."""
    rows = tokens // LENGTH
    draw = torch.Generator().manual_seed(1)
    source, target = (torch.randint(FIRST_ID, VOCABULARY, (rows, LENGTH), generator=draw) for _ in range(2))
    shifted = torch.cat([torch.full((rows, 1), Subwords.BOS_ID), target[:, :-1]], dim=1)
    return Batch(source, shifted, target, torch.arange(rows), rows * LENGTH, rows * LENGTH).to(device)


def wait(device: torch.device) -> None:
    """For all that was asked of the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def trained(
    size: str, precision: str, tokens: int, updates: int, peak: float, device: torch.device, *, compiled: bool
) -> Training:
    """Real updates, the first three uncounted."""
    recipe = recipe_named(size).with_changes(
        [f"training.precision={precision}", f"batch.tokens_at_once={tokens}"]
    )
    config = ModelConfig.from_shape(recipe.model, vocab_size=VOCABULARY)
    model = Transformer(config, seed=1).to(device)
    optimizer = optimizer_for(model, recipe)
    if compiled:
        compile_layers(model)
    batch = batch_of(tokens, device)
    seconds = []
    for step in range(1, updates + 4):
        wait(device)
        began = time.perf_counter()
        update(model, optimizer, batch, recipe, step)
        wait(device)
        seconds.append(time.perf_counter() - began)
    middle = statistics.median(seconds[3:])
    work = training_flops(config, LENGTH, LENGTH) * len(batch.source_ids)
    most = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    return Training(
        size,
        precision,
        compiled,
        middle,
        2 * batch.target_tokens / middle,
        work / middle / (peak * 1e12),
        most,
    )


@torch.inference_mode()
def tokens_per_second(size: str, precision: str, sentences: int, device: torch.device) -> float:
    """Of beam 4 to LENGTH tokens each, the second of two searches."""
    config = ModelConfig.from_shape(recipe_named(size).model, vocab_size=VOCABULARY)
    model = Transformer(config, seed=1).to(device, DTYPES[precision]).eval()
    source = batch_of(sentences * LENGTH, device).source_ids
    options = SearchOptions(min_length=LENGTH, max_extra=0)
    for _ in range(2):
        wait(device)
        began = time.perf_counter()
        beam_search(
            IncrementalDecoder(model, source),
            source_lengths=[LENGTH] * sentences,
            options=options,
            bos_id=Subwords.BOS_ID,
            eos_id=Subwords.EOS_ID,
            device=device,
        )
        wait(device)
        spent = time.perf_counter() - began
    return sentences * LENGTH / spent


def _line(row: Training, peak: float) -> str:
    form = "compiled" if row.compiled else "as written"
    return (
        f"{row.size:5} {row.precision} {form:10}  {row.seconds * 1e3:9,.1f} ms an update  "
        f"{row.tokens_per_second:11,.0f} tokens/s  {row.utilisation:6.1%} of {peak:g} TFLOP/s  "
        f"{row.peak_bytes / 2**30:5.1f} GiB"
    )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--device", default="cuda")
    options.add_argument("--sizes", nargs="+", default=["base", "big"])
    options.add_argument("--tokens", type=int, default=25_000)
    options.add_argument("--updates", type=int, default=10)
    options.add_argument("--sentences", type=int, default=512)
    options.add_argument("--peak", type=float, default=989.0)
    given = options.parse_args()
    device = torch.device(given.device)
    training, decoding = [], {}
    forms = (False, True) if device.type == "cuda" else (False,)
    for size in given.sizes:
        for precision in ("bf16", "fp32"):
            for compiled in forms:
                row = trained(
                    size, precision, given.tokens, given.updates, given.peak, device, compiled=compiled
                )
                training.append(row)
                print(_line(row, given.peak))
            decoding[f"{size} {precision}"] = tokens_per_second(size, precision, given.sentences, device)
            print(f"{size:5} {precision}  {decoding[f'{size} {precision}']:11,.0f} target tokens/s, beam 4")
    RESULTS.mkdir(exist_ok=True)
    record = {
        "settings": vars(given),
        "provenance": provenance(),
        "training": [asdict(row) for row in training],
        "decoding": decoding,
    }
    (RESULTS / "gpu.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
