"""All choices of a run, measured: small models of its parts, one update with its recipe, searches with its options.

Paper: none (measures what other modules do)
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dragoman.fidelity import corpus, inputs, layers, one_stack, searching, training
from dragoman.fidelity.choices import CHOICES
from dragoman.fidelity.small import small_model
from dragoman.model.config import ModelShape
from dragoman.model.parts import Parts
from dragoman.recipe import Recipe
from dragoman.standing import Standing, field_of, standing
from dragoman.text.subwords import Subwords
from dragoman.variants.departures import stack_of
from dragoman.variants.parts import parts_of


def measure(recipe: Recipe, *, parts: Parts | None = None, subwords: Subwords | None = None) -> Standing:
    """How a run of this recipe stands to the paper, by what the code does; a fraction of a second.

    Args:
        recipe: the rules of the run.
        parts: what its model is made of; as the recipe's departures say where None.
        subwords: the run's, if it has some already.
    """
    if parts is None:
        parts = parts_of(recipe.departures.architecture)
    stack = stack_of(recipe.departures.architecture)
    choices = CHOICES if stack is None else one_stack.choices_of(stack)
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        followed, measured = rules(recipe, parts)
        answers = {
            **(
                architecture(recipe.model, parts)
                if stack is None
                else one_stack.architecture(recipe.model, parts, stack)
            ),
            **followed,
            "subwords": corpus.subwords(subwords),
            "batches": corpus.batches(),
            "BLEU": corpus.measure_of_translations(),
        }
    findings = tuple(choice.finding(answers[choice.name]) for choice in choices)
    return standing(recipe, rules=findings, measured=measured)


def architecture(shape: ModelShape, parts: Parts) -> dict[str, str]:
    """What a model of these parts computes, choice by choice."""
    model = small_model(shape, parts, P_drop=0.1)
    return {
        "sub-layers": layers.sub_layers(model),
        "norm place": layers.norm_place(model),
        "norm formula": layers.norm_formula(model),
        "norm constants": layers.norm_constants(model),
        "final norms": layers.final_norms(model),
        "attention": layers.attention(model),
        "heads": layers.heads(model),
        "attention biases": layers.attention_biases(model),
        "masks": layers.masks(model),
        "feed-forward": layers.feed_forward(model),
        "embedding scale": inputs.embedding_scale(model),
        "encoder input": inputs.encoder_input(model),
        "embedding tying": inputs.embedding_tying(model),
        "output map": inputs.output_map(model),
        "position place": inputs.position_place(model),
        "sinusoid layout": inputs.sinusoid_layout(model),
        "sinusoid wavelengths": inputs.sinusoid_wavelengths(model),
        "dropout places": inputs.dropout_places(small_model(shape, parts, P_drop=0.5)),
        "initializer": inputs.initializer(model),
        "decoder input": inputs.decoder_input(),
        "start token": inputs.start_token(model),
    }


def rules(recipe: Recipe, parts: Parts) -> tuple[dict[str, str], dict[str, object]]:
    """What training with the recipe and searching with it do, choice by choice; and with which numbers, by field."""
    model = small_model(recipe.model, parts, P_drop=0.0)
    # With nothing to spread, no way of spreading it is told from another.
    eps_ls = recipe.training.eps_ls or 0.1
    used = training.used_gradient(model, recipe.with_changes([f"training.eps_ls={eps_ls}"]))
    adam = training.adam_measured(model, recipe)
    rate = training.rate_measured(model, recipe)
    penalty = searching.length_penalty(model, recipe.search_rules)
    search = searching.search_measured(recipe.search, recipe.search_rules, penalty)
    answers = {
        "optimizer": adam.form,
        "weight decay": adam.decay,
        "gradient clipping": training.gradient_clipping(used),
        "rate rule": rate.rule,
        "smoothing form": training.smoothing_form(used, eps_ls),
        "mean of the loss": training.mean_of_the_loss(used),
        "averaging": training.averaging(model, recipe),
        "length penalty": penalty,
        "end of search": searching.end_of_search(recipe.search_rules),
    }
    numbers: Mapping[str, tuple[float, float]] = {  # field -> number, and how exactly it is known
        "model.P_drop": (
            inputs.dropped_share(small_model(recipe.model, parts, P_drop=recipe.model.P_drop)),
            0.005,
        ),
        "optimizer.beta_1": (adam.beta_1, 1e-5),
        "optimizer.beta_2": (adam.beta_2, 1e-5),
        "optimizer.epsilon": (adam.epsilon, 1e-3 * max(recipe.optimizer.epsilon, training.LEAST_GRADIENT)),
        "optimizer.factor": (rate.factor, 1e-3 * recipe.optimizer.factor),
        "search.beam_size": (search.beam_size, 0.0),
        "search.alpha": (
            search.alpha if penalty in (searching.PENALTY, searching.POWER) else recipe.search.alpha,
            1e-6,
        ),
    }
    measured: dict[str, object] = {
        field: _told(number, field_of(recipe, field), within) for field, (number, within) in numbers.items()
    }
    return answers, measured | {"search.max_extra": search.max_extra}


def _told(measured: float, said: object, within: float) -> object:
    """What the recipe says where that is what was measured; else the measured number, to three digits."""
    assert isinstance(said, int | float)
    if abs(measured - said) <= within:
        return said
    return measured if isinstance(measured, int) else float(f"{measured:.3g}")
