"""The whole model: causality (I09), finite (I10), accumulation (I11), train = eval (I13), same bits (I14).

Paper: 3, 3.2.3, Figure 1
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import CONFIGS, build, configs, random_ids
from torch import Tensor

from dragoman.model import dropout as dropout_module
from dragoman.model import residual, transformer
from dragoman.model.config import ModelConfig
from dragoman.model.mask import padding_mask
from dragoman.model.transformer import Transformer

NAMES = st.sampled_from(sorted(CONFIGS))
SEEDS = st.integers(0, 2**20)


def loss_sum(model: Transformer, source_ids: Tensor, target_ids: Tensor, output_ids: Tensor) -> Tensor:
    """Cross-entropy summed over real target tokens."""
    logits = (
        model(source_ids, target_ids).float()
        if model.dtype != torch.float64
        else model(source_ids, target_ids)
    )
    return F.cross_entropy(logits.flatten(0, 1), output_ids.flatten(), ignore_index=0, reduction="sum")


@settings(max_examples=40)
@given(name=NAMES, seed=SEEDS, data=st.data())
def test_a_token_changes_no_logits_before_it(name, seed, data):
    """I09: bit for bit, in float32 as in use."""
    model = build(CONFIGS[name], seed=seed, dtype=torch.float32)
    V = model.config.vocab_size
    T = data.draw(st.integers(1, 9))
    t = data.draw(st.integers(0, T - 1))
    source_ids, target_ids = (
        random_ids(model.config.source_rows, [4, 2], seed=seed),
        random_ids(V, [T, T], seed=seed),
    )
    other = target_ids.clone()
    other[:, t] = (other[:, t] + data.draw(st.integers(1, V - 1))) % V
    with torch.no_grad():
        before, after = model(source_ids, target_ids), model(source_ids, other)
    assert torch.equal(before[:, :t], after[:, :t])
    assert not torch.equal(before[:, t], after[:, t])


def test_no_gradient_flows_from_a_position_to_a_later_token():
    model = build(CONFIGS["untied"])
    target_ids = torch.tensor([[2, 5, 6, 7]])
    model(torch.tensor([[3, 4]]), target_ids)[0, 1].sum().backward()
    touched = (model.target_embedding.weight.grad != 0).any(dim=1).nonzero().flatten().tolist()
    assert touched == [2, 5]


EDGES = {
    "empty source": (torch.zeros(1, 0, dtype=torch.int64), torch.tensor([[2, 5]]), torch.tensor([[5, 1]])),
    "one token": (torch.tensor([[1]]), torch.tensor([[2]]), torch.tensor([[1]])),
    "a row of padding": (
        torch.tensor([[3, 4, 1], [0, 0, 0]]),
        torch.tensor([[2, 5, 6], [0, 0, 0]]),
        torch.tensor([[5, 6, 1], [0, 0, 0]]),
    ),
    "padded source, real target": (torch.tensor([[0, 0]]), torch.tensor([[2, 5]]), torch.tensor([[5, 1]])),
    "padding within": (torch.tensor([[3, 0, 4]]), torch.tensor([[2, 0, 5]]), torch.tensor([[3, 5, 1]])),
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_loss_and_gradients_are_finite_at_every_edge(edge, dtype):
    """I10."""
    model = build(CONFIGS["odd_heads"], dtype=dtype).train()
    loss = loss_sum(model, *EDGES[edge])
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_a_vocabulary_of_64k_is_finite_too():
    model = Transformer(ModelConfig(vocab_size=65_536, N=1, d_model=8, d_ff=8, h=2, P_drop=0.0)).to(
        torch.bfloat16
    )
    loss = loss_sum(
        model, torch.tensor([[65_535, 1]]), torch.tensor([[2, 65_535]]), torch.tensor([[65_535, 1]])
    )
    loss.backward()
    assert loss.isfinite()
    assert model.output_weight.grad.isfinite().all()


@settings(max_examples=15)
@given(cuts=st.lists(st.booleans(), min_size=4, max_size=4), seed=SEEDS)
def test_gradients_of_a_batch_are_the_sum_over_any_cut_of_it(cuts, seed):
    """I11: whatever padding the pieces lose."""
    model = build(CONFIGS["odd_heads"], seed=seed).train()
    lengths = [5, 1, 3, 2, 6]
    source_ids, output_ids = random_ids(11, lengths, seed=seed), random_ids(11, lengths[::-1], seed=seed + 1)
    target_ids = F.pad(output_ids[:, :-1], (1, 0), value=2)
    parameters = list(model.parameters())
    whole = torch.autograd.grad(loss_sum(model, source_ids, target_ids, output_ids), parameters)

    edges = [0, *(i for i, cut in enumerate(cuts, start=1) if cut), 5]
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for start, stop in itertools.pairwise(edges):
        S, T = max(lengths[start:stop]), max(lengths[::-1][start:stop])
        piece = source_ids[start:stop, :S], target_ids[start:stop, :T], output_ids[start:stop, :T]
        for held, gradient in zip(
            total, torch.autograd.grad(loss_sum(model, *piece), parameters), strict=True
        ):
            held += gradient
    for got, want in zip(total, whole, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-9)


@settings(max_examples=20)
@given(name=NAMES, seed=SEEDS)
def test_training_without_dropout_is_evaluation(name, seed):
    """I13: to the bit; and within rounding where no gradient is wanted, for which other kernels are taken."""
    model = build(CONFIGS[name], seed=seed)
    source_ids = random_ids(model.config.source_rows, [6, 2, 1], seed=seed)
    target_ids = random_ids(model.config.vocab_size, [3, 5, 1], seed=seed)
    for dtype, tolerance in ((torch.float64, 1e-13), (torch.float32, 1e-4)):
        model.to(dtype)
        trained = model.train()(source_ids, target_ids)
        evaluated = model.eval()(source_ids, target_ids)
        assert torch.equal(trained, evaluated)
        with torch.no_grad():
            evaluated = model(source_ids, target_ids)
        torch.testing.assert_close(trained, evaluated, rtol=tolerance, atol=tolerance)


def one_update(seed: int) -> list[Tensor]:
    torch.manual_seed(seed)
    model = Transformer(ModelConfig(vocab_size=11, N=1, d_model=8, d_ff=12, h=2, P_drop=0.3), seed=4).train()
    ids = random_ids(11, [5, 3], seed=1)
    loss_sum(model, ids, ids, ids).backward()
    return [parameter.grad for parameter in model.parameters()]


def test_two_runs_are_the_same_to_the_last_bit():
    """I14: with dropout on, from the same seeds."""
    first, second, other = one_update(1), one_update(1), one_update(2)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0], other[0])


@pytest.fixture
def drops(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[tuple[int, ...]]]]:
    """Shapes of everything that is dropped out, by place; anything else that drops out is an error."""
    places: dict[str, list[tuple[int, ...]]] = {"residual": [], "embedding": [], "all": []}
    keep_mask = dropout_module.keep_mask

    def noted(place: str, form):
        def at_place(*values) -> Tensor:
            *tensors, P_drop, training = values
            assert P_drop == 0.5
            assert training
            places[place].append(tuple(tensors[-1].shape))
            return form(*values)

        return at_place

    def noted_mask(shape, P_drop, device, dtype):
        places["all"].append(tuple(shape))
        return keep_mask(shape, P_drop, device, dtype)

    def refused(*args, **kwargs):
        raise AssertionError("dropout that is not the model's own")

    monkeypatch.setattr(residual, "add_dropped", noted("residual", dropout_module.add_dropped))
    monkeypatch.setattr(transformer, "dropout", noted("embedding", dropout_module.dropout))
    monkeypatch.setattr(dropout_module, "keep_mask", noted_mask)
    for name in ("dropout", "dropout1d", "alpha_dropout", "feature_alpha_dropout"):
        monkeypatch.setattr(F, name, refused)
    monkeypatch.setattr(torch, "dropout", refused)
    return places


@pytest.mark.parametrize("N", [1, 3])
def test_dropout_is_on_each_sublayer_and_on_embedding_plus_position_and_nowhere_else(drops, N):
    """5.4. Neither the weights of attention nor the inside of the network have its shape."""
    config = ModelConfig(vocab_size=11, N=N, d_model=8, d_ff=12, h=2, P_drop=0.5)
    # float64: written out; tests/parity/test_native.py holds that the kernels drop the same.
    Transformer(config).double().train()(random_ids(11, [5, 3], seed=1), random_ids(11, [4, 2], seed=2))
    source, target = (2, 5, 8), (2, 4, 8)
    assert drops["embedding"] == [source, target]
    assert drops["residual"] == [source] * 2 * N + [target] * 3 * N
    assert len(drops["all"]) == 2 + 2 * N + 3 * N == len(drops["embedding"]) + len(drops["residual"])
    assert set(drops["all"]) == {source, target}


def test_evaluation_drops_nothing():
    config = ModelConfig(vocab_size=11, N=2, d_model=8, d_ff=12, h=2, P_drop=0.5)
    model = Transformer(config).eval()
    ids = random_ids(11, [5, 3], seed=1)
    assert torch.equal(model(ids, ids), model(ids, ids))
    assert not torch.equal(model.train()(ids, ids), model(ids, ids))


def test_dropout_on_the_embeddings_falls_after_positions_are_added(monkeypatch):
    seen = []
    monkeypatch.setattr(transformer, "dropout", lambda x, P_drop, training: (seen.append(x), x)[1])
    model = build(CONFIGS["paper"])
    ids = torch.tensor([[3, 4]])
    model.encode(ids)
    torch.testing.assert_close(seen[0], model.position(model.source_embedding(ids)))


@settings(max_examples=15)
@given(config=configs(), seed=SEEDS)
def test_the_parts_of_a_pass_make_the_pass(config, seed):
    model = build(config, seed=seed)
    source_ids = random_ids(config.source_rows, [4, 2], seed=seed)
    target_ids = random_ids(config.vocab_size, [3, 3], seed=seed)
    logits = model(source_ids, target_ids)
    memory = model.encode(source_ids)
    mask = padding_mask(source_ids, 0)
    assert logits.shape == (2, 3, config.vocab_size)
    assert memory.shape == (2, 4, config.d_model)
    torch.testing.assert_close(model.decode(target_ids, memory, mask), logits)
    torch.testing.assert_close(model.hidden(source_ids, target_ids) @ model.output_weight.T, logits)
    torch.testing.assert_close(
        model.decode(target_ids[:1], memory[:1]), logits[:1], msg="without a mask all of the source is seen"
    )


def test_the_weights_survive_being_saved_and_loaded():
    model = build(CONFIGS["untied"])
    other = Transformer(CONFIGS["untied"], seed=77).double().eval()
    other.position.table = model.position.table
    other.load_state_dict(model.state_dict())
    source_ids, target_ids = random_ids(14, [4], seed=1), random_ids(10, [3], seed=2)
    assert torch.equal(other(source_ids, target_ids), model(source_ids, target_ids))


def test_a_copy_is_apart_and_keeps_what_is_shared():
    model = build(CONFIGS["paper"])
    other = copy.deepcopy(model)
    assert other.source_embedding is other.target_embedding
    with torch.no_grad():
        other.output_weight.zero_()
    assert (model.output_weight != 0).any()


LATER = (
    "gate",
    "rope",
    "rotary",
    "rms",
    "alibi",
    "relative",
    "moe",
    "expert",
    "adapter",
    "scale",
    "logit_bias",
    "lora",
)


@pytest.mark.parametrize("name", CONFIGS)
def test_no_parameter_is_named_after_a_later_idea(name):
    names = [name for name, _ in Transformer(CONFIGS[name]).named_parameters()]
    assert names
    assert [name for name in names for idea in LATER if idea in name.lower()] == []


def test_nothing_but_the_stacks_and_embeddings_has_weights():
    names = {name.split(".")[0] for name, _ in Transformer(CONFIGS["untied"]).named_parameters()}
    assert names == {"target_embedding", "source_embedding", "untied_output", "encoder", "decoder"}
