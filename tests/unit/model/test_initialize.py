"""Initial values: what the authors stored as one matrix within one bound, from a seed and nothing else."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.config import ModelConfig
from dragoman.model.embedding import Embedding
from dragoman.model.feed_forward import FeedForward
from dragoman.model.initialize import glorot_uniform_, initialize
from dragoman.model.transformer import Transformer

# Sizes that all differ, so that no matrix has the bound of another; wide enough for statistics.
CONFIG = ModelConfig(
    vocab_size=900, source_vocab_size=700, shared_embeddings=False, tied_output=False,
    N=2, d_model=96, d_ff=400, h=4, d_k=20, d_v=50,
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Transformer:
    return Transformer(CONFIG, seed=11)


def matrices(model: Transformer) -> dict[str, tuple[torch.Tensor, int]]:
    """Each matrix of the paper with the sum of the two sizes of what the authors' code stored it in."""
    h, d_k, d_v, d_model = CONFIG.h, CONFIG.d_k, CONFIG.d_v, CONFIG.d_model
    keys_and_values = h * (d_k + d_v)
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            alone = name.endswith("cross_attention")  # its queries: they come from the other side
            stored = module.W_QKV.detach()
            queries = d_model + h * d_k + (0 if alone else keys_and_values)
            others = d_model + keys_and_values + (0 if alone else h * d_k)
            found[f"{name}.W_Q"] = stored[: h * d_k], queries
            found[f"{name}.W_K"] = stored[h * d_k : 2 * h * d_k], others
            found[f"{name}.W_V"] = stored[2 * h * d_k :], others
            found[f"{name}.W_O"] = module.W_O.detach(), d_model + h * d_v
        if isinstance(module, FeedForward):
            found[f"{name}.W_1"] = module.W_1.detach(), d_model + CONFIG.d_ff
            found[f"{name}.W_2"] = module.W_2.detach(), d_model + CONFIG.d_ff
    return found


def test_every_matrix_lies_within_its_own_bound_and_fills_it(model):
    found = matrices(model)
    assert len(found) == 2 * (4 + 2) + 2 * (4 + 4 + 2)
    for name, (matrix, sizes) in found.items():
        bound = math.sqrt(6.0 / sizes)
        assert matrix.abs().max() <= bound, name
        assert matrix.abs().max() > 0.99 * bound, name
        assert matrix.var().item() == pytest.approx(2.0 / sizes, rel=0.05), name
        assert matrix.mean().item() == pytest.approx(0.0, abs=0.03 * bound), name


def test_embeddings_are_normal_with_deviation_one_over_the_root_of_the_width(model):
    for part in (model.source_embedding, model.target_embedding, model.untied_output):
        weight = part.weight.detach()
        assert weight.std().item() == pytest.approx(CONFIG.d_model**-0.5, rel=0.02)
        assert weight.mean().item() == pytest.approx(0.0, abs=0.002)
        within = (weight.abs() < CONFIG.d_model**-0.5).double().mean().item()
        assert within == pytest.approx(0.6827, abs=0.01)


def test_embeddings_times_their_scale_have_variance_one(model):
    x = model.target_embedding(torch.arange(CONFIG.vocab_size))
    assert x.var().item() == pytest.approx(1.0, rel=0.03)


def test_biases_are_zero_and_norms_do_nothing_yet(model):
    for module in model.modules():
        if isinstance(module, FeedForward):
            assert (module.b_1 == 0).all()
            assert (module.b_2 == 0).all()
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


def test_no_two_matrices_are_alike(model):
    numbers = [matrix.flatten()[0].item() for matrix, _ in matrices(model).values()]
    assert len(set(numbers)) == len(numbers)


def small(seed: int) -> list[torch.Tensor]:
    model = Transformer(ModelConfig(vocab_size=9, N=1, d_model=8, d_ff=6, h=2), seed=seed)
    return [parameter.detach() for parameter in model.parameters()]


def test_the_seed_decides_to_the_last_bit_and_nothing_else_does():
    torch.manual_seed(1)
    first = small(5)
    torch.manual_seed(2)
    torch.rand(7)
    assert all(torch.equal(a, b) for a, b in zip(first, small(5), strict=True))
    assert not torch.equal(first[0], small(6)[0])


def test_building_a_model_leaves_the_global_generator_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    small(5)
    assert torch.equal(torch.rand(3), expected)


def test_initializing_again_gives_the_same_and_forgets_what_was_learned(model):
    again = Transformer(CONFIG, seed=99)
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.fill_(7.0)
    initialize(again, 11)
    for name, parameter in again.named_parameters():
        assert torch.equal(parameter, model.get_parameter(name)), name


def test_parts_that_are_not_of_the_paper_keep_their_own_values():
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((3,), 5.0))

    holder = nn.ModuleList([Other(), Embedding(4, 2)])
    initialize(holder, 1)
    assert (holder[0].weight == 5.0).all()


def test_glorot_of_a_matrix_that_is_not_square():
    matrix = torch.empty(10, 590)
    glorot_uniform_([matrix], torch.Generator().manual_seed(0))
    assert 0.099 < matrix.abs().max() <= 0.1


def test_glorot_of_several_is_that_of_one_as_long():
    parts = [torch.empty(rows, 500) for rows in (10, 30, 60)]
    glorot_uniform_(parts, torch.Generator().manual_seed(0))
    assert all(0.098 < part.abs().max() <= 0.1 for part in parts)
