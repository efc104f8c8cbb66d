"""One update: pieces, what it is a function of, and what happens when numbers stop being finite.

Paper: 5.1, 5.3, 5.4
"""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dragoman.data.batches import Batch
from dragoman.errors import NonFiniteLoss
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.recipe import Recipe
from dragoman.training.optimizer import FlatAdam
from dragoman.training.step import gradient, pieces, update

CONFIG = ModelConfig(vocab_size=40, N=1, d_model=16, d_ff=24, h=2, P_drop=0.0)
RECIPE = Recipe().with_changes(["optimizer.warmup_steps=10", "batch.tokens_at_once=100"])
BOS, EOS = 2, 1


def rows(units: list[list[int]]) -> Tensor:
    longest = max(map(len, units))
    return torch.tensor([[*unit, *[0] * (longest - len(unit))] for unit in units])


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    """Ids without EOS."""
    sources, targets = ([[*unit, EOS] for unit in side] for side in zip(*pairs, strict=True))
    return Batch(
        source_ids=rows(sources),
        target_input_ids=rows([[BOS, *target[:-1]] for target in targets]),
        target_output_ids=rows(targets),
        pair_indices=torch.arange(100, 100 + len(pairs)),
        source_tokens=sum(map(len, sources)),
        target_tokens=sum(map(len, targets)),
    )


def random_batch(lengths: list[tuple[int, int]], *, seed: int = 1) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return batch_of(
        [
            tuple(torch.randint(4, 40, (length,), generator=generator).tolist() for length in both)  # type: ignore[misc]
            for both in lengths
        ]
    )


BATCH = random_batch([(3, 5), (7, 2), (1, 1), (4, 9), (8, 8)])  # 28 source and 30 target tokens with EOS
# Tokens at once, and how many pieces they make: an eighth more is let pass.
PIECES = [(1, 5), (10, 5), (18, 3), (20, 2), (26, 2), (27, 1), (1000, 1)]


def trained(
    config: ModelConfig = CONFIG, dtype: torch.dtype = torch.float32, seed: int = 1
) -> tuple[Transformer, FlatAdam]:
    model = Transformer(config, seed=seed).to(dtype)
    return model, FlatAdam(model, dtype, beta_1=0.9, beta_2=0.98, epsilon=1e-9)


def weights_of(optimizer: FlatAdam) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in (optimizer.weights() | optimizer.moments()).items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Bit for bit; NaN equals NaN."""
    return one.keys() == other.keys() and all(
        torch.equal(one[name].nan_to_num(7.0), other[name].nan_to_num(7.0)) for name in one
    )


@pytest.mark.parametrize(("tokens_at_once", "expected"), PIECES)
def test_pieces_hold_every_row_once_in_order(tokens_at_once, expected):
    cut = list(pieces(BATCH, tokens_at_once))
    assert len(cut) == expected
    assert torch.cat([piece.pair_indices for piece in cut]).tolist() == BATCH.pair_indices.tolist()
    assert sum(piece.source_tokens for piece in cut) == BATCH.source_tokens
    assert sum(piece.target_tokens for piece in cut) == BATCH.target_tokens
    for piece in cut:
        assert len(piece) == 1 or max(piece.source_tokens, piece.target_tokens) <= 1.125 * tokens_at_once
        for ids in (piece.source_ids, piece.target_output_ids):
            assert (ids[:, -1] != 0).any(), "a column of nothing but padding"
        assert piece.source_tokens == int((piece.source_ids != 0).sum())
        assert piece.target_tokens == int((piece.target_output_ids != 0).sum())
        assert piece.target_input_ids.shape == piece.target_output_ids.shape
        assert piece.target_input_ids[:, 0].tolist() == [BOS] * len(piece)


def test_a_batch_that_fits_is_not_copied():
    """Padding is not counted: a batch within its budget is one piece, and not one and a scrap of another."""
    assert next(pieces(BATCH, 30)) is BATCH


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_reported_losses_and_norm_are_those_of_the_batch(dtype):
    model, optimizer = trained(dtype=dtype)
    reference = copy.deepcopy(model)
    done = update(model, optimizer, BATCH, RECIPE, 3)
    logits = reference(BATCH.source_ids, BATCH.target_input_ids)
    log_p = logits.log_softmax(-1)
    real = BATCH.target_output_ids != 0
    nll = -log_p.gather(-1, BATCH.target_output_ids[..., None])[..., 0][real]
    others = -(log_p.sum(-1)[real] + nll) / 39
    smoothed = (0.9 * nll + 0.1 * others).sum() / BATCH.target_tokens
    smoothed.backward()
    norm = torch.cat([p.grad.reshape(-1) for p in reference.parameters()]).norm()
    assert int(real.sum()) == BATCH.target_tokens == 30
    assert done.loss == pytest.approx(smoothed.item(), rel=1e-5)
    assert done.nll == pytest.approx(nll.mean().item(), rel=1e-5)
    assert done.gradient_norm == pytest.approx(norm.item(), rel=1e-5)
    assert done.rate == pytest.approx(16**-0.5 * 3 * 10**-1.5, rel=1e-9)


def test_an_update_changes_the_weights_and_lowers_the_loss_of_its_batch():
    model, optimizer = trained()
    before = weights_of(optimizer)
    losses = [update(model, optimizer, BATCH, RECIPE, step).loss for step in range(1, 31)]
    assert not same(before, weights_of(optimizer))
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_an_update_is_a_function_of_weights_batch_seed_and_number(precision):
    """B37, B40: nothing else, so that nothing else need be saved. Random numbers drawn before are nothing to it."""
    config = CONFIG.model_copy(update={"P_drop": 0.3})
    first = None
    for attempt in range(2):
        model, optimizer = trained(config, precision)
        torch.manual_seed(attempt)
        torch.rand(attempt)
        model.train(attempt == 0)
        done = update(model, optimizer, BATCH, RECIPE, 5)
        first = first or (done, weights_of(optimizer))
        assert done == first[0]
        assert same(weights_of(optimizer), first[1])
    for recipe, step in ((RECIPE, 6), (RECIPE.with_changes(["training.seed=2"]), 5)):
        model, optimizer = trained(config, precision)
        assert update(model, optimizer, BATCH, recipe, step).loss != first[0].loss, (
            "dropout was not drawn anew"
        )


def test_dropout_is_on_even_after_a_validation():
    config = CONFIG.model_copy(update={"P_drop": 0.5})
    model, optimizer = trained(config)
    with_dropout = update(model, optimizer, BATCH, RECIPE, 1).loss
    model, optimizer = trained(config)
    model.eval()
    assert update(model, optimizer, BATCH, RECIPE, 1).loss == with_dropout
    model, optimizer = trained(CONFIG)
    assert update(model, optimizer, BATCH, RECIPE, 1).loss != with_dropout


def test_neighboring_seeds_and_steps_do_not_share_random_streams():
    """seed + step alone would give update 2 of seed 1 the dropout of update 1 of seed 2."""
    config = CONFIG.model_copy(update={"P_drop": 0.3})
    losses = set()
    for seed in range(4):
        for step in range(1, 5):
            model, optimizer = trained(config)
            losses.add(
                update(model, optimizer, BATCH, RECIPE.with_changes([f"training.seed={seed}"]), step).loss
            )
    assert len(losses) == 16


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_any_seed_a_recipe_takes_can_be_used(seed):
    recipe = RECIPE.with_changes([f"training.seed={seed}"])
    model, optimizer = trained(seed=seed)
    assert update(model, optimizer, BATCH, recipe, 100_000).loss > 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("place", ["target_embedding", "feed_forward"])
def test_a_loss_that_is_not_finite_changes_no_weight_and_names_the_batch(bad, precision, place):
    model, optimizer = trained(dtype=precision)
    update(model, optimizer, BATCH, RECIPE, 1)
    chosen = next(p for name, p in model.named_parameters() if place in name and p.dim() == 2)
    with torch.no_grad():
        chosen[5, 0] = bad
    before = weights_of(optimizer)
    model_before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(NonFiniteLoss) as caught:
        update(model, optimizer, BATCH, RECIPE, 2)
    assert same(before, weights_of(optimizer))
    for now, then in zip(model.parameters(), model_before, strict=True):
        assert torch.equal(now.nan_to_num(7.0), then.nan_to_num(7.0))
    message = str(caught.value)
    assert "update 2" in message
    assert "no weight was changed" in message
    assert "batch of 5 pairs (numbers 100, 101, 102, 103, 104)" in message
    assert "28 source and 30 target tokens" in message
    assert caught.value.exit_code == 5


def test_training_can_go_on_after_a_refused_update():
    model, optimizer = trained()
    weight = dict(model.named_parameters())["target_embedding.weight"]
    good = weight.detach().clone()
    with torch.no_grad():
        weight[5, 0] = float("nan")
    with pytest.raises(NonFiniteLoss):
        update(model, optimizer, BATCH, RECIPE, 1)
    with torch.no_grad():
        weight.copy_(good)
    other, its_optimizer = trained()
    assert update(model, optimizer, BATCH, RECIPE, 1) == update(other, its_optimizer, BATCH, RECIPE, 1)
    assert same(weights_of(optimizer), weights_of(its_optimizer))


def test_a_gradient_that_is_not_finite_is_refused_though_the_loss_is(monkeypatch):
    model, optimizer = trained()
    monkeypatch.setattr(optimizer, "scale_gradient", lambda _scale: float("inf"))
    before = weights_of(optimizer)
    with pytest.raises(NonFiniteLoss, match="norm inf"):
        update(model, optimizer, BATCH, RECIPE, 1)
    assert same(before, weights_of(optimizer))


@pytest.mark.parametrize(
    "pairs",
    [
        [([], [])],  # EOS alone on both sides
        [([], [5])],
        [([5], [])],
        [([4], [4]), ([], [4] * 30)],
    ],
)
def test_edge_batches_are_finite(pairs):
    """I10."""
    model, optimizer = trained()
    batch = batch_of(pairs)
    optimizer.zero_gradient()
    loss, nll = gradient(model, optimizer, batch, eps_ls=0.1, tokens_at_once=8)
    assert 0 < nll < 1e4
    assert 0 < loss < 1e4
    assert optimizer.scale_gradient(1.0) < 1e6


def case_07() -> tuple[list[str], list[str]]:
    named = os.environ.get("DRAGOMAN_CASES")
    root = Path(named) if named else Path(__file__).parents[4] / "shared" / "cases"
    folder = root / "07-token-weighted-accumulation"
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing (DRAGOMAN_CASES names the folder of cases)")
    sources = (folder / "train.src").read_text(encoding="utf-8").splitlines()
    return sources, (folder / "train.tgt").read_text(encoding="utf-8").splitlines()


def word_batch(sources: list[str], targets: list[str]) -> Batch:
    """Words are tokens."""
    words = sorted({word for unit in (*sources, *targets) for word in unit.split()})
    ids = {word: number for number, word in enumerate(words, start=4)}
    return batch_of(
        [
            ([ids[w] for w in source.split()], [ids[w] for w in target.split()])
            for source, target in zip(sources, targets, strict=True)
        ]
    )


# Four short pairs and four long ones, as in case 07.
SHORT_AND_LONG = (
    ["a b", "c d", "e f", "g h", *[" ".join("abcdefghijklmnop"[k:] + "abcd"[:k]) for k in range(4)]],
    ["v w", "w x", "x y", "y z", *[" ".join(("vwxyz"[k:] + "vwxyz") * 4)[:31] for k in range(4)]],
)


@pytest.mark.parametrize("source", ["case 07", "our own"])
def test_a_batch_in_pieces_is_the_batch(source):
    """B24: 8 pairs at once, as 4 short and then 4 long, and the other way round."""
    sources, targets = case_07() if source == "case 07" else SHORT_AND_LONG
    batch = word_batch(sources, targets)
    assert batch.target_tokens == 80
    short = word_batch(sources, targets).target_tokens - sum(len(t.split()) + 1 for t in targets[4:])
    assert short == 12
    backwards = word_batch(sources[::-1], targets[::-1])
    config = CONFIG.model_copy(update={"vocab_size": 80})
    results = []
    for one, tokens_at_once in ((batch, 1000), (batch, 4 * 17), (backwards, 4 * 17)):
        assert len(list(pieces(one, tokens_at_once))) == (1 if tokens_at_once == 1000 else 2)
        model, optimizer = trained(config)
        recipe = RECIPE.with_changes([f"batch.tokens_at_once={tokens_at_once}"])
        optimizer.zero_gradient()
        gradient(model, optimizer, one, eps_ls=0.1, tokens_at_once=tokens_at_once)
        summed = optimizer.gathered().clone()
        done = update(model, optimizer, one, recipe, 1)
        results.append((summed, done))
    first, done = results[0]
    for other, also_done in results[1:]:
        assert float((other - first).abs().max()) <= 1e-6 * float(first.abs().max())
        assert also_done.loss == pytest.approx(done.loss, rel=1e-6)
        assert also_done.nll == pytest.approx(done.nll, rel=1e-6)
        assert also_done.gradient_norm == pytest.approx(done.gradient_norm, rel=1e-5)
