"""What others compute, in their own implementations: torch.nn.Transformer as it comes, and transformers' Marian."""

from __future__ import annotations

import math

import pytest
import torch
from departing import CONFIG, build
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_ids
from torch import nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.config import ModelConfig
from dragoman.model.mask import causal_mask, padding_mask
from dragoman.model.packed import has_the_papers_parts
from dragoman.model.residual import LAYER_NORM_EPSILON
from dragoman.training.loss import label_smoothed_loss, output_loss
from dragoman.variants.departures import BlockSinusoids, FinalNorm, OutputBias, PreNorm, ProjectionBiases
from dragoman.variants.parts import build as build_untrained

SQUARE = ModelConfig(vocab_size=17, N=2, d_model=12, d_ff=20, h=3, P_drop=0.0)


def copy_attention(theirs: nn.MultiheadAttention, ours: nn.Module) -> None:
    theirs.in_proj_weight.copy_(ours.W_QKV)
    theirs.in_proj_bias.copy_(ours.biases.b_QKV)
    theirs.out_proj.weight.copy_(ours.W_O)
    theirs.out_proj.bias.copy_(ours.biases.b_O)


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


@pytest.mark.filterwarnings("ignore:.*nested.tensor.*:UserWarning")
@pytest.mark.parametrize("norm_first", [False, True])
def test_torchs_transformer_as_it_comes(norm_first):
    norms = PreNorm() if norm_first else FinalNorm()
    model = build((norms, ProjectionBiases()), SQUARE).train()
    twin = nn.Transformer(
        SQUARE.d_model, SQUARE.h, SQUARE.N, SQUARE.N, SQUARE.d_ff, dropout=0.0, layer_norm_eps=LAYER_NORM_EPSILON,
        batch_first=True, norm_first=norm_first, dtype=torch.float64,
    )  # fmt: skip
    with torch.no_grad():
        for theirs, ours, end in (
            (twin.encoder, model.encoder, model.encoder_end),
            (twin.decoder, model.decoder, model.decoder_end),
        ):
            theirs.norm.load_state_dict(end.state_dict())
            for their_layer, our_layer in zip(theirs.layers, ours, strict=True):
                copy_layer(their_layer, our_layer)
    source_ids, target_ids = random_ids(17, [6, 3, 1], seed=1), random_ids(17, [4, 5, 2], seed=2)
    source, target = (
        nn.functional.embedding(ids, model.target_embedding.weight) * math.sqrt(SQUARE.d_model)
        + model.position.table[: ids.shape[1]]
        for ids in (source_ids, target_ids)
    )
    is_padding = ~padding_mask(source_ids, 0)[:, 0, 0]
    want = twin(
        source,
        target,
        tgt_mask=~causal_mask(target_ids.shape[1])[0, 0],
        src_key_padding_mask=is_padding,
        memory_key_padding_mask=is_padding,
    )
    torch.testing.assert_close(model.hidden(source_ids, target_ids), want, rtol=1e-11, atol=1e-11)


def test_transformers_marian_with_everything_it_adds():
    transformers = pytest.importorskip("transformers")
    departures = (BlockSinusoids(wavelengths="paper"), ProjectionBiases(), OutputBias())
    config = ModelConfig(vocab_size=19, N=2, d_model=16, d_ff=20, h=4, P_drop=0.0)
    model = build(departures, config)
    twin = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=19, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=20, decoder_ffn_dim=20, activation_function="relu", dropout=0.0,
            attention_dropout=0.0, activation_dropout=0.0, scale_embedding=True, max_position_embeddings=64,
            pad_token_id=0, eos_token_id=1, decoder_start_token_id=2, forced_eos_token_id=None,
            share_encoder_decoder_embeddings=True, tie_word_embeddings=True,
        )
    ).double().eval()  # fmt: skip
    with torch.no_grad():
        twin.model.shared.weight.copy_(model.target_embedding.weight)
        twin.final_logits_bias.copy_(model.target_embedding.bias[None])
        for theirs, ours in ((twin.model.encoder, model.encoder), (twin.model.decoder, model.decoder)):
            theirs.embed_positions.weight.copy_(model.position.table[:64])
            for their_layer, our_layer in zip(theirs.layers, ours, strict=True):
                copy_to_marian(their_layer, our_layer)
        for module in twin.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = LAYER_NORM_EPSILON
        source_ids, target_ids = random_ids(19, [6, 3, 1], seed=1), random_ids(19, [4, 5, 2], seed=2)
        want = twin(input_ids=source_ids, attention_mask=source_ids != 0, decoder_input_ids=target_ids).logits
        got = model(source_ids, target_ids)
    real = target_ids != 0
    assert got[real].std() > 0.5
    torch.testing.assert_close(got[real], want[real], rtol=1e-9, atol=1e-9)


def copy_to_marian(theirs: nn.Module, ours: nn.Module) -> None:
    pairs = [(theirs.self_attn, ours.self_attention)]
    norms = [(theirs.self_attn_layer_norm, ours.residual_1)]
    if hasattr(theirs, "encoder_attn"):
        pairs.append((theirs.encoder_attn, ours.cross_attention))
        norms += [
            (theirs.encoder_attn_layer_norm, ours.residual_2),
            (theirs.final_layer_norm, ours.residual_3),
        ]
    else:
        norms.append((theirs.final_layer_norm, ours.residual_2))
    for attention, own in pairs:
        matrices, biases = own.W_QKV.chunk(3), own.biases.b_QKV.chunk(3)
        for name, weight, bias in zip(("q_proj", "k_proj", "v_proj"), matrices, biases, strict=True):
            getattr(attention, name).weight.copy_(weight)
            getattr(attention, name).bias.copy_(bias)
        attention.out_proj.weight.copy_(own.W_O)
        attention.out_proj.bias.copy_(own.biases.b_O)
    for norm, residual in norms:
        norm.load_state_dict(residual.norm.state_dict())
    theirs.fc1.weight.copy_(ours.feed_forward.W_1)
    theirs.fc1.bias.copy_(ours.feed_forward.b_1)
    theirs.fc2.weight.copy_(ours.feed_forward.W_2)
    theirs.fc2.bias.copy_(ours.feed_forward.b_2)


def test_biases_begin_at_zero_and_then_the_model_is_the_papers():
    model = build_untrained(CONFIG, (ProjectionBiases(), OutputBias()), seed=1).double().eval()
    biases = [
        parameter for name, parameter in model.named_parameters() if "bias" in name and "norm" not in name
    ]
    assert len(biases) == 3 * CONFIG.N * 2 + 1
    assert all((bias == 0).all() for bias in biases)
    plain = build(())
    plain.load_state_dict(
        {key: value for key, value in model.state_dict().items() if key in plain.state_dict()}
    )
    ids = random_ids(13, [5, 3], seed=1)
    torch.testing.assert_close(model(ids, ids), plain(ids, ids), rtol=1e-5, atol=1e-6)


UNTIED = CONFIG.model_copy(update={"tied_output": False})
SEPARATE = CONFIG.model_copy(update={"shared_embeddings": False})


@pytest.mark.parametrize(
    ("config", "holder"),
    [(CONFIG, "target_embedding"), (UNTIED, "untied_output"), (SEPARATE, "target_embedding")],
    ids=["tied", "untied", "separate"],
)
def test_the_bias_is_on_the_output_map_alone(config, holder):
    model = build((OutputBias(),), config)
    biases = [
        name
        for name, _ in model.named_parameters()
        if name.endswith("embedding.bias") or "output.bias" in name
    ]
    assert biases == [f"{holder}.bias"]
    ids = random_ids(13, [5, 3], seed=1)
    bias, logits = model.output_embedding.bias, model(ids, ids)
    want = model.hidden(ids, ids)[..., : config.d_model] @ model.output_embedding.weight.T + bias
    torch.testing.assert_close(logits, want, rtol=1e-12, atol=1e-12)
    assert not has_the_papers_parts(model)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**20), eps_ls=st.sampled_from([0.0, 0.1]))
def test_the_loss_and_its_gradients_have_the_bias_in_them(seed, eps_ls):
    found = []
    for joined in (True, False):
        model = build((OutputBias(),), seed=seed).train()
        sources, targets = random_ids(13, [5, 3], seed=seed), random_ids(13, [4, 2], seed=seed + 1)
        if joined:
            hidden = model.hidden(sources, targets)
            loss = output_loss(hidden, model.output_weight, targets, eps_ls, pad_id=0).smoothed
        else:
            logits = model(sources, targets).flatten(0, 1)
            loss = label_smoothed_loss(logits, targets.flatten(), eps_ls, pad_id=0).smoothed
        loss.backward()
        found.append((loss.detach(), model.target_embedding.bias.grad, model.target_embedding.weight.grad))
    for ours, want in zip(*found, strict=True):
        torch.testing.assert_close(ours, want, rtol=1e-9, atol=1e-11)


def test_final_norms_are_the_stacks_own():
    model = build((FinalNorm(),))
    assert isinstance(model.encoder_end, nn.LayerNorm)
    assert model.encoder_end is not model.decoder_end
    assert type(model.encoder[0].self_attention) is MultiHeadAttention
