"""What must not change unnoticed: recipes, initial weights, a training curve, a stored model, help texts.

After a change that is meant: `pytest tests/golden --update-golden`, and read the difference before committing it.
A stored model is never written anew: each version of the format keeps the one it began with, for as long as it can be
read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from command_line import done
from random_models import CONFIGS
from tiny_runs import make_corpus, make_task, tiny_facts, tiny_recipe, write_random_bundle

from dragoman.bundle import open_bundle
from dragoman.data.batches import Cursor
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.recipes.named import all_recipes
from dragoman.recipes.systems import system_recipes
from dragoman.training.optimizer import FlatAdam
from dragoman.training.step import update
from dragoman.translator import Translator

HERE = Path(__file__).parent
Stored = Callable[[str, str], str]


@pytest.fixture
def golden(request) -> Stored:
    """The text of the file of that name, which is first made `text` where the switch is set."""

    def stored(name: str, text: str) -> str:
        path = HERE / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.is_file(), f"{name} is not there: run pytest tests/golden --update-golden"
        return path.read_text(encoding="utf-8")

    return stored


@pytest.mark.parametrize("recipe", [*all_recipes(), *system_recipes()], ids=lambda recipe: recipe.name)
def test_recipes(golden, recipe):
    text = recipe.to_toml()
    assert text == golden(f"recipes/{recipe.name}.toml", text)


# Every kind of matrix is in one of them.
MODELS = {"tiny": ModelConfig.tiny(vocab_size=50)} | {name: CONFIGS[name] for name in ("untied", "odd_heads")}


@pytest.mark.parametrize("name", MODELS)
def test_parameters_and_their_initial_values(golden, name):
    """Name, shape, the first two values and a digest of all, of seed 1."""
    lines = []
    for parameter_name, parameter in Transformer(MODELS[name], seed=1).named_parameters():
        values = parameter.detach().flatten()
        digest = hashlib.sha256(values.numpy().tobytes()).hexdigest()[:16]
        shown = " ".join(f"{value:.6g}" for value in values[:2].tolist())
        shape = "x".join(map(str, parameter.shape))
        lines.append(f"{parameter_name:<48} {shape:>9} {digest} {shown}\n")
    text = "".join(lines)
    assert text == golden(f"parameters-{name}.txt", text)


@pytest.mark.parametrize("name", ["base", "big"])
def test_parameters_of_the_papers_models(golden, name):
    with torch.device("meta"):
        model = Transformer(getattr(ModelConfig, name)(vocab_size=37_000))
    lines = [f"{n:<48} {'x'.join(map(str, p.shape)):>11}\n" for n, p in model.named_parameters()]
    text = "".join(lines)
    assert text == golden(f"parameters-{name}.txt", text)


CURVE_STEPS = 50
# Of the paper's. At four times this the loss jumps, and a last bit has become the third place after 50 updates.
CURVE_RATE = 0.5
CURVE_TOLERANCE = 1e-9  # relative: processors differ in the last bits, and fifty updates carry them on


def curve(folder: Path) -> list[float]:
    """The loss of fifty updates in float64, dropout and label smoothing on."""
    recipe = tiny_recipe(f"training.max_steps={CURVE_STEPS}", f"optimizer.factor={CURVE_RATE}")
    corpus = make_corpus(folder)
    model = Transformer(tiny_facts(corpus, recipe).config, seed=1)
    rule = recipe.optimizer
    optimizer = FlatAdam(model, torch.float64, beta_1=rule.beta_1, beta_2=rule.beta_2, epsilon=rule.epsilon)
    batches = make_task(corpus, folder, recipe).loader.batches(Cursor())
    return [
        update(model, optimizer, next(batches)[0], recipe, step).loss for step in range(1, CURVE_STEPS + 1)
    ]


def test_a_training_curve(request, tmp_path):
    losses = curve(tmp_path)
    path = HERE / "curve.json"
    if request.config.getoption("--update-golden"):
        path.write_text(json.dumps(losses, indent=1) + "\n", encoding="utf-8")
    assert losses == pytest.approx(json.loads(path.read_text(encoding="utf-8")), rel=CURVE_TOLERANCE)
    assert losses[-1] < 0.8 * losses[0]


STORED = sorted(path.name for path in (HERE / "models").glob("v*"))
UNITS = ["one two three", "twelve", "six seven", "", "something else entirely"]


def test_there_is_a_stored_model():
    assert "v1" in STORED


@pytest.mark.parametrize("version", STORED)
def test_stored_models_translate_as_they_did(version):
    """Texts and pieces exactly, scores to 1e-5."""
    folder = HERE / "models" / version
    wanted = json.loads((folder / "translations.json").read_text(encoding="utf-8"))
    translator = Translator.load(folder / "bundle")
    found = translator.translate(UNITS, n_best=2)
    assert [(t.source, t.text, list(t.pieces)) for t in found] == [
        (w["source"], w["text"], w["pieces"]) for w in wanted
    ]
    assert [t.score for t in found] == pytest.approx([w["score"] for w in wanted], abs=1e-5)
    assert [t.alternatives[0].text for t in found] == [w["second"] for w in wanted]
    pieces = [list(t.pieces) for t in found if t.text]
    sources = [t.source for t in found if t.text]
    scores = [t.score for t in found if t.text]
    assert translator.score_pieces(sources, pieces) == pytest.approx(scores, abs=1e-4)


def test_a_model_written_now_has_the_newest_stored_form(tmp_path):
    """The same files with the same fields: else the format has changed, and wants a version and a stored model."""
    corpus = make_corpus(tmp_path)
    now = write_random_bundle(tmp_path / "bundle", tiny_facts(corpus))
    stored = HERE / "models" / STORED[-1] / "bundle"
    assert sorted(path.name for path in now.iterdir()) == sorted(path.name for path in stored.iterdir())
    fields = [set(open_bundle(path).manifest.model_dump()) for path in (now, stored)]
    assert fields[0] == fields[1]


VERBS = [
    "",
    "prepare",
    "train",
    "average",
    "shortlist",
    "translate",
    "score",
    "evaluate",
    "compare",
    "recipe",
    "recipe list",
]
VERBS += ["recipe show", "demo", "fidelity"]


@pytest.mark.parametrize("verb", VERBS)
def test_help_texts(golden, verb):
    text = done(*verb.split(), "--help").text
    assert text == golden(f"help/{verb.replace(' ', '-') or 'dragoman'}.txt", text)
