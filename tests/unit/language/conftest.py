"""Runs of models of one text, trained until they count; shared, and not to be changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import one_text, tiny_recipe

from dragoman.data.prepared import PreparedCorpus
from dragoman.pipeline import train
from dragoman.recipe import DepartureSection, Recipe
from dragoman.variants.departures import DecoderOnly, Departure, EncoderOnly

__all__ = ["one_text"]


def counting_recipe(stack: Departure, *changes: str) -> Recipe:
    """Enough updates to know what number comes after another."""
    recipe = tiny_recipe(
        *("training.max_steps=250", "training.checkpoint_steps=250", "training.eps_ls=0.0"),
        *("model.d_model=32", "model.P_drop=0.0", "optimizer.factor=0.5", "search.average_checkpoints=1"),
        *("training.validate_steps=250", *changes),
    )
    return recipe.model_copy(update={"departures": DepartureSection(architecture=(stack,))})


@pytest.fixture(scope="session")
def lm_run(one_text: PreparedCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model."""
    out = tmp_path_factory.mktemp("lm") / "run"
    train(one_text, out, recipe=counting_recipe(DecoderOnly()))
    return out


@pytest.fixture(scope="session")
def masked_run(one_text: PreparedCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model."""
    out = tmp_path_factory.mktemp("masked") / "run"
    train(one_text, out, recipe=counting_recipe(EncoderOnly(share=0.25), "training.max_steps=1000"))
    return out
