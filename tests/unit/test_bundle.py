"""Bundles: what is written is what is opened, and nothing else is opened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import pairs, random_weights, tiny_facts, tiny_recipe, write_random_bundle

from dragoman.bundle import (
    BundleManifest,
    bundle_in,
    expected_shapes,
    open_bundle,
    read_manifest,
    short_card,
    write_bundle,
)
from dragoman.data.manifest import file_record
from dragoman.data.tensors import write_tensors
from dragoman.errors import CheckpointError, ConfigError, VocabularyMismatch
from dragoman.fidelity.measure import measure
from dragoman.model.transformer import Transformer
from dragoman.standing import standing
from dragoman.text.subwords import Subwords
from dragoman.training.averaging import average_checkpoints
from dragoman.translator import Translator

pytestmark = pytest.mark.usefixtures("quick_runs")


@pytest.fixture
def facts(corpus):
    return tiny_facts(corpus)


@pytest.fixture
def bundle(tmp_path, facts) -> Path:
    return write_random_bundle(tmp_path / "model", facts)


def seal(directory: Path, change: Callable[[dict[str, Any]], None] = lambda _fields: None) -> None:
    """Makes the manifest whole again after files were changed: what only a forger does."""
    fields = json.loads((directory / "manifest.json").read_text())
    for entry in fields["files"]:
        if (directory / entry["name"]).is_file():
            entry.update(file_record(directory / entry["name"]).model_dump())
    change(fields)
    manifest = BundleManifest.model_validate_json(json.dumps(fields | {"digest": ""}))
    sealed = manifest.model_copy(update={"digest": manifest.own_digest()})
    (directory / "manifest.json").write_bytes(sealed.as_file())


@pytest.mark.parametrize("kind", ["joint", "separate", "untied", "own_heads"])
def test_round_trip(tmp_path, corpus, separate_corpus, kind):
    changes = {"untied": {"tied_output": False}, "own_heads": {"d_k": 3, "d_v": 5}}.get(kind, {})
    facts = tiny_facts(
        separate_corpus if kind == "separate" else corpus, tiny_recipe("training.seed=4"), **changes
    )
    weights = random_weights(facts, seed=3)
    write_bundle(tmp_path / "m", facts, weights, step=12, averaged=("a", "b"))
    opened = open_bundle(tmp_path / "m")
    assert opened.facts == replace(facts, data=opened.manifest.data)
    assert opened.manifest.data == {"pairs": 3}
    assert opened.facts.recipe.training.seed == 4
    assert (opened.manifest.step, opened.manifest.kind) == (12, "model")
    assert opened.manifest.averaged == ("a", "b")
    read = opened.weights()
    assert read.keys() == weights.keys()
    assert all(torch.equal(read[name], weights[name]) for name in weights)
    model = opened.model()
    assert not model.training
    reference = Transformer(facts.config, seed=3).eval()
    sources, targets = torch.tensor([[4, 5, 6, 1]]), torch.tensor([[2, 7, 8]])
    with torch.no_grad():
        assert torch.equal(model(sources, targets), reference(sources, targets))


@pytest.mark.parametrize("joint", [True, False])
def test_its_files(tmp_path, corpus, separate_corpus, joint):
    write_random_bundle(tmp_path / "m", tiny_facts(corpus if joint else separate_corpus))
    subwords = ["subwords.model"] if joint else ["source.subwords.model", "target.subwords.model"]
    names = ["README.md", "config.json", "manifest.json", "model.safetensors", "recipe.toml", *subwords]
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == sorted(names)
    listed = {record.name for record in read_manifest(tmp_path / "m").files}
    assert listed == set(names) - {"README.md", "manifest.json"}


def test_the_weights_file_is_read_by_anyone(bundle, facts):
    tensors = load_file(bundle / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == expected_shapes(facts.config)


def test_another_number_format(bundle):
    assert open_bundle(bundle).model(torch.bfloat16).dtype == torch.bfloat16


def test_the_manifest_carries_what_made_it(bundle, facts):
    manifest = read_manifest(bundle)
    assert manifest.standing == "Vaswani et al. 2017: architecture and recipe as published, scale: test"
    assert manifest.departures == ()
    assert manifest.provenance["torch"] == metadata.version("torch")
    assert manifest.vocabularies["source"] == facts.source_subwords.digest
    assert (manifest.source_language, manifest.target_language) == ("en", "xx")


def test_departures_are_in_manifest_and_card(tmp_path, corpus):
    recipe = tiny_recipe("subwords.dropout=0.1")
    write_random_bundle(tmp_path / "m", tiny_facts(corpus, recipe))
    departure = "subwords.dropout 0.1 (paper 0.0, 5.1)"
    assert read_manifest(tmp_path / "m").departures == (departure,)
    assert f"* {departure}" in (tmp_path / "m" / "README.md").read_text()


def test_every_choice_is_in_the_manifest_and_comes_back_as_it_was(tmp_path, corpus):
    """Numbers, switches and None too."""
    facts = tiny_facts(corpus)
    facts = replace(facts, standing=measure(facts.recipe))
    opened = open_bundle(write_random_bundle(tmp_path / "m", facts))
    assert opened.manifest.fidelity == opened.facts.standing == facts.standing
    card = (tmp_path / "m" / "README.md").read_text()
    assert "\n* model.d_model 16 (paper 512, 3.1)\n" in card.partition("## Scaled")[2].partition("##")[0]
    assert "\n* initializer Glorot uniform" in card.partition("## Left open")[2].partition("##")[0]


def test_an_average_stands_as_its_checkpoints_were_trained(tmp_path, corpus):
    """Not as the code stands that averages them."""
    facts = tiny_facts(corpus)
    other = standing(facts.recipe, measured={"optimizer.beta_2": 0.997})
    for name in ("a", "b"):
        write_random_bundle(tmp_path / name, replace(facts, standing=other))
    average_checkpoints([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    manifest = read_manifest(tmp_path / "mean")
    assert manifest.fidelity == other
    assert manifest.departures == ("optimizer.beta_2 0.997 (paper 0.98, 5.3)",)
    assert Translator.load(tmp_path / "mean").departures == manifest.departures


def test_a_model_from_before_choices_were_recorded_stands_as_its_recipe_says():
    stored = open_bundle(Path(__file__).parents[1] / "golden/models/v1/bundle")
    assert stored.manifest.fidelity is None
    assert stored.facts.standing == standing(stored.facts.recipe)


def test_it_moves_as_a_whole(bundle, tmp_path):
    moved = tmp_path / "elsewhere" / "name with spaces"
    moved.parent.mkdir()
    bundle.rename(moved)
    assert open_bundle(moved).weights()


def test_the_card_is_for_people_and_may_change(bundle):
    (bundle / "README.md").write_text("my own words")
    open_bundle(bundle)
    (bundle / "README.md").unlink()
    assert open_bundle(bundle).directory == bundle


def test_the_manifest_of_a_whole_bundle_is_checked_to_its_last_byte(bundle):
    """I18: white space and the spelling of numbers and letters count too."""
    path = bundle / "manifest.json"
    good = path.read_bytes()
    changes = [
        good[:-1],
        good + b"\n",
        good + b" ",
        b" " + good,
        b"\xef\xbb\xbf" + good,
        good.replace(b"\n", b"\r\n"),
        good.replace(b'": ', b'":  ', 1),
        good.replace(b"dragoman-model", b"dragom\\u0061n-model"),
        good.replace(b'"step": 7', b'"step": 8'),
        good.replace(b'"step": 7', b'"step": 3,\n  "step": 7'),
        good.replace(b'"version": 1', b'"version": 2'),
        json.dumps(json.loads(good)).encode(),
        good.upper(),
        b"",
        b"{}",
        b"[" * 100_000,
        b"\xff" * 50,
    ]
    for changed in changes:
        assert changed != good
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match=r"manifest"):
            open_bundle(bundle)
    path.write_bytes(good)
    open_bundle(bundle)


@pytest.mark.parametrize("position", [0.02, 0.5, 0.98])
def test_every_single_bit_of_a_digest_counts(bundle, position):
    path = bundle / "manifest.json"
    good = path.read_bytes()
    start = good.index(b'"digest": "') + len(b'"digest": "')
    at = start + int(64 * position)
    path.write_bytes(good[:at] + (b"0" if good[at : at + 1] != b"0" else b"1") + good[at + 1 :])
    with pytest.raises(CheckpointError, match="digest is not its own"):
        open_bundle(bundle)


@pytest.mark.parametrize(
    "name", ["../model.safetensors", "/etc/passwd", "a/b", "..", ".hidden", "", "a\nb", "a b"]
)
def test_names_that_lead_elsewhere_are_refused(bundle, name):
    path = bundle / "manifest.json"
    fields = json.loads(path.read_bytes())
    fields["files"][0]["name"] = name
    text = json.dumps(fields, indent=2) + "\n"
    path.write_text(text)
    with pytest.raises(CheckpointError, match=r"files\.0\.name"):
        open_bundle(bundle)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "recipe.toml"])
def test_a_manifest_that_leaves_a_needed_file_out_is_refused(bundle, name):
    def drop(fields: dict[str, Any]) -> None:
        fields["files"] = [entry for entry in fields["files"] if entry["name"] != name]

    seal(bundle, drop)
    with pytest.raises(CheckpointError, match=f"does not list {name}"):
        open_bundle(bundle)


def test_the_error_names_the_damaged_file_and_the_cure(bundle):
    path = bundle / "recipe.toml"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(CheckpointError) as caught:
        open_bundle(bundle)
    assert "recipe.toml is not what was written" in caught.value.what
    assert caught.value.where == str(path)
    assert caught.value.cure
    path.unlink()
    with pytest.raises(CheckpointError, match=r"a file is missing: recipe\.toml"):
        open_bundle(bundle)
    path.mkdir()
    with pytest.raises(CheckpointError, match=r"a file is missing: recipe\.toml"):
        open_bundle(bundle)


def test_a_file_that_cannot_be_read_is_an_error_of_ours(bundle, monkeypatch):
    def refuse(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("dragoman.bundle.file_record", refuse)
    with pytest.raises(CheckpointError, match="Permission denied"):
        open_bundle(bundle)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(bundle, facts, value):
    weights = random_weights(facts)
    weights[next(reversed(weights))].view(-1)[-1] = value
    write_tensors(bundle / "model.safetensors", weights, {"vocabulary": facts.target_subwords.digest})
    seal(bundle)
    with pytest.raises(CheckpointError, match="not finite"):
        open_bundle(bundle).model()


@pytest.mark.parametrize("change", ["missing", "extra", "row more", "transposed", "whole numbers"])
def test_tensors_that_are_not_the_models_are_refused(bundle, facts, change):
    weights = random_weights(facts)
    name = "target_embedding.weight"
    match change:
        case "missing":
            del weights[name]
        case "extra":
            weights["more"] = torch.zeros(2)
        case "row more":
            weights[name] = torch.cat([weights[name], weights[name][:1]])
        case "transposed":
            weights[name] = weights[name].T.contiguous()
        case "whole numbers":
            weights[name] = weights[name].to(torch.int64)
    write_tensors(bundle / "model.safetensors", weights, {"vocabulary": facts.target_subwords.digest})
    seal(bundle)
    with pytest.raises(CheckpointError, match=r"tensor (more|target_embedding\.weight)"):
        open_bundle(bundle).model()


def test_a_config_of_another_size_is_refused(bundle):
    path = bundle / "config.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"d_ff": 64}))
    seal(bundle)
    with pytest.raises(CheckpointError, match="the configuration asks for"):
        open_bundle(bundle).model()
    path.write_text(json.dumps(fields | {"vocab_size": fields["vocab_size"] + 1}))
    seal(bundle)
    with pytest.raises(VocabularyMismatch, match="rows"):
        open_bundle(bundle)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", '{"N": 1, "attention": "flash9"}'),
        ("config.json", "[]"),
        ("config.json", "{"),
        ("config.json", "[" * 100_000),
        ("config.json", '{"N": "one", "vocab_size": 8}'),
        ("recipe.toml", "[training]\nprecision = 'fp4'\n"),
        ("recipe.toml", "= 3"),
    ],
)
def test_settings_of_another_version_are_an_error_of_the_bundle(bundle, name, text):
    (bundle / name).write_text(text)
    seal(bundle)
    with pytest.raises(CheckpointError) as caught:
        open_bundle(bundle)
    assert str(bundle) in str(caught.value)


def other_subwords() -> Subwords:
    return Subwords.train([unit for pair in pairs(240, seed=9) for unit in pair], vocab_size=340)


def test_subwords_of_another_model_are_refused(bundle, facts):
    other = other_subwords()
    assert other.vocab_size == facts.config.vocab_size
    other.save(bundle / "subwords.model")
    with pytest.raises(CheckpointError, match=r"subwords\.model"):
        open_bundle(bundle)
    seal(bundle)
    with pytest.raises(VocabularyMismatch, match="not those the manifest names"):
        open_bundle(bundle)

    def name_them(fields: dict[str, Any]) -> None:
        fields["vocabularies"] = {"source": other.digest, "target": other.digest}

    seal(bundle, name_them)
    with pytest.raises(VocabularyMismatch, match="weights were written for other subwords"):
        open_bundle(bundle).model()


def test_files_of_another_model_are_refused(bundle, tmp_path, facts):
    other = write_random_bundle(tmp_path / "other", facts, seed=2, step=8)
    for name in ("model.safetensors", "manifest.json"):
        kept = (bundle / name).read_bytes()
        shutil.copy(other / name, bundle / name)
        with pytest.raises(CheckpointError):
            open_bundle(bundle)
        (bundle / name).write_bytes(kept)
    open_bundle(bundle)


def test_a_failed_write_leaves_what_was_there(bundle, facts, monkeypatch):
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}

    def fail(_directory: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_bundle(bundle, facts, random_weights(facts, seed=2), step=9, more=fail)
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before
    assert [path.name for path in bundle.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("name", ["notes.txt", "step-00000001", ".git"])
def test_what_is_no_bundle_is_never_replaced(bundle, facts, name):
    (bundle / name).mkdir()
    with pytest.raises(ConfigError, match="not a model to be replaced"):
        write_bundle(bundle, facts, random_weights(facts), step=9)
    assert (bundle / name).is_dir()
    assert read_manifest(bundle).step == 7


def test_the_card(facts, bundle):
    manifest = read_manifest(bundle).model_copy(update={"averaged": ("step-1", "step-2")})
    card = short_card(facts, manifest, scores="BLEU 12.3 (signature)")
    for said in (
        "# Translation model, en to xx",
        manifest.standing,
        "1+1 layers, d_model 16, d_ff 32, 2 heads",
        f"{facts.config.vocab_size} subwords",
        "for 7 updates (recipe test, seed\n1)",
        "Checkpoints averaged: step-1, step-2.",
        "## Departures from the paper\n* none",
        "## Data\n* pairs: 3",
        "## Scores\nBLEU 12.3 (signature)",
        "dragoman translate MODEL < input.txt > output.txt",
        "license of the data",
    ):
        assert said in card, said
    bare = replace(facts, source_language=None, target_language=None)
    text = short_card(bare, manifest.model_copy(update={"averaged": (), "data": {"x": None}}))
    assert "# Translation model, source to target" in text
    assert "Checkpoints averaged: none." in text
    assert "## Data\n* not recorded" in text
    assert "Not scored yet" in text


def test_a_given_card_is_kept(tmp_path, facts):
    write_bundle(tmp_path / "m", facts, random_weights(facts), step=1, card="# mine\n")
    assert (tmp_path / "m" / "README.md").read_text() == "# mine\n"


def test_the_bundle_meant_by_a_path(tmp_path, facts):
    run = tmp_path / "run"
    checkpoints = run / "checkpoints"
    for step in (1, 2, 10):
        (checkpoints / f"step-{step:08d}").mkdir(parents=True)
    assert bundle_in(run) == checkpoints / "step-00000010"
    (checkpoints / "latest").write_text("step-00000002\n")
    assert bundle_in(run) == checkpoints / "step-00000002"
    for damaged in ("step-00000099\n", "../..\n", "", "/etc\n"):
        (checkpoints / "latest").write_text(damaged)
        assert bundle_in(run) == checkpoints / "step-00000010"
    write_random_bundle(run / "model", facts)
    assert bundle_in(run) == run / "model"
    assert bundle_in(run / "model") == run / "model"


def test_where_there_is_no_model(tmp_path):
    (tmp_path / "file").write_text("x")
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(CheckpointError, match="no model at"):
            bundle_in(place)
    with pytest.raises(CheckpointError, match="does not exist"):
        bundle_in(tmp_path / "absent")
    for place in (tmp_path, tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(CheckpointError, match="is not a model"):
            open_bundle(place)
