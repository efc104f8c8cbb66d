"""The whole model equals Hugging Face's Marian, weights copied and its additions to the paper set to nothing.

Marian's positions are all the sines and then all the cosines, with the paper's wavelengths. A model does not
mind in what order the width lies as long as every matrix has the same: so each of ours is permuted on the
way, and Marian keeps its own table.
"""

from __future__ import annotations

import pytest
import torch
from random_models import build, random_ids
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.config import ModelConfig
from dragoman.model.position import sinusoids
from dragoman.model.residual import LAYER_NORM_EPSILON
from dragoman.model.transformer import Transformer

transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra: interop)")

CONFIG = ModelConfig(vocab_size=19, N=2, d_model=16, d_ff=20, h=4, P_drop=0.0)
ORDER = torch.cat([torch.arange(0, 16, 2), torch.arange(1, 16, 2)])  # sines, then cosines
TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-9}


def marian_config(config: ModelConfig) -> transformers.MarianConfig:
    return transformers.MarianConfig(
        vocab_size=config.vocab_size,
        d_model=config.d_model,
        encoder_layers=config.N,
        decoder_layers=config.N,
        encoder_attention_heads=config.h,
        decoder_attention_heads=config.h,
        encoder_ffn_dim=config.d_ff,
        decoder_ffn_dim=config.d_ff,
        activation_function="relu",
        scale_embedding=True,
        static_position_embeddings=True,
        max_position_embeddings=64,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        pad_token_id=config.pad_id,
        eos_token_id=1,
        bos_token_id=2,
        decoder_start_token_id=2,
        attn_implementation="eager",
    )


def copy_norm(theirs: nn.LayerNorm, ours: nn.LayerNorm) -> None:
    theirs.weight.copy_(ours.weight[ORDER])
    theirs.bias.copy_(ours.bias[ORDER])
    theirs.eps = LAYER_NORM_EPSILON


def copy_attention(theirs: nn.Module, ours: MultiHeadAttention) -> None:
    W_Q, W_K, W_V, W_O = ours.matrices()
    for part, matrix in ((theirs.q_proj, W_Q), (theirs.k_proj, W_K), (theirs.v_proj, W_V)):
        part.weight.copy_(matrix[:, ORDER])
        part.bias.zero_()
    theirs.out_proj.weight.copy_(W_O[ORDER])
    theirs.out_proj.bias.zero_()


def copy_layer(theirs: nn.Module, ours: nn.Module) -> None:
    copy_attention(theirs.self_attn, ours.self_attention)
    copy_norm(theirs.self_attn_layer_norm, ours.residual_1.norm)
    last = ours.residual_2
    if hasattr(theirs, "encoder_attn"):
        copy_attention(theirs.encoder_attn, ours.cross_attention)
        copy_norm(theirs.encoder_attn_layer_norm, ours.residual_2.norm)
        last = ours.residual_3
    copy_norm(theirs.final_layer_norm, last.norm)
    theirs.fc1.weight.copy_(ours.feed_forward.W_1[:, ORDER])
    theirs.fc1.bias.copy_(ours.feed_forward.b_1)
    theirs.fc2.weight.copy_(ours.feed_forward.W_2[ORDER])
    theirs.fc2.bias.copy_(ours.feed_forward.b_2[ORDER])


@torch.no_grad()
def marian_twin(model: Transformer) -> nn.Module:
    twin = transformers.MarianMTModel(marian_config(model.config)).to(model.dtype).eval()
    twin.model.shared.weight.copy_(model.target_embedding.weight[:, ORDER])
    twin.final_logits_bias.zero_()
    for theirs, ours in zip(twin.model.encoder.layers, model.encoder, strict=True):
        copy_layer(theirs, ours)
    for theirs, ours in zip(twin.model.decoder.layers, model.decoder, strict=True):
        copy_layer(theirs, ours)
    for stack in (twin.model.encoder, twin.model.decoder):
        table = stack.embed_positions.weight
        exact = sinusoids(64, model.config.d_model)[:, ORDER]
        torch.testing.assert_close(table.double(), exact, rtol=0, atol=1e-6)  # the paper's, in blocks
        table.copy_(exact)  # and in float64 to all digits
    return twin


def batch() -> tuple[Tensor, Tensor]:
    return random_ids(19, [6, 3, 1], seed=1), random_ids(19, [4, 5, 2], seed=2)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_logits_equal_marians(dtype):
    model = build(CONFIG, dtype=dtype)
    source_ids, target_ids = batch()
    twin = marian_twin(model)
    assert twin.lm_head.weight is twin.model.shared.weight
    with torch.no_grad():
        want = twin(input_ids=source_ids, attention_mask=source_ids != 0, decoder_input_ids=target_ids).logits
        got = model(source_ids, target_ids)
    real = target_ids != 0
    assert got[real].std() > 0.5
    torch.testing.assert_close(got[real], want[real], rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


def test_the_order_of_the_width_matters_where_it_is_not_followed():
    """A guard on this test itself: with the matrix of embeddings left as it was, the logits differ."""
    model = build(CONFIG)
    source_ids, target_ids = batch()
    twin = marian_twin(model)
    with torch.no_grad():
        twin.model.shared.weight.copy_(model.target_embedding.weight)
        want = twin(input_ids=source_ids, attention_mask=source_ids != 0, decoder_input_ids=target_ids).logits
        assert (model(source_ids, target_ids) - want).abs().max() > 1e-2
