"""Whole steps: train, average, evaluate; and what they refuse before anything is written.

Paper: 5, 6
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import (
    Killed,
    kill_at_save,
    last_checkpoint,
    logged,
    make_corpus,
    state_digests,
    terminate_at,
    tiny_recipe,
)

from dragoman import pipeline
from dragoman.bundle import open_bundle, read_manifest
from dragoman.data.prepared import open_prepared
from dragoman.errors import CheckpointError, ConfigError, DataError, MissingDependency, NonFiniteLoss
from dragoman.fidelity.measure import measure
from dragoman.pipeline import CHANGEABLE_ON_RESUME, average, chunks, evaluate, train
from dragoman.recipe import Recipe
from dragoman.recipes.choose import Choice
from dragoman.recipes.named import base
from dragoman.training.checkpoint import checkpoint_names
from dragoman.training.events import Said, Saved, Stepped
from dragoman.translator import Translator

pytestmark = pytest.mark.usefixtures("quick_runs")

SHORT = tiny_recipe("training.max_steps=6", "training.checkpoint_steps=2")


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory) -> Path:
    """A finished run of six updates; not to be changed."""
    out = tmp_path_factory.mktemp("pipeline") / "run"
    assert train(corpus, out, recipe=SHORT).reason == "steps"
    return out


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_what_a_run_leaves(corpus, tmp_path):
    events: list[object] = []
    done = train(corpus.directory, str(tmp_path / "a" / "run"), recipe=SHORT, on_event=events.append)
    out = tmp_path / "a" / "run"
    assert (done.directory, done.model, done.reason, done.interrupted) == (out, out / "model", "steps", False)
    assert sorted(path.name for path in out.iterdir()) == [
        "checkpoints",
        "events.jsonl",
        "model",
        "recipe.toml",
    ]
    assert checkpoint_names(out / "checkpoints") == ["step-00000004", "step-00000006"]
    assert Recipe.from_file(out / "recipe.toml") == done.recipe
    manifest = read_manifest(out / "model")
    assert manifest.averaged == ("step-00000004", "step-00000006")
    assert manifest.data["training pairs"] == 240
    assert manifest.data["dev pairs"] == 16
    assert manifest.data["source files"] == "train.en"
    assert [event["step"] for event in logged(out, "stepped")] == [1, 2, 3, 4, 5, 6]
    assert len(events) == len((out / "events.jsonl").read_text().splitlines())
    assert Translator.load(out).path == out / "model"


def test_the_model_is_the_average_of_the_last_checkpoints(run):
    weights = open_bundle(run / "model").weights()
    parts = [
        open_bundle(run / "checkpoints" / name).weights() for name in checkpoint_names(run / "checkpoints")
    ]
    for name, weight in weights.items():
        mean = torch.stack([part[name].double() for part in parts]).mean(0).float()
        assert torch.equal(weight, mean), name


def test_runs_are_repeatable(corpus, run, tmp_path):
    """I14."""
    train(corpus, tmp_path / "again", recipe=SHORT)
    assert state_digests(last_checkpoint(tmp_path / "again")) == state_digests(last_checkpoint(run))
    train(corpus, tmp_path / "other", recipe=SHORT, changes=["training.seed=2"])
    assert state_digests(last_checkpoint(tmp_path / "other")) != state_digests(last_checkpoint(run))


def test_the_recipe_that_is_stored_has_the_subwords_the_corpus_has(corpus, tmp_path):
    """Else a base model on a small vocabulary would say "scale: as published" of it."""
    said: list[object] = []
    out = tmp_path / "run"
    done = train(corpus, out, recipe=SHORT, changes=["training.max_steps=1"], on_event=said.append)
    assert done.recipe.subwords.vocab_size == corpus.target_subwords.vocab_size == 340
    texts = [event.text for event in said if isinstance(event, Said)]
    assert "vocabulary: the 340 subwords of the corpus (recipe test alone would take 37,000)" in texts


def test_a_corpus_with_two_vocabularies(separate_corpus, tmp_path):
    said: list[object] = []
    done = train(
        separate_corpus,
        tmp_path / "run",
        recipe=SHORT,
        changes=["training.max_steps=2"],
        on_event=said.append,
    )
    assert not done.recipe.model.shared_embeddings
    assert not done.recipe.subwords.joint
    assert any("embeddings are not shared" in event.text for event in said if isinstance(event, Said))
    facts = open_bundle(tmp_path / "run" / "model").facts
    assert (facts.config.source_rows, facts.config.vocab_size) == (310, 300)
    assert not facts.joint
    (translation,) = Translator.load(tmp_path / "run").translate(["one two"], max_extra=2)
    assert translation.parts == 1
    with pytest.raises(ConfigError, match="shared embeddings need one vocabulary"):
        train(separate_corpus, tmp_path / "no", recipe=SHORT, changes=["model.shared_embeddings=true"])
    assert not (tmp_path / "no").exists()


def test_validation_translates_the_dev_set(corpus, tmp_path):
    changes = ["training.validation_sentences=3", "training.max_steps=2", "batch.max_length=20"]
    train(corpus, tmp_path / "run", recipe=SHORT, changes=changes)
    (validated,) = logged(tmp_path / "run", "validated")
    assert 0.0 <= validated["bleu"] <= 100.0


def test_bpe_dropout_changes_what_is_trained_on(corpus, run, tmp_path):
    done = train(corpus, tmp_path / "run", recipe=SHORT, changes=["subwords.dropout=0.5"])
    assert "recipe subwords.dropout 0.5" in read_manifest(done.directory / "model").standing
    with_dropout, without = (logged(place, "stepped") for place in (tmp_path / "run", run))
    tokens = [sum(event["source_tokens"] for event in events) for events in (with_dropout, without)]
    assert tokens[0] > 1.1 * tokens[1]


def test_a_recipe_is_chosen_where_none_is_given(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(
        pipeline, "choose_recipe", lambda *_, **__: Choice(SHORT, "240 pairs on a test", 1.25)
    )
    said: list[object] = []
    done = train(corpus, tmp_path / "run", changes=["training.max_steps=1"], on_event=said.append)
    assert done.recipe.name == "test"
    assert any(
        event.text.startswith("recipe test (fp32) chosen for 240 pairs on a test: about 75 minutes expected")
        for event in said
        if isinstance(event, Said)
    )


@pytest.mark.parametrize(("changes", "minutes"), [([], None), (["training.max_minutes=7.5"], 7.5)])
def test_the_recipe_is_chosen_for_the_minutes_that_are_given(corpus, tmp_path, monkeypatch, changes, minutes):
    asked: list[object] = []

    def choose(*_: object, max_minutes: float | None) -> Choice:
        asked.append(max_minutes)
        return Choice(SHORT, "a test", 1.0)

    monkeypatch.setattr(pipeline, "choose_recipe", choose)
    done = train(corpus, tmp_path / "run", changes=[*changes, "training.max_steps=1"])
    assert asked == [minutes]
    assert done.recipe.training.max_minutes == minutes


@pytest.mark.parametrize("content", ["run", "file", "foreign", "recipe alone", "checkpoints"])
def test_a_directory_in_use_is_refused_and_left_as_it_is(corpus, run, tmp_path, content):
    out = tmp_path / "out"
    if content == "run":
        out = run
    elif content == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        name = {"foreign": "thesis.tex", "recipe alone": "recipe.toml", "checkpoints": "checkpoints"}[content]
        (out / name).write_text("mine")
        if content == "checkpoints":
            (out / "events.jsonl").write_text("")
    before = tree(out) if out.is_dir() else out.read_text()
    with pytest.raises(ConfigError, match="is a file" if content == "file" else "is not empty"):
        train(corpus, out, recipe=SHORT)
    assert (tree(out) if out.is_dir() else out.read_text()) == before


def test_a_run_that_failed_before_its_first_checkpoint_is_started_again(corpus, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(NonFiniteLoss):
        train(corpus, out, recipe=SHORT, changes=["optimizer.factor=1e30"])
    assert {path.name for path in out.iterdir()} == {"events.jsonl", "recipe.toml"}
    assert train(corpus, out, recipe=SHORT).reason == "steps"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (["optimizer.factor=-1"], r"optimizer\.factor"),
        (["model.d_model=17"], "d_model"),
        (["nothing.at=all"], r"nothing\.at"),
        (["batch.max_length=0"], r"batch\.max_length"),
    ],
)
def test_a_wrong_change_is_refused_before_anything_is_written(corpus, tmp_path, changes, named):
    with pytest.raises(ConfigError, match=named):
        train(corpus, tmp_path / "run", recipe=SHORT, changes=changes)
    assert not (tmp_path / "run").exists()


def test_a_wrong_device_and_a_wrong_corpus(corpus, tmp_path):
    with pytest.raises(ConfigError, match="cannot be used"):
        train(corpus, tmp_path / "run", recipe=SHORT, device="cuda:99")
    with pytest.raises(ConfigError, match="device 'gpu' is none of cpu, cuda"):
        train(corpus, tmp_path / "run", recipe=SHORT, device="gpu")
    if not torch.backends.mps.is_available():
        with pytest.raises(ConfigError, match="has no MPS"):
            train(corpus, tmp_path / "run", recipe=SHORT, device="mps")
    with pytest.raises(DataError, match="not a prepared corpus"):
        train(tmp_path, tmp_path / "run", recipe=SHORT)
    assert not (tmp_path / "run").exists()


def test_a_damaged_corpus_is_refused_before_anything_is_written(tmp_path):
    """Also where a byte was changed and every size is right."""
    corpus = make_corpus(tmp_path / "corpus", train=40, dev=4)
    path = corpus.directory / "train.target.ids.npy"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="train.target.ids.npy"):
        train(corpus, tmp_path / "run", recipe=SHORT)
    assert not (tmp_path / "run").exists()


def test_two_trainings_in_one_directory_are_refused(corpus, tmp_path):
    """Also where both begin at once, and where both go on."""
    refusals = []

    def begin_another(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 2:
            for resume in (False, True):
                with pytest.raises((ConfigError, DataError)) as caught:
                    train(corpus, tmp_path / "run", recipe=None if resume else SHORT, resume=resume)
                refusals.append(str(caught.value))

    first = train(corpus, tmp_path / "run", recipe=SHORT, on_event=begin_another)
    assert "another process is at work" in refusals[1]
    assert len(refusals) == 2
    assert first.model is not None
    train(corpus, tmp_path / "run", resume=True)  # it has let go


def test_nothing_left_to_train_on(corpus, tmp_path):
    with pytest.raises(DataError, match="no pair is left"):
        train(corpus, tmp_path / "run", recipe=SHORT, changes=["batch.max_length=2"])


def test_pairs_left_out_are_told(corpus, tmp_path):
    said: list[object] = []
    changes = ["batch.max_length=9", "training.max_steps=1"]
    train(corpus, tmp_path / "run", recipe=SHORT, changes=changes, on_event=said.append)
    assert any("are not trained on" in event.text for event in said if isinstance(event, Said))
    assert any("are not trained on" in event["text"] for event in logged(tmp_path / "run", "said"))


def test_tensorboard_that_is_missing_leaves_no_open_log(corpus, tmp_path, monkeypatch):
    def missing(*_arguments: object, **_options: object) -> None:
        raise MissingDependency("TensorBoard is not installed", cure="install it")

    closed: list[bool] = []
    monkeypatch.setattr(pipeline, "TensorBoard", missing)
    real = pipeline.JsonLines.close
    monkeypatch.setattr(pipeline.JsonLines, "close", lambda log: (closed.append(True), real(log)))
    with pytest.raises(MissingDependency):
        train(corpus, tmp_path / "run", recipe=SHORT, tensorboard=True)
    assert closed == [True]


def test_a_signal_stops_it_whole_and_it_goes_on(corpus, run, tmp_path):
    """I40: distinct from an end; the model comes when training has really ended."""
    out = tmp_path / "run"
    stopped = train(corpus, out, recipe=SHORT, on_event=terminate_at(3))
    assert (stopped.reason, stopped.model, stopped.interrupted) == ("signal", None, True)
    assert not (out / "model").exists()
    assert checkpoint_names(out / "checkpoints")[-1] == "step-00000003"
    done = train(corpus, out, resume=True)
    assert done.reason == "steps"
    assert done.recipe == stopped.recipe
    assert (out / "model" / "model.safetensors").read_bytes() == (
        run / "model" / "model.safetensors"
    ).read_bytes()


def test_it_goes_on_from_the_newest_whole_checkpoint_and_says_so(corpus, run, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(corpus, out, recipe=SHORT, on_event=kill_at_save(4))
    assert checkpoint_names(out / "checkpoints") == ["step-00000002", "step-00000004"]
    damaged = out / "checkpoints" / "step-00000004" / "optimizer.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    (out / "checkpoints" / ".step-00000005.partial-01234567").mkdir()
    said: list[str] = []
    steps: list[int] = []

    def watch(event: object) -> None:
        if isinstance(event, Said):
            said.append(event.text)
        elif isinstance(event, Stepped):
            steps.append(event.step)

    train(corpus, out, resume=True, on_event=watch)
    assert said[0].startswith(
        "checkpoint step-00000004 is passed over: a file is damaged: optimizer.safetensors"
    )
    assert said[1] == "going on from step-00000002"
    assert steps == [3, 4, 5, 6]
    assert {path.name for path in (out / "checkpoints").iterdir()} == {
        "best",
        "latest",
        "step-00000004",
        "step-00000006",
    }
    assert state_digests(last_checkpoint(out)) == state_digests(last_checkpoint(run))
    assert [event["text"] for event in logged(out, "said")][-2:] == said


def interrupted(corpus, out: Path) -> Path:
    train(corpus, out, recipe=SHORT, on_event=terminate_at(3))
    return out


def test_limits_may_change_when_it_goes_on(corpus, tmp_path):
    out = interrupted(corpus, tmp_path / "run")
    done = train(corpus, out, resume=True, changes=["training.max_steps=8", "training.log_steps=2"])
    assert done.recipe.training.max_steps == 8
    assert last_checkpoint(out).place.step == 8
    assert Recipe.from_file(out / "recipe.toml") == done.recipe
    again = train(corpus, out, resume=True)
    assert again.recipe.training.max_steps == 8


def test_the_limits_that_may_change_are_fields():
    fields = {
        f"{section}.{name}"
        for section, rest in Recipe().model_dump().items()
        if isinstance(rest, dict)
        for name in rest
    }
    assert set(CHANGEABLE_ON_RESUME) <= fields


@pytest.mark.parametrize(
    "change",
    [
        "training.seed=2",
        "batch.target_tokens=120",
        "optimizer.factor=1.0",
        "model.d_ff=64",
        "training.eps_ls=0.2",
        "training.precision=bf16",
        "subwords.dropout=0.1",
        "name=other",
    ],
)
def test_rules_may_not_change_when_it_goes_on(corpus, run, change):
    before = tree(run)
    field = change.partition("=")[0]
    with pytest.raises(ConfigError, match=f"{field} cannot change when a run goes on"):
        train(corpus, run, resume=True, changes=[change])
    assert tree(run) == before


def test_a_recipe_file_edited_since_is_found_out(corpus, tmp_path):
    out = interrupted(corpus, tmp_path / "run")
    path = out / "recipe.toml"
    good = path.read_text()
    path.write_text(good.replace("eps_ls = 0.1", "eps_ls = 0.3"))
    with pytest.raises(
        ConfigError, match=r"training\.eps_ls is 0\.3, but was 0\.1 when step-00000003 was written"
    ):
        train(corpus, out, resume=True)
    path.write_text(
        good.replace("max_steps = 6", "max_steps = 4").replace('description = ""', 'description = "mine"')
    )
    assert train(corpus, out, resume=True).recipe.training.max_steps == 4


def test_another_recipe_is_refused_when_it_goes_on(corpus, tmp_path):
    out = interrupted(corpus, tmp_path / "run")
    for other in (base(), SHORT.with_changes(["optimizer.factor=1.0"]), SHORT.with_changes(["name=other"])):
        with pytest.raises(ConfigError, match=r"(name|factor) cannot change when a run goes on"):
            train(corpus, out, recipe=other, resume=True)
    stored = Recipe.from_file(out / "recipe.toml")
    assert train(corpus, out, recipe=stored, resume=True).reason == "steps"


def test_the_command_that_began_a_run_goes_on_with_it(separate_corpus, tmp_path):
    """The same recipe and changes again; what the run took from its corpus is no change."""
    changes = ["optimizer.factor=1.5", "training.max_steps=4"]
    out = tmp_path / "run"
    train(separate_corpus, out, recipe=SHORT, changes=changes, on_event=terminate_at(3))
    done = train(separate_corpus, out, recipe=SHORT, changes=changes, resume=True)
    assert (done.reason, last_checkpoint(out).place.step) == ("steps", 4)
    assert done.recipe.optimizer.factor == 1.5
    assert not done.recipe.subwords.joint
    longer = SHORT.with_changes([*changes, "training.max_steps=5"])
    assert train(separate_corpus, out, recipe=longer, resume=True).recipe.training.max_steps == 5
    assert last_checkpoint(out).place.step == 5


def test_another_corpus_is_refused_when_it_goes_on(corpus, small_corpus, tmp_path):
    out = interrupted(corpus, tmp_path / "run")
    with pytest.raises(CheckpointError):
        train(small_corpus, out, resume=True)
    same_size = make_corpus(tmp_path / "other", seed=2)
    with pytest.raises(CheckpointError):
        train(same_size, out, resume=True)


def test_another_text_of_the_same_lengths_is_refused(corpus, tmp_path):
    out = interrupted(corpus, tmp_path / "run")
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in corpus.directory.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((copy / "manifest.json").read_text())
    shard = copy / "train.source.ids.npy"
    ids = np.load(shard)
    ids[0] += 1
    np.save(shard, ids)
    for entry in manifest["files"]:
        if entry["name"] == shard.name:
            entry["sha256"] = hashlib.sha256(shard.read_bytes()).hexdigest()
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="another training text"):
        train(open_prepared(copy), out, resume=True)


def test_nothing_to_go_on_from(corpus, tmp_path):
    with pytest.raises(ConfigError, match="no run to go on with"):
        train(corpus, tmp_path / "absent", resume=True)
    assert not (tmp_path / "absent").exists()
    out = tmp_path / "run"
    with pytest.raises(NonFiniteLoss):
        train(corpus, out, recipe=SHORT, changes=["optimizer.factor=1e30"])
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        train(corpus, out, resume=True)


def test_average_of_a_run_and_of_named_checkpoints(run, tmp_path):
    names = [run / "checkpoints" / name for name in checkpoint_names(run / "checkpoints")]
    one = average(run, tmp_path / "one", last=2)
    other = average([str(name) for name in reversed(names)], tmp_path / "other")
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    assert read_manifest(average(str(run), tmp_path / "five")).averaged == tuple(name.name for name in names)
    assert read_manifest(average(run, tmp_path / "last", last=1)).averaged == ("step-00000006",)
    with pytest.raises(ConfigError, match="both"):
        average(names, tmp_path / "x", last=2)
    with pytest.raises(CheckpointError, match="no checkpoints"):
        average(tmp_path, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_evaluate_scores_what_translate_gives(run):
    translator = Translator.load(run)
    sources = ["one two three", "", "four ."]
    translations = [t.text for t in translator.translate(sources, beam_size=2, max_extra=50)]
    done = evaluate(translator, sources, translations, beam_size=2, with_paper_bleu=True)
    assert [t.text for t in done.translations] == translations
    by_name = {score.name.split()[0].lower(): score for score in done.scores}
    assert by_name["exact"].value == 100.0
    assert len(done.scores) == 4
    for score in done.scores:
        assert score.signature.endswith("|beam:2|alpha:0.6|max:source+50")
    assert done.standing.startswith("Vaswani et al. 2017")
    assert done.truncated == sum(t.truncated for t in done.translations)


def test_departures_are_in_every_signature(run):
    departures = ("optimizer.cooldown 0.6 (paper 0.0, 5.3)", "norm place before (paper after, 3.1)")
    translator = replace(Translator.load(run), departures=departures)
    done = evaluate(translator, ["one two"], ["twa een"], with_paper_bleu=True)
    for score in done.scores:
        assert score.signature.endswith(f"|max:source+50|departures:{departures[0]}; {departures[1]}")


def test_a_run_records_what_its_code_does(run):
    bundle = open_bundle(run / "model")
    recorded = bundle.manifest.fidelity
    assert recorded == measure(bundle.facts.recipe, subwords=bundle.facts.target_subwords)
    assert bundle.manifest.standing == recorded.banner("test")


def test_evaluate_from_a_directory_tells_its_progress(run, monkeypatch):
    monkeypatch.setattr(pipeline, "chunks", lambda units: chunks(units, 2))
    told: list[int] = []
    done = evaluate(run, ["one", "two", "three"], ["a", "b", "c"], beam_size=1, on_batch=told.append)
    assert told == [2, 3]
    assert len(done.translations) == 3
    assert all(0.0 <= score.value <= 100.0 for score in done.scores)


def test_evaluate_refuses_sides_of_unequal_length(run):
    with pytest.raises(DataError, match=r"2.*1|1.*2"):
        evaluate(run, ["one", "two"], ["a"])


def test_chunks_are_all_of_it_in_order():
    units = [str(k) for k in range(7)]
    assert [list(chunk) for chunk in chunks(units, 3)] == [units[:3], units[3:6], units[6:]]
    assert list(chunks([], 3)) == []
    assert len(list(chunks(units))) == 1


def test_saved_is_told_only_when_it_is_so(corpus, tmp_path):
    """B35: what the log says is saved can be opened at that moment."""
    seen: list[int] = []

    def check(event: object) -> None:
        if isinstance(event, Saved):
            assert last_checkpoint(tmp_path / "run").place.step == event.step
            seen.append(event.step)

    train(corpus, tmp_path / "run", recipe=SHORT, on_event=check)
    assert seen == [2, 4, 6]
