"""Our weights in other systems, so that both sides do the same work: Hugging Face's Marian, and CTranslate2.

Marian's positions are all the sines and then all the cosines, with the paper's wavelengths. A model does not mind in
what order the width lies as long as every matrix has the same: so each of ours is permuted on the way, and Marian
keeps its own table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.config import ModelConfig
from dragoman.model.position import sinusoids
from dragoman.model.residual import LAYER_NORM_EPSILON
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Subwords


def width_order(d_model: int) -> Tensor:
    """Where each place of Marian's width is in ours: sines, then cosines."""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def marian_config(config: ModelConfig, *, longest: int, **more: Any) -> transformers.MarianConfig:
    """Marian of the same sizes; `more` are fields of its own."""
    own = {
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "attn_implementation": "eager",
        **more,
    }
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
        max_position_embeddings=longest,
        pad_token_id=config.pad_id,
        eos_token_id=Subwords.EOS_ID,
        bos_token_id=Subwords.BOS_ID,
        decoder_start_token_id=Subwords.BOS_ID,
        forced_eos_token_id=None,
        **own,
    )


@torch.no_grad()
def marian_twin(model: Transformer, *, longest: int) -> Any:
    """Marian with the weights of a model, its additions to the paper set to nothing, in evaluation mode."""
    twin: Any = transformers.MarianMTModel(marian_config(model.config, longest=longest))
    twin = twin.to(model.dtype).eval()
    order = width_order(model.config.d_model)
    twin.model.shared.weight.copy_(model.target_embedding.weight[:, order])
    twin.final_logits_bias.zero_()
    for stack, layers in ((twin.model.encoder, model.encoder), (twin.model.decoder, model.decoder)):
        for theirs, ours in zip(stack.layers, layers, strict=True):
            _copy_layer(theirs, ours, order)
        table = stack.embed_positions.weight
        exact = sinusoids(longest, model.config.d_model)[:, order]
        torch.testing.assert_close(table.double(), exact, rtol=0, atol=1e-6)  # the paper's, in blocks
        table.copy_(exact)  # and in float64 to all digits
    settings = twin.generation_config
    settings.bad_words_ids, settings.forced_eos_token_id, settings.max_length = None, None, None
    settings.eos_token_id, settings.pad_token_id = Subwords.EOS_ID, model.config.pad_id
    settings.decoder_start_token_id = Subwords.BOS_ID
    return twin


def _copy_layer(theirs: Any, ours: Any, order: Tensor) -> None:
    _copy_attention(theirs.self_attn, ours.self_attention, order)
    _copy_norm(theirs.self_attn_layer_norm, ours.residual_1.norm, order)
    last = ours.residual_2
    if hasattr(theirs, "encoder_attn"):
        _copy_attention(theirs.encoder_attn, ours.cross_attention, order)
        _copy_norm(theirs.encoder_attn_layer_norm, ours.residual_2.norm, order)
        last = ours.residual_3
    _copy_norm(theirs.final_layer_norm, last.norm, order)
    theirs.fc1.weight.copy_(ours.feed_forward.W_1[:, order])
    theirs.fc1.bias.copy_(ours.feed_forward.b_1)
    theirs.fc2.weight.copy_(ours.feed_forward.W_2[order])
    theirs.fc2.bias.copy_(ours.feed_forward.b_2[order])


def _copy_attention(theirs: Any, ours: MultiHeadAttention, order: Tensor) -> None:
    W_Q, W_K, W_V, W_O = ours.matrices()
    for part, matrix in ((theirs.q_proj, W_Q), (theirs.k_proj, W_K), (theirs.v_proj, W_V)):
        part.weight.copy_(matrix[:, order])
        part.bias.zero_()
    theirs.out_proj.weight.copy_(W_O[order])
    theirs.out_proj.bias.zero_()


def _copy_norm(theirs: nn.LayerNorm, ours: nn.LayerNorm, order: Tensor) -> None:
    theirs.weight.copy_(ours.weight[order])
    theirs.bias.copy_(ours.bias[order])
    theirs.eps = LAYER_NORM_EPSILON


def token_names(vocab_size: int) -> list[str]:
    """A name for each id, as CTranslate2 takes and gives tokens; those it must know have the names it knows."""
    names = [f"t{k}" for k in range(vocab_size)]
    for number, name in (
        (Subwords.PAD_ID, "<pad>"),
        (Subwords.EOS_ID, "</s>"),
        (Subwords.BOS_ID, "<s>"),
        (Subwords.UNK_ID, "<unk>"),
    ):
        names[number] = name
    return names


def to_ctranslate2(twin: Any, directory: Path) -> Path:
    """Writes Marian's twin as a CTranslate2 model."""
    from ctranslate2.converters.transformers import BartLoader

    twin.config.normalize_before, twin.config.normalize_embedding = False, False
    spec = BartLoader().get_model_spec(twin)
    names = token_names(twin.config.vocab_size)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<unk>"
    spec.config.decoder_start_token = "<s>"
    spec.validate()
    spec.optimize()
    directory.mkdir(parents=True, exist_ok=True)
    spec.save(str(directory))
    return directory
