"""Embeddings and the output map.

Paper: 3.4
"""

from __future__ import annotations

import pytest
import torch
from random_models import CONFIGS, build

from dragoman.model.embedding import Embedding, output_map


def test_rows_are_looked_up_and_scaled():
    embedding = Embedding(3, 4)
    with torch.no_grad():
        embedding.weight.copy_(torch.arange(12.0).view(3, 4))
    got = embedding(torch.tensor([[2, 0]]))
    assert got.tolist() == [[[16.0, 18.0, 20.0, 22.0], [0.0, 2.0, 4.0, 6.0]]]


def test_an_id_beyond_the_vocabulary_is_an_error():
    with pytest.raises(IndexError):
        Embedding(3, 4)(torch.tensor([[3]]))


def test_the_gradient_of_a_row_is_scaled_too():
    embedding = Embedding(3, 16)
    embedding(torch.tensor([[1, 1]])).sum().backward()
    assert torch.equal(embedding.weight.grad, torch.tensor([[0.0], [8.0], [0.0]]).expand(3, 16))


def test_logits_are_products_with_the_rows():
    x, E = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[3.0, 4.0], [5.0, 6.0], [0.0, 1.0]])
    assert output_map(x, E).tolist() == [[[11.0, 17.0, 2.0]]]


@pytest.mark.parametrize(
    ("name", "matrices"), [("paper", 1), ("own_source", 2), ("own_output", 2), ("untied", 3)], ids=str
)
def test_one_matrix_serves_where_the_config_says_so(name, matrices):
    model = build(CONFIGS[name])
    config = CONFIGS[name]
    rows = {id(part.weight) for part in model.modules() if isinstance(part, Embedding)}
    assert len(rows) == matrices
    assert (model.source_embedding is model.target_embedding) == config.shared_embeddings
    assert (model.output_weight is model.target_embedding.weight) == config.tied_output
    assert model.source_embedding.weight.shape == (config.source_rows, config.d_model)
    assert model.output_weight.shape == (config.vocab_size, config.d_model)


def test_the_shared_matrix_learns_from_all_three_places():
    """Tokens 3 (source), 4 (target) and 5 (nowhere but in the softmax) all get a gradient."""
    model = build(CONFIGS["paper"])
    model(torch.tensor([[3]]), torch.tensor([[4]])).log_softmax(dim=-1)[0, 0, 5].backward()
    assert (model.target_embedding.weight.grad[[3, 4, 5]] != 0).any(dim=1).all()


def test_an_untied_output_keeps_the_source_and_target_apart():
    model = build(CONFIGS["untied"])
    model(torch.tensor([[3]]), torch.tensor([[4]])).log_softmax(dim=-1)[0, 0, 5].backward()
    assert (model.source_embedding.weight.grad != 0).any(dim=1).nonzero().tolist() == [[3]]
    assert (model.target_embedding.weight.grad != 0).any(dim=1).nonzero().tolist() == [[4]]
    assert (model.untied_output.weight.grad != 0).any(dim=1).all()
