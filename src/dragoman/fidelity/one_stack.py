"""Probes of the models of one stack: what the paper says of a stack by itself, and nothing of what there is not.

Paper: none (measures what other modules do)

The parts are looked at by the probes that look at any model's. What has no meaning (attention over a source, what is
done to translations) is left out. The rules of training and search are those of the same functions, measured as ever.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch

from dragoman.fidelity import inputs, layers
from dragoman.fidelity.choices import CHOICES, Choice
from dragoman.fidelity.small import RESIDUALS, calls, exact, ids, parts_named, same, shaken, small_config
from dragoman.model.config import ModelShape
from dragoman.model.parts import Parts
from dragoman.variants import departures as asked
from dragoman.variants.decoder_only import DecoderOnly
from dragoman.variants.encoder_only import EncoderOnly

Stack = asked.DecoderOnly | asked.EncoderOnly
OneStackModel = DecoderOnly | EncoderOnly
TEXT = ids([5, 6, 7, 8])  # to look at

# Of each stack by itself, where the paper's words are of both.
_EXPECTED = {
    "decoder_only": {
        "masks": "targets see earlier ones",
        "embedding tying": "one matrix for target and output",
    },
    "encoder_only": {"masks": "sources all tokens", "embedding tying": "one matrix for source and output"},
}
_OF_TRANSLATING = {"encoder input", "BLEU"}
_LEFT_OUT = {
    "decoder_only": _OF_TRANSLATING,
    "encoder_only": {*_OF_TRANSLATING, "decoder input", "start token", "length penalty", "end of search"},
}


def choices_of(stack: Stack) -> tuple[Choice, ...]:
    """The choices that have a meaning there, in the words that have one."""
    left_out, expected = _LEFT_OUT[stack.name], _EXPECTED[stack.name]
    return tuple(
        replace(choice, expected=expected.get(choice.name, choice.expected))
        for choice in CHOICES
        if choice.name not in left_out
    )


def architecture(shape: ModelShape, parts: Parts, stack: Stack) -> dict[str, str]:
    """What a model of this stack and these parts computes, choice by choice."""
    model = _small(shape, parts, stack, P_drop=0.1)
    any_model = cast(Any, model)  # for probes that look at parts, wherever they are
    answers = {
        "sub-layers": _sub_layers(model),
        "norm place": layers.norm_place(any_model),
        "norm formula": layers.norm_formula(any_model),
        "norm constants": layers.norm_constants(any_model),
        "final norms": _final_norms(model),
        "attention": layers.attention(any_model),
        "heads": layers.heads(any_model),
        "attention biases": layers.attention_biases(any_model),
        "masks": _masks(model),
        "feed-forward": layers.feed_forward(any_model),
        "embedding scale": _embedding_scale(model),
        "embedding tying": _embedding_tying(model),
        "output map": _output_map(model),
        "position place": _position_place(model),
        "sinusoid layout": inputs.sinusoid_layout(any_model),
        "sinusoid wavelengths": inputs.sinusoid_wavelengths(any_model),
        "dropout places": _dropout_places(_small(shape, parts, stack, P_drop=0.5)),
        "initializer": inputs.initial_spread(model, [model.embedding.weight, model.output_embedding.weight]),
    }
    if isinstance(stack, asked.DecoderOnly):
        answers |= {"decoder input": inputs.decoder_input(), "start token": _start_token(model)}
    return answers


def _small(shape: ModelShape, parts: Parts, stack: Stack, *, P_drop: float) -> OneStackModel:
    kind = DecoderOnly if isinstance(stack, asked.DecoderOnly) else EncoderOnly
    return kind(small_config(shape, P_drop=P_drop), parts)


def _sub_layers(model: OneStackModel) -> str:
    """Which sub-layers are called, in each layer (3.1)."""
    model = shaken(model)
    inside = {
        child: name.replace("_", "-")
        for layer in model.layers
        for name, child in layer.named_children()
        if not name.startswith("residual")
    }
    with calls(iter(inside)) as seen:
        model(TEXT)
    order = [inside[module] for module, _, _ in seen]
    once = order[: len(order) // len(model.layers)]
    name = "decoder" if isinstance(model, DecoderOnly) else "encoder"
    return f"{name}: {', '.join(once if once * len(model.layers) == order else order)}"


def _final_norms(model: OneStackModel) -> str:
    """Whether anything is between the last layer and what the stack gives (3.1: nothing)."""
    model = shaken(model)
    with calls(parts_named(model, RESIDUALS)) as seen:
        hidden = model.hidden(TEXT, TEXT)
    plain = model.output_embedding.for_output(seen[-1][2])
    return "none" if same(plain, hidden) else "after the stack"


def _masks(model: OneStackModel) -> str:
    """What each position sees, by what its output depends on (3.2.3)."""
    model = shaken(model)
    logits = model(TEXT)
    other_last = model(ids([*TEXT[0, :-1].tolist(), 12]))
    other_first = model(ids([12, *TEXT[0, 1:].tolist()]))
    padded = model(ids([*TEXT[0].tolist(), model.config.pad_id]))
    sees_earlier = not same(other_first[:, -1], logits[:, -1])
    sees_later = not same(other_last[:, 0], logits[:, 0])
    sees_padding = not same(padded[:, : TEXT.shape[1]], logits)
    if sees_earlier and not sees_later:
        return "targets see earlier ones"
    return "sources all tokens" if sees_earlier and not sees_padding else "others"


def _embedding_scale(model: OneStackModel) -> str:
    """What a row of the matrix is multiplied by before the position is added (3.4)."""
    model = shaken(model)
    with calls(iter([model.position])) as seen:
        model(TEXT)
    given, rows = (inputs.differences(x) for x in (seen[0][1], model.embedding.weight[TEXT]))
    return inputs.scale_of(given / rows, model.config.d_model)


def _embedding_tying(model: OneStackModel) -> str:
    """Whether both matrices are one (3.4)."""
    side = "target" if isinstance(model, DecoderOnly) else "source"
    one = model.embedding.weight.data_ptr() == model.output_embedding.weight.data_ptr()
    return f"one matrix for {side} and output" if one else "two matrices"


def _output_map(model: OneStackModel) -> str:
    """The logits beside the stack's output times the matrix (3.4; a bias is not spoken of)."""
    model = shaken(model)
    hidden = model.output_embedding.for_output(torch.zeros(1, 1, model.config.d_model, dtype=torch.float64))
    rest = hidden @ model.output_weight.T  # of no input nothing but a bias is left
    if not same(model(TEXT), model.hidden(TEXT, TEXT) @ model.output_weight.T):
        return "another"
    return "x E^T without a bias" if same(rest, torch.zeros_like(rest)) else "x E^T and a bias"


def _position_place(model: OneStackModel) -> str:
    """Where order comes from: what is added at the bottom, and whether attention knows places (3.5)."""
    return inputs.places_of_positions(cast(Any, shaken(model)), times=1, run=lambda probed: probed(TEXT))


def _dropout_places(model: OneStackModel) -> str:
    """Everything whose result is another with other random numbers, part by part (5.4)."""
    model = shaken(model, training=True)
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        with calls(iter([model.position, model.layers[0]])) as seen:
            model(TEXT.repeat(1, 8))
        runs.append(seen)
    dropped = inputs.dropped_of(runs, position=0, layer=1)
    return inputs.dropped_in_parts(model, [dropped] if dropped else [])


def _start_token(model: OneStackModel) -> str:
    """What the text is shifted right by (silent)."""
    first = inputs.first_token()
    model = exact(model)
    with calls(iter([model.position])) as seen:
        model(ids([first, *TEXT[0].tolist()]))
    return inputs.said_of_start(first, seen[0][1][0, 0], model.embedding.weight)
