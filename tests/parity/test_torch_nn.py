"""The two stacks equal torch.nn.Transformer's, its extra final norms taken out and the weights copied.

Paper: 3.1, Figure 1
"""

from __future__ import annotations

import math

import pytest
import torch
from random_models import build, random_ids
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.config import ModelConfig
from dragoman.model.mask import causal_mask, padding_mask
from dragoman.model.residual import LAYER_NORM_EPSILON
from dragoman.model.transformer import Transformer

CONFIG = ModelConfig(vocab_size=17, N=2, d_model=12, d_ff=20, h=3, P_drop=0.0)
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    theirs.in_proj_weight.copy_(ours.W_QKV)
    theirs.in_proj_bias.zero_()
    theirs.out_proj.weight.copy_(ours.W_O)
    theirs.out_proj.bias.zero_()


def copy_layer(theirs: nn.Module, ours: nn.Module) -> None:
    copy_attention(theirs.self_attn, ours.self_attention)
    norms = [ours.residual_1, ours.residual_2]
    if hasattr(theirs, "multihead_attn"):
        copy_attention(theirs.multihead_attn, ours.cross_attention)
        norms.append(ours.residual_3)
    theirs.linear1.weight.copy_(ours.feed_forward.W_1)
    theirs.linear1.bias.copy_(ours.feed_forward.b_1)
    theirs.linear2.weight.copy_(ours.feed_forward.W_2)
    theirs.linear2.bias.copy_(ours.feed_forward.b_2)
    for i, residual in enumerate(norms, start=1):
        getattr(theirs, f"norm{i}").load_state_dict(residual.norm.state_dict())


@torch.no_grad()
def torch_twin(model: Transformer) -> nn.Transformer:
    """torch's own Transformer with the weights of ours."""
    config = model.config
    twin = nn.Transformer(
        d_model=config.d_model,
        nhead=config.h,
        num_encoder_layers=config.N,
        num_decoder_layers=config.N,
        dim_feedforward=config.d_ff,
        dropout=0.0,
        activation="relu",
        layer_norm_eps=LAYER_NORM_EPSILON,
        batch_first=True,
        norm_first=False,
        dtype=model.dtype,
    )
    twin.encoder.norm = None
    twin.decoder.norm = None
    for theirs, ours in [*zip(twin.encoder.layers, model.encoder, strict=True)]:
        copy_layer(theirs, ours)
    for theirs, ours in [*zip(twin.decoder.layers, model.decoder, strict=True)]:
        copy_layer(theirs, ours)
    return twin.train(model.training)


def twin_hidden(twin: nn.Transformer, model: Transformer, source_ids: Tensor, target_ids: Tensor) -> Tensor:
    """Embeddings and positions ours (torch has none), stacks torch's. Its masks: True = may not attend."""
    source, target = (
        nn.functional.embedding(ids, model.target_embedding.weight) * math.sqrt(model.config.d_model)
        + model.position.table[: ids.shape[1]]
        for ids in (source_ids, target_ids)
    )
    is_padding = ~padding_mask(source_ids, 0)[:, 0, 0]
    return twin(
        source,
        target,
        tgt_mask=~causal_mask(target_ids.shape[1])[0, 0],
        src_key_padding_mask=is_padding,
        memory_key_padding_mask=is_padding,
    )


def batch() -> tuple[Tensor, Tensor]:
    return random_ids(17, [6, 3, 1], seed=1), random_ids(17, [4, 5, 2], seed=2)


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning", "ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_the_stacks_equal_torchs(dtype, training):
    model = build(CONFIG, dtype=dtype).train(training)
    twin = torch_twin(model)
    with torch.set_grad_enabled(training):  # without gradients torch takes its fast path
        want = twin_hidden(twin, model, *batch())
        got = model.hidden(*batch())
    torch.testing.assert_close(got, want, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
def test_gradients_equal_torchs():
    model = build(CONFIG).train()
    twin = torch_twin(model)
    model.hidden(*batch()).sin().sum().backward()
    twin_hidden(twin, model, *batch()).sin().sum().backward()
    ours, theirs = model.decoder[0].cross_attention, twin.decoder.layers[0].multihead_attn
    torch.testing.assert_close(ours.W_QKV.grad, theirs.in_proj_weight.grad, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.W_O.grad, theirs.out_proj.weight.grad, rtol=1e-10, atol=1e-12)
    network = twin.encoder.layers[0].linear1
    torch.testing.assert_close(
        model.encoder[0].feed_forward.W_1.grad, network.weight.grad, rtol=1e-10, atol=1e-12
    )


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
def test_torchs_own_default_is_another_model():
    """With the final norms it adds to each stack the numbers differ: the paper has none there."""
    model = build(CONFIG)
    twin = torch_twin(model)
    twin.encoder.norm = nn.LayerNorm(CONFIG.d_model, dtype=model.dtype)
    twin.eval()
    assert (twin_hidden(twin, model, *batch()) - model.hidden(*batch())).abs().max() > 1e-3
