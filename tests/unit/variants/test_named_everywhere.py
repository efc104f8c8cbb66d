"""A departure of any level is in the first line of a run, in its manifest and card, and in every score's signature."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import done
from tiny_runs import tiny_recipe

from dragoman.bundle import read_manifest
from dragoman.data.prepared import PreparedCorpus
from dragoman.pipeline import train
from dragoman.recipe import Recipe
from dragoman.recipes.systems import SYSTEMS, System
from dragoman.training.events import Started

pytestmark = pytest.mark.usefixtures("quick_runs")
ONE_STEP = ("training.max_steps=1", "search.average_checkpoints=1")
SOURCE, TARGET = ["one two", "three"], ["twa een", "tri"]

# A field and its value -> what is to be read everywhere: as it was asked for, and what probes found.
LEVELS = {
    "departures.architecture=zero_start": ("zero_start of Vaswani et al. 2018", "start token a zero vector"),
    "departures.training=smoothing_over_all": (
        "smoothing_over_all of Szegedy et al. 2016",
        "smoothing form eps_ls over all V",
    ),
    'departures.training={name = "moving_average", share = 0.1}': (
        "moving_average of Junczys-Dowmunt et al. 2018, share 0.1",
        "averaging plain mean of checkpoints of a moving average, 0.1 of each update",
    ),
    "departures.search=power_penalty": ("power_penalty of Ott et al. 2019", "length penalty n^alpha"),
}


def files(folder: Path) -> list[Path]:
    paths = [folder / "test.en", folder / "test.xx"]
    for path, units in zip(paths, (SOURCE, TARGET), strict=True):
        path.write_text("".join(f"{unit}\n" for unit in units), encoding="utf-8")
    return paths


def trained(corpus: PreparedCorpus, out: Path, recipe: Recipe) -> str:
    """Makes the run; the line it began with."""
    said: list[str] = []
    train(
        corpus,
        out,
        recipe=recipe,
        on_event=lambda event: said.append(event.standing) if isinstance(event, Started) else None,
    )
    return said[0]


@pytest.mark.parametrize("change", LEVELS)
def test_from_one_update_to_a_score(change, small_corpus, tmp_path):
    asked, measured = LEVELS[change]
    banner = trained(small_corpus, tmp_path / "run", tiny_recipe(*ONE_STEP, change))
    assert asked in banner
    manifest = read_manifest(tmp_path / "run" / "model")
    assert manifest.standing == banner
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    for found in (asked, measured):
        assert any(line.startswith(found) for line in manifest.departures), found
        assert found in card
    result = done("evaluate", tmp_path / "run", *files(tmp_path), "--json", "--paper")
    assert len(result.json) == 4
    for score in result.json:
        said = score["signature"].partition("|departures:")[2]
        assert asked in said
        assert measured in said
    assert asked in done("evaluate", tmp_path / "run", *files(tmp_path)).err


def small(system: System) -> Recipe:
    """The system's rules and parts with the sizes of the tests."""
    tiny, recipe = tiny_recipe(*ONE_STEP), system.recipe
    shape = tiny.model.model_copy(
        update={
            "d_model": 16,
            "shared_embeddings": recipe.model.shared_embeddings,
            "tied_output": recipe.model.tied_output,
        }
    )
    sections = {"model": shape, "batch": tiny.batch, "training": tiny.training}
    search = recipe.search.model_copy(update={"average_checkpoints": 1})
    return Recipe(**{**dict(recipe), **sections, "search": search})


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_system_trains_and_its_scores_say_what_it_is(name, small_corpus, tmp_path):
    system = SYSTEMS[name]()
    banner = trained(small_corpus, tmp_path / "run", small(system))
    [bleu, *_] = done("evaluate", tmp_path / "run", *files(tmp_path), "--json").json
    for departure in system.recipe.departures.all:
        said = f"{departure.name} of {departure.source}"
        assert said in banner
        assert said in bleu["signature"]
