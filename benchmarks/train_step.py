"""Speed of one update: ours against plain loops around torch.nn.Transformer and Marian, on the same batches.

All have the same sizes (tiny: 4+4 layers, d_model 128, d_ff 256, 4 heads; or base; 8,000 subwords), post-norm, dropout
0.1, one matrix for both embeddings and the output map, label smoothing 0.1, Adam, and the same malloc. The others have
biases on their projections, torch.nn.Transformer a final norm a stack, and both dropout in more places (their own
defaults: on attention weights, inside the network). In bf16 they run under autocast, as such loops do; ours computes in
bf16 with float32 master weights. A round is one update on each batch, loss read back.

    python benchmarks/train_step.py [--size tiny] [--tokens 2048] [--formats fp32 bf16] [--rounds 3]
        [--threads 2]

Marian is left out where `transformers` is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from measure import Contestant, Measured, interleaved, prepare_process, print_table, threads_of, write_results
from torch import Tensor, nn

from dragoman.data.batches import Batch
from dragoman.model.config import ModelConfig
from dragoman.model.position import sinusoids
from dragoman.model.transformer import Transformer
from dragoman.recipe import Recipe
from dragoman.text.subwords import Subwords
from dragoman.training.checkpoint import kernels
from dragoman.training.optimizer import FlatAdam
from dragoman.training.products import AS_TORCH, MOST_ROWS, Products, faster_by_onednn, shapes_of
from dragoman.training.step import update

VOCABULARY = 8_000
EPS_LS = 0.1
BATCHES = 4
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Plain(nn.Module):
    """torch.nn.Transformer with what it lacks: embeddings, positions, output map."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.d_model)
        self.stacks = nn.Transformer(
            config.d_model, config.h, config.N, config.N, config.d_ff, config.P_drop, batch_first=True
        )
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.P_drop)
        self.register_buffer("positions", sinusoids(512, config.d_model).float())
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        future = torch.triu(torch.ones(target.shape[1], target.shape[1], dtype=torch.bool), 1)
        padding = source == Subwords.PAD_ID
        hidden = self.stacks(
            self.embed(source),
            self.embed(target),
            tgt_mask=future,
            src_key_padding_mask=padding,
            tgt_key_padding_mask=target == Subwords.PAD_ID,
            memory_key_padding_mask=padding,
        )
        return F.linear(hidden, self.embedding.weight)


def plain_update(config: ModelConfig, precision: str) -> tuple[Callable[[Batch], float], int]:
    """The loop that anyone would write, and its number of parameters."""
    torch.manual_seed(1)
    model = Plain(config).train()
    return _plain_step(model, lambda b: model(b.source_ids, b.target_input_ids), precision)


def marian_update(config: ModelConfig, precision: str) -> tuple[Callable[[Batch], float], int]:
    """The same loop around Hugging Face's Marian, attention written out, which is its fastest form here."""
    import transformers
    from twins import marian_config

    torch.manual_seed(1)
    drops = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), config.P_drop)
    model = transformers.MarianMTModel(marian_config(config, longest=512, use_cache=False, **drops)).train()

    def logits(batch: Batch) -> Tensor:
        output: Tensor = model(
            input_ids=batch.source_ids,
            attention_mask=(batch.source_ids != Subwords.PAD_ID).long(),
            decoder_input_ids=batch.target_input_ids,
        ).logits
        return output

    return _plain_step(model, logits, precision)


def _plain_step(
    model: nn.Module, forward: Callable[[Batch], Tensor], precision: str
) -> tuple[Callable[[Batch], float], int]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(batch: Batch) -> float:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            logits = forward(batch)
        loss = F.cross_entropy(
            logits.float().flatten(0, 1),
            batch.target_output_ids.flatten(),
            ignore_index=Subwords.PAD_ID,
            label_smoothing=EPS_LS,
        )
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, sum(p.numel() for p in model.parameters())


def our_update(config: ModelConfig, precision: str) -> tuple[Callable[[Batch], float], int]:
    """The update that `dragoman train` does in a long run, whole."""
    model = Transformer(config, seed=1)
    recipe = Recipe().with_changes([f"training.precision={precision}"])
    optimizer = FlatAdam(model, DTYPES[precision], beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    steps = iter(range(1, 1_000_000))
    products = AS_TORCH
    if precision == "fp32":
        products = Products(faster_by_onednn(shapes_of(model), MOST_ROWS, (kernels(),)))
        print("products by oneDNN:", ", ".join(sorted(products.by_onednn)) or "none")

    def step(batch: Batch) -> float:
        return update(model, optimizer, batch, recipe, next(steps), products=products).loss

    return step, sum(p.numel() for p in model.parameters())


def batches(tokens: int) -> list[Batch]:
    """Random ids; each batch of one length, more or less, as buckets give them: 8, 12, 16, 24 target tokens."""
    made = []
    for number, length in enumerate((8, 12, 16, 24)):
        generator = torch.Generator().manual_seed(number)
        rows = tokens // length
        source_lengths = torch.randint(length - 2, length + 3, (rows,), generator=generator)
        target_lengths = torch.randint(length - 1, length + 2, (rows,), generator=generator)
        source, target = (_ids(lengths, generator) for lengths in (source_lengths, target_lengths))
        shifted = torch.cat([torch.full((rows, 1), Subwords.BOS_ID), target[:, :-1]], dim=1)
        shifted[target == Subwords.PAD_ID] = Subwords.PAD_ID
        made.append(
            Batch(
                source,
                shifted,
                target,
                torch.arange(rows),
                int(source_lengths.sum()),
                int(target_lengths.sum()),
            )
        )
    return made


def _ids(lengths: Tensor, generator: torch.Generator) -> Tensor:
    ids = torch.randint(4, VOCABULARY, (len(lengths), int(lengths.max())), generator=generator)
    return ids.masked_fill(torch.arange(ids.shape[1]) >= lengths[:, None], Subwords.PAD_ID)


def contestants(
    config: ModelConfig, made: list[Batch], formats: Sequence[str]
) -> tuple[list[Contestant], dict[str, int]]:
    """All systems in these number formats."""
    amount = sum(batch.source_tokens + batch.target_tokens for batch in made)
    found, parameters = [], {}
    builds = {"torch.nn": plain_update, "transformers": marian_update, "dragoman": our_update}
    if importlib.util.find_spec("transformers") is None:
        del builds["transformers"]
    for precision in formats:
        for name, build in builds.items():
            step, parameters[name] = build(config, precision)
            found.append(Contestant(f"{name} {precision}", _over(step, made), amount))
    return found, parameters


def _over(step: Callable[[Batch], float], made: list[Batch]) -> Callable[[], object]:
    return lambda: [step(batch) for batch in made]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--tokens", type=int, default=2_048, help="target tokens a batch, padding included")
    options.add_argument("--size", choices=("tiny", "base"), default="tiny")
    options.add_argument(
        "--formats",
        nargs="+",
        choices=tuple(DTYPES),
        default=tuple(DTYPES),
        help="bf16 wants a processor with such products",
    )
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=None)
    given = options.parse_args()
    prepare_process(threads_of(given.threads))
    config = getattr(ModelConfig, given.size)(vocab_size=VOCABULARY)
    made = batches(given.tokens)
    found, parameters = contestants(config, made, given.formats)
    tables: dict[str, list[Measured]] = {}
    for precision in given.formats:
        rows = [contestant for contestant in found if contestant.name.endswith(precision)]
        title = f"one update, {given.size}, {precision}, {given.tokens} target tokens a batch"
        tables[title] = interleaved(rows, rounds=given.rounds, baseline=f"torch.nn {precision}")
        print_table(title, "tokens", tables[title])
    print("tokens: source and target, without padding")
    write_results("train_step", {**vars(given), "parameters": parameters}, tables)


if __name__ == "__main__":
    main()
