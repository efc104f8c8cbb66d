"""Probes of what goes into the stacks and comes out: embeddings, positions, the output map, dropout, initial weights.

Paper: none (measures what other modules do)

Each takes a model and says what it computes in the words of `choices`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.data.batches import Batch, make_batch
from dragoman.data.shards import PairShards
from dragoman.fidelity.layers import knows_places
from dragoman.fidelity.small import (
    ATTENTIONS,
    NETWORKS,
    RESIDUALS,
    SOURCE,
    TARGET,
    V,
    agreed,
    calls,
    exact,
    ids,
    is_random,
    numbers,
    parts_named,
    same,
    shaken,
)
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Subwords

ROWS = 20  # positions looked at
_MARKS = {Subwords.BOS_ID: "BOS", Subwords.EOS_ID: "EOS", Subwords.PAD_ID: "padding"}
TABLE_TOLERANCE = 1e-5  # positions are kept in float32


def embedding_scale(model: Transformer) -> str:
    """What a row of the matrix is multiplied by before the position is added (3.4), by the differences of tokens."""
    model = shaken(model)
    return agreed(
        scale_of(differences(x) / differences(row), model.config.d_model) for x, row in _embedded(model)
    )


def _embedded(model: Transformer) -> list[tuple[Tensor, Tensor]]:
    """What positions are added to, and the rows of the matrix, of a source and of a target."""
    with calls(iter([model.position])) as seen:
        model(SOURCE, TARGET)
    rows = [model.source_embedding.weight[SOURCE], model.target_embedding.weight[TARGET]]
    return [(argument, row) for (_, argument, _), row in zip(seen[:2], rows, strict=True)]


def differences(x: Tensor) -> Tensor:
    """Of later positions and the first."""
    return x[:, 1:] - x[:, :1]


def encoder_input(model: Transformer) -> str:
    """What embedded sources have that embedded targets have not (3.4: nothing)."""
    ours = []
    for x, row in _embedded(shaken(model)):
        scale = (differences(x) / differences(row)).flatten()[0]
        ours.append(x - scale * row)
    if all(same(rest, torch.zeros_like(rest)) for rest in ours):
        return "embedding + position"
    if same(ours[0], ours[0][:, :1].expand_as(ours[0])) and same(ours[1], torch.zeros_like(ours[1])):
        return "embedding + position + a vector"
    return "embedding + position + more"


def scale_of(ratios: Tensor, d_model: int) -> str:
    """The one factor between rows of the matrix and what is handed to the positions."""
    scale = float(ratios.detach().flatten()[0])
    if not same(ratios, torch.full_like(ratios, scale), 1e-6):
        return "no one factor"
    known = {"sqrt(d_model)": math.sqrt(d_model), "none": 1.0}
    return next(
        (said for said, value in known.items() if math.isclose(scale, value, rel_tol=1e-6)), f"{scale:.4g}"
    )


def embedding_tying(model: Transformer) -> str:
    """Which of the three matrices are one (3.4)."""
    source, target, output = (
        weight.data_ptr()
        for weight in (
            model.source_embedding.weight,
            model.target_embedding.weight,
            model.output_embedding.weight,
        )
    )
    if source == target == output:
        return "one matrix for source, target and output"
    pairs = {
        "source and target": source == target,
        "target and output": target == output,
        "source and output": source == output,
    }
    shared = [names for names, one in pairs.items() if one]
    return f"one matrix for {shared[0]} only" if shared else "three matrices"


def output_map(model: Transformer) -> str:
    """The logits beside the stack's output times the matrix (3.4; a bias is not spoken of)."""
    model = shaken(model)
    memory = model.encode(SOURCE)
    logits = model.decode(TARGET, memory)
    hidden = model.decode_hidden(TARGET, memory)[..., : model.config.d_model]
    plain = hidden @ model.output_embedding.weight.T
    if same(logits, plain):
        return "x E^T without a bias"
    rest = logits - plain
    if same(rest, rest[:, :1].expand_as(rest)):
        return "x E^T and a bias"
    return "x E^T scaled" if same(logits * (plain / logits).flatten()[0], plain) else "another"


def position_place(model: Transformer) -> str:
    """Where order comes from: what is added at the bottom of the stacks, and whether attention knows places (3.5)."""
    return places_of_positions(shaken(model), times=2, run=lambda probed: probed(SOURCE, TARGET))


def places_of_positions(model: Transformer, *, times: int, run: Callable[[Transformer], object]) -> str:
    """As `position_place`, of a model that adds positions so many times in a run."""
    x = numbers(1, ROWS, model.config.d_model)
    table = _positions(model)
    with calls(iter([model.position])) as seen:
        run(model)
    if len(seen) != times:
        return f"at {len(seen)} places of {'both stacks' if times == 2 else 'the stack'}"
    at_bottom = not same(table, torch.zeros_like(table))
    if at_bottom and not same(model.position(x)[0] - x[0], table, TABLE_TOLERANCE):
        return "at the bottom, not added"
    inside = any(knows_places(module, x) for module in parts_named(model, ATTENTIONS))
    places = ["added to the embeddings"] * at_bottom + ["in attention"] * inside
    return " and ".join(places) or "none"


def _positions(model: Transformer) -> Tensor:
    table: Tensor = model.position(torch.zeros(1, ROWS, model.config.d_model, dtype=torch.float64))[
        0
    ].detach()
    return table


def sinusoid_layout(model: Transformer) -> str:
    """Which columns are sines and which cosines: at position 0 the ones are 0, the others 1 (3.5)."""
    found = _sines_and_cosines(_positions(exact(model)))
    return "no sinusoids" if found is None else found[0]


def _sines_and_cosines(table: Tensor) -> tuple[str, Tensor] | None:
    """The layout, and the angle of each pair at position 1; None where columns are no sines and cosines."""
    half = table.shape[1] // 2
    layouts = {
        "sine and cosine in turn": (table[:, 0::2], table[:, 1::2]),
        "all sines, then all cosines": (table[:, :half], table[:, half:]),
        "all cosines, then all sines": (table[:, half:], table[:, :half]),
        "cosine and sine in turn": (table[:, 1::2], table[:, 0::2]),
    }
    for said, (sines, cosines) in layouts.items():
        angles = torch.atan2(sines[1], cosines[1])
        grid = torch.arange(len(table), dtype=table.dtype)[:, None] * angles
        if same(sines, grid.sin(), TABLE_TOLERANCE * ROWS) and same(
            cosines, grid.cos(), TABLE_TOLERANCE * ROWS
        ):
            return said, angles
    return None


def sinusoid_wavelengths(model: Transformer) -> str:
    """From the second row: the angle by which each pair turns from one position to the next (3.5)."""
    found = _sines_and_cosines(_positions(exact(model)))
    if found is None:
        return "no sinusoids"
    angles = found[1]
    i, half = torch.arange(len(angles), dtype=angles.dtype), len(angles)
    known = {
        "2 pi 10000^(2i/d_model)": 10000.0 ** (-i / half),
        "2 pi 10000^(i/(d_model/2 - 1))": 10000.0 ** (-i / max(half - 1, 1)),
    }
    for said, expected in known.items():
        if bool(((angles / expected - 1.0).abs() < 1e-3).all()):
            return said
    first, last = (2 * math.pi / float(angle) for angle in (angles[0], angles[-1]))
    return f"from {first:.3g} to {last:.3g}"


def dropout_places(model: Transformer) -> str:
    """Everything whose result is another with other random numbers, part by part (5.4).

    Args:
        model: with a P_drop of a half.
    """
    model = shaken(model, training=True)
    return dropped_in_parts(model, _dropped_inputs(model))


def dropped_in_parts(model: nn.Module, dropped_inputs: list[str]) -> str:
    """What is dropped in the parts of a model that trains, beside what is dropped on the way into its stacks."""
    config: Any = model.config
    x, f = numbers(1, 6, config.d_model, seed=1), numbers(1, 6, config.d_model, seed=2)
    zeros = torch.zeros_like(f)
    residuals = list(parts_named(model, RESIDUALS))
    on_outputs = all(is_random(residual, x, lambda _y: f) for residual in residuals)
    on_sums = any(is_random(residual, x, lambda _y: zeros) for residual in residuals)
    places = {
        "sub-layer outputs": on_outputs and not on_sums,
        "sums of sub-layers": on_sums,
        **dict.fromkeys(dropped_inputs, True),
        "attention": any(is_random(attention, x) for attention in parts_named(model, ATTENTIONS)),
        "feed-forward": any(is_random(network, x) for network in parts_named(model, NETWORKS)),
    }
    return ", ".join(place for place, dropped in places.items() if dropped) or "none"


def _dropped_inputs(model: Transformer) -> list[str]:
    """What of embedding and position is dropped on the way into each stack."""
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        with calls(iter([model.position, model.encoder[0], model.decoder[0]])) as seen:
            model(SOURCE.repeat(1, 8), TARGET.repeat(1, 8))
        runs.append(seen)
    found = {}
    for stack, position, layer in (("encoder", 0, 1), ("decoder", 2, 3)):
        found[stack] = dropped_of(runs, position=position, layer=layer)
    if len(set(found.values())) == 1:
        return [what for what in set(found.values()) if what]
    return [f"{what} of the {stack}" for stack, what in found.items() if what]


def dropped_of(runs: list[list[tuple[nn.Module, Any, Any]]], *, position: int, layer: int) -> str:
    """From two runs with other random numbers: calls of what adds positions, and of a stack's first layer."""
    embedded, other = (run[position][1] for run in runs)
    dropped = _dropped(runs[0][position][2], runs[0][layer][1])
    return dropped if torch.equal(embedded, other) else " and ".join(filter(None, ("embedding", dropped)))


def _dropped(together: Tensor, given: Tensor) -> str:
    """From the sum of embedding and position, and what the first layer is given."""
    kept = given != 0.0
    if same(given, together):
        return ""
    ratios = (given / together)[kept]
    whole = not bool(kept.all()) and same(ratios, ratios[:1].expand_as(ratios))
    return "embedding + position" if whole else "something of embedding + position"


def dropped_share(model: Transformer) -> float:
    """The share of embedding + position that is set to zero while training (5.4)."""
    model = exact(model).train()
    with calls(iter([model.encoder[0]])) as seen:
        torch.manual_seed(1)
        model.encode(torch.arange(1, V - 7).view(-1, 4).repeat(256, 1))
    given: Tensor = seen[0][1]
    return float((given == 0.0).double().mean())


def initializer(model: Transformer) -> str:
    """Spread of the initial weights, of matrices that tensor2tensor stored as one together; gains and biases (silent).

    Args:
        model: just made.
    """
    embeddings = [
        model.source_embedding.weight,
        model.target_embedding.weight,
        model.output_embedding.weight,
    ]
    added = {id(parameter) for parameter in model.encoder_start.parameters()}  # as rows of an embedding
    return initial_spread(model, embeddings, added)


def initial_spread(model: nn.Module, embeddings: list[Tensor], added: AbstractSet[int] = frozenset()) -> str:
    """As `initializer`, of a model with these matrices of embeddings, and vectors (by identity) of their kind."""
    vectors = [p for p in model.parameters() if p.ndim == 1 and id(p) not in added]
    settled = all(bool((vector == 0.0).all()) or bool((vector == 1.0).all()) for vector in vectors)
    if all(map(_is_glorot, _stored_as_one(model))) and all(map(_is_unit_normal, embeddings)) and settled:
        return "Glorot uniform, projections as one; embeddings N(0, 1/d_model); norms 1 and 0"
    return "another"


def _stored_as_one(model: nn.Module) -> Iterator[list[Tensor]]:
    """Queries, keys and values of a sequence over itself; keys and values of another; every other matrix alone."""
    for name, apart in (("self_attention", False), ("cross_attention", True)):
        for attention in parts_named(model, name):
            if hasattr(attention, "matrices"):
                W_Q, W_K, W_V, W_O = attention.matrices()
                yield from ([W_Q], [W_K, W_V], [W_O]) if apart else ([W_Q, W_K, W_V], [W_O])
            else:
                yield from ([parameter] for parameter in attention.parameters() if parameter.ndim == 2)
    for network in parts_named(model, NETWORKS):
        yield from ([parameter] for parameter in network.parameters() if parameter.ndim == 2)


def _is_glorot(matrices: list[Tensor]) -> bool:
    """Uniform up to sqrt(6 / (rows + columns)) of them as one."""
    whole = torch.cat([matrix.detach().double() for matrix in matrices])
    shares = whole / math.sqrt(6.0 / sum(whole.shape))
    return 0.9 < float(shares.abs().max()) <= 1.0 and abs(float(shares.square().mean()) * 3.0 - 1.0) < 0.25


def _is_unit_normal(matrix: Tensor) -> bool:
    """Normal, of deviation d_model^-0.5: one number in 22 is beyond two deviations, and none is of a uniform one."""
    shares = matrix.detach().double() * math.sqrt(matrix.shape[1])
    beyond = float((shares.abs() > 2.0).double().mean())
    return abs(float(shares.square().mean()) - 1.0) < 0.2 and 0.01 < beyond < 0.09


def decoder_input() -> str:
    """What a batch gives the decoder beside what it is to predict (3.1)."""
    batch = _batch()
    tokens = batch.target_output_ids[:, 1:] != Subwords.PAD_ID
    shifted = torch.equal(batch.target_input_ids[:, 1:][tokens], batch.target_output_ids[:, :-1][tokens])
    return "the target shifted right by one" if shifted else "another"


def start_token(model: Transformer) -> str:
    """What the decoder is given first (silent)."""
    first, model = first_token(), exact(model)
    with calls(iter([model.position])) as seen:
        model(SOURCE, ids([first, *TARGET[0].tolist()]))
    return said_of_start(first, seen[1][1][0, 0], model.target_embedding.weight)


def first_token() -> int:
    """The first token that a batch gives a decoder."""
    return int(_batch().target_input_ids[0, 0])


def said_of_start(first: int, given: Tensor, weight: Tensor) -> str:
    """What a decoder that is given this first token begins with."""
    if bool((given == 0.0).all()):
        return "a zero vector"
    for token, name in ((first, f"token {first}"), *_MARKS.items()):
        row = weight[token].detach()
        if same(given / given.norm(), row / row.norm()):
            return f"{_MARKS.get(token, name)}, an ordinary row"
    return "another vector"


def _batch() -> Batch:
    """Two targets, of two tokens and one, as training gets them."""
    units = np.array([7, 8, Subwords.EOS_ID, 9, Subwords.EOS_ID])
    offsets = np.array([0, 3, 5])
    shards = SimpleNamespace(
        source_ids=units, source_offsets=offsets, target_ids=units, target_offsets=offsets
    )
    return make_batch(cast(PairShards, shards), np.array([0, 1]))
