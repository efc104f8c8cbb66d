"""The recurrent model: its equations by hand, padding, steps as in training, learning by the common step, search."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dragoman.data.batches import Batch
from dragoman.errors import ConfigError
from dragoman.predecessors.recurrent import RecurrentConfig, RecurrentDecoder, RecurrentTranslator
from dragoman.recipe import Recipe
from dragoman.search.beam import beam_search
from dragoman.search.options import SearchOptions
from dragoman.search.step import StepFunction
from dragoman.training.optimizer import FlatAdam
from dragoman.training.step import update

V, BOS, EOS = 23, 2, 1
CONFIG = RecurrentConfig(vocab_size=V, d_model=8, d_hidden=6, P_drop=0.0)


@pytest.fixture
def model() -> RecurrentTranslator:
    made = RecurrentTranslator(CONFIG, seed=3).double().eval()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw).double())
    return made


SOURCE = torch.tensor([[4, 5, 6, 7, EOS], [8, 9, EOS, 0, 0]])
TARGET = torch.tensor([[BOS, 10, 11, 12], [BOS, 13, 14, 0]])


def gru(x: Tensor, h: Tensor, W: Tensor, U: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """One step of one sentence, gate by gate."""
    (Wr, Wz, Wn), (Ur, Uz, Un) = W.chunk(3), U.chunk(3)
    (br, bz, bn), (cr, cz, cn) = b.chunk(3), c.chunk(3)
    r, z = torch.sigmoid(Wr @ x + br + Ur @ h + cr), torch.sigmoid(Wz @ x + bz + Uz @ h + cz)
    n = torch.tanh(Wn @ x + bn + r * (Un @ h + cn))
    return (1 - z) * n + z * h


def by_hand(model: RecurrentTranslator, source: list[int], target: list[int]) -> Tensor:
    """Logits of one pair, token by token, from the equations of the module's header."""
    p = dict(model.named_parameters())
    scale = math.sqrt(CONFIG.d_model)
    x = [p["embedding.weight"][token] * scale for token in source]
    directions = []
    for suffix, order in (("", 1), ("_reverse", -1)):
        named = [p[f"encoder.{part}_l0{suffix}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        h, states = torch.zeros(CONFIG.d_hidden).double(), []
        for token in x[::order]:
            h = gru(token, h, *named)
            states.append(h)
        directions.append(states[::order])
    annotations = [torch.cat(pair) for pair in zip(*directions, strict=True)]
    s = torch.tanh(p["first_state.weight"] @ directions[1][0] + p["first_state.bias"])
    cell = [p[f"cell.{part}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    logits = []
    for token in target:
        y = p["embedding.weight"][token] * scale
        e = torch.stack(
            [
                p["v_a"] @ torch.tanh(p["W_a.weight"] @ s + p["U_a.weight"] @ h + p["U_a.bias"])
                for h in annotations
            ]
        )
        alpha = e.exp() / e.exp().sum()
        c = sum(a * h for a, h in zip(alpha, annotations, strict=True))
        both = p["before_maxout.weight"] @ torch.cat([s, y, c]) + p["before_maxout.bias"]
        t = torch.stack([both[2 * k : 2 * k + 2].max() for k in range(CONFIG.d_model)])
        logits.append(p["W_o"] @ t)
        s = gru(torch.cat([y, c]), s, *cell)
    return torch.stack(logits)


def test_the_equations(model):
    found = model(SOURCE, TARGET)
    for row, (S, T) in enumerate([(5, 4), (3, 3)]):
        wanted = by_hand(model, SOURCE[row, :S].tolist(), TARGET[row, :T].tolist())
        torch.testing.assert_close(found[row, :T], wanted, rtol=1e-10, atol=1e-10)


def test_padding_has_no_weight_and_the_others_sum_to_one(model):
    encoded = model.encode(SOURCE)
    weights = model.alignment(encoded.first_state, encoded)
    assert torch.equal(weights == 0, SOURCE == 0)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2).double())


def test_one_step_at_a_time_is_the_whole(model):
    whole = model(SOURCE, TARGET)
    decoder = RecurrentDecoder(model, SOURCE)
    assert isinstance(decoder, StepFunction)
    for position in range(3):
        logits = decoder(TARGET[:, position : position + 1])
        torch.testing.assert_close(logits[:, 0], whole[:, position].float(), rtol=1e-5, atol=1e-5)


def test_prefixes_are_told_apart_and_follow_their_sentences(model):
    """After a reorder each prefix goes on from the state of its own parent."""
    decoder = RecurrentDecoder(model, SOURCE)
    decoder(torch.tensor([[BOS], [BOS]]))
    decoder.reorder(torch.tensor([0, 1]), torch.zeros(2, 2, dtype=torch.int64))
    decoder(torch.tensor([[10, 11], [13, 14]]))
    decoder.reorder(torch.tensor([1]), torch.tensor([[1, 0, 1]]))
    found = decoder(torch.tensor([[5, 6, 7]]))[0]
    for row, prefix in enumerate([[BOS, 14, 5], [BOS, 13, 6], [BOS, 14, 7]]):
        wanted = model(SOURCE[1:, :3], torch.tensor([prefix]))[0, -1]
        torch.testing.assert_close(found[row], wanted.float(), rtol=1e-5, atol=1e-5)


def test_it_learns_by_the_common_step_and_translates_by_the_common_search():
    """Copying three tokens backwards."""
    draw = torch.Generator().manual_seed(1)
    words = torch.randint(4, V, (64, 3), generator=draw)
    end = torch.full((64, 1), EOS)
    source, target = torch.cat([words, end], dim=1), torch.cat([words.flip(1), end], dim=1)
    shifted = torch.cat([torch.full((64, 1), BOS), target[:, :-1]], dim=1)
    batch = Batch(source, shifted, target, torch.arange(64), 256, 256)
    model = RecurrentTranslator(RecurrentConfig(vocab_size=V, d_model=32, d_hidden=32, P_drop=0.0), seed=1)
    recipe = Recipe().with_changes(
        ["optimizer.warmup_steps=50", "optimizer.factor=0.5", "training.eps_ls=0.0"]
    )
    optimizer = FlatAdam(model, torch.float32, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    losses = [update(model, optimizer, batch, recipe, step).loss for step in range(1, 201)]
    assert losses[-1] < 0.1 < losses[0]
    found = beam_search(
        RecurrentDecoder(model.eval(), source),
        source_lengths=[4] * 64,
        options=SearchOptions(),
        bos_id=BOS,
        eos_id=EOS,
    )
    right = [list(best[0].tokens) == row for best, row in zip(found, target.tolist(), strict=True)]
    assert sum(right) >= 60


def test_the_seed_decides():
    def weights(seed: int) -> list[Tensor]:
        return [p.detach() for p in RecurrentTranslator(CONFIG, seed=seed).parameters()]

    torch.manual_seed(1)
    first = weights(1)
    torch.manual_seed(2)
    assert all(torch.equal(a, b) for a, b in zip(first, weights(1), strict=True))
    assert not torch.equal(first[0], weights(2)[0])


def test_dropout_is_for_training_alone():
    model = RecurrentTranslator(RecurrentConfig(vocab_size=V, d_model=8, d_hidden=6, P_drop=0.5), seed=1)
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


@pytest.mark.parametrize("bad", [{"vocab_size": 0}, {"d_model": -1}, {"d_hidden": 0}, {"P_drop": 1.0}])
def test_sizes_that_make_no_model_are_refused(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        RecurrentConfig(**{"vocab_size": 5, **bad})
