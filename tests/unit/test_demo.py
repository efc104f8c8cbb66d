"""The demonstration: which data it takes, what it makes, what it says; not how good it gets."""

from __future__ import annotations

import gzip
import json
import os
import signal
from functools import partial

import pytest
from command_line import everything_in, word_pairs

from dragoman import demo
from dragoman.data.prepared import open_prepared
from dragoman.demo import DemoStopped, run_demo
from dragoman.download import DataSet
from dragoman.errors import ConfigError, DataError
from dragoman.recipe import Recipe
from dragoman.recipes.named import with_minutes
from dragoman.training.events import Ended, Stepped
from dragoman.translator import Translator

MINUTES = 0.03  # of training
TEST_PAIRS = 12
SMALLER = (
    *("model.N=1", "model.d_model=16", "model.d_ff=16", "model.h=2", "subwords.vocab_size=400"),
    *("batch.source_tokens=256", "batch.target_tokens=256", "training.validation_sentences=2"),
)


@pytest.fixture(scope="module", autouse=True)
def _small():
    """A corpus and a model of a few seconds; no data by chance of the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "GRAMMAR_PAIRS", 400)
        patch.setattr(demo, "GRAMMAR_TEST_PAIRS", TEST_PAIRS)
        patch.delenv(demo.DATA_VARIABLE, raising=False)
        for name in ("demo", "demo_grammar"):
            shipped = getattr(demo, name)()
            smaller = shipped.with_changes(SMALLER).model_copy(update={"name": shipped.name})
            patch.setattr(demo, name, partial(_given, smaller))
        yield


def _given(recipe):
    return recipe


def write_multi30k(raw):
    """Files named as Multi30k's, with pairs of our own."""
    raw.mkdir(parents=True)
    for number, (split, count) in enumerate([("train", 100), ("val", 8), ("test_2016_flickr", 14)]):
        pairs = word_pairs(count, seed=number)
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (raw / f"{split}.{language}.gz").write_bytes(gzip.compress(text.encode()))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """One demonstration on the grammar: its result, what was said, its events."""
    said, events = [], []
    out = tmp_path_factory.mktemp("demo") / "out"
    result = run_demo(out, grammar=True, max_minutes=MINUTES, seed=3, say=said.append, on_event=events.append)
    return result, said, events


def test_everything_is_in_its_directory(shown):
    result = shown[0]
    assert {path.name for path in result.out.iterdir()} == {"demo.txt", "grammar", "prepared", "run"}
    corpus = open_prepared(result.out / "prepared")
    assert len(corpus.dev) == TEST_PAIRS
    assert (corpus.source_language, corpus.target_language) == ("en", "de")
    assert (result.data, len(result.references)) == ("grammar", TEST_PAIRS)
    translator = Translator.load(result.out / "run")
    source = (result.out / "grammar" / "test.en").read_text(encoding="utf-8").splitlines()[0]
    assert translator.translate([source])[0].text == result.evaluation.translations[0].text


def test_the_test_set_is_translated_and_scored(shown):
    result = shown[0]
    assert len(result.evaluation.translations) == TEST_PAIRS
    assert [score.name for score in result.evaluation.scores] == ["BLEU", "chrF2", "exact match"]
    assert all(score.segments == TEST_PAIRS for score in result.evaluation.scores)
    assert "|beam:4|" in result.evaluation.scores[0].signature


def test_the_time_is_kept(shown):
    result, _, events = shown
    assert sum(isinstance(event, Stepped) for event in events) > 3
    assert events[-1].reason == "minutes" if isinstance(events[-1], Ended) else True
    assert result.training_seconds >= 60 * MINUTES
    recipe = Recipe.from_file(result.out / "run" / "recipe.toml")
    assert (recipe.training.max_minutes, recipe.training.seed) == (MINUTES, 3)
    assert recipe.training.checkpoint_minutes == pytest.approx(MINUTES / 40)


def test_what_is_said_on_the_way(shown):
    said = shown[1]
    assert said[0] == "data: the built-in English-German grammar (as asked)"
    assert "prepared corpus, en to de" in said[1]
    assert said[-1] == "translating the test set"


def test_the_end_shows_examples_scores_standing_and_what_next(shown):
    result = shown[0]
    lines = result.lines()
    text = "\n".join(lines)
    assert sum(line.startswith("  source     ") for line in lines) == demo.EXAMPLES
    sources = {translation.source for translation in result.evaluation.translations}
    for k, line in enumerate(lines):
        if line.startswith("  source"):
            assert line[13:] in sources
            assert lines[k + 1].startswith("  dragoman   ")
            assert lines[k + 2][13:] in result.references
    for part in ("BLEU ", "chrF2 ", "exact match ", "minutes of training", "Vaswani et al. 2017", "Next:"):
        assert part in text
    assert f"dragoman translate {result.out / 'run'}" in text
    assert "dragoman prepare train.en train.de --out prepared" in text


def test_the_record_is_json(shown):
    result = shown[0]
    record = json.loads(json.dumps(result.as_record(), allow_nan=False))
    assert record["data"] == "grammar"
    assert record["model"] == str(result.out / "run" / "model")
    assert [score["name"] for score in record["scores"]] == ["BLEU", "chrF2", "exact match"]


def test_a_second_one_replaces_the_first_and_nothing_else(shown, monkeypatch):
    result = shown[0]
    (result.out / "multi30k").mkdir()
    monkeypatch.setattr(demo, "write_corpus", _refuse)
    with pytest.raises(DataError, match="far enough"):
        run_demo(result.out, grammar=True, say=lambda _: None)
    assert everything_in(result.out) == ["demo.txt", "multi30k"]


def _refuse(*_, **__):
    raise DataError("far enough", cure="none")


@pytest.mark.parametrize("kind", ["file", "directory", "directory with a hidden file"])
def test_what_is_in_the_way_stays(tmp_path, kind):
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine", encoding="utf-8")
    else:
        out.mkdir()
        (out / (".mine" if "hidden" in kind else "run")).write_text("mine", encoding="utf-8")
    before = everything_in(tmp_path)
    with pytest.raises(ConfigError, match="in the way"):
        run_demo(out, grammar=True, say=lambda _: None)
    assert everything_in(tmp_path) == before


def test_an_empty_directory_will_do(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "write_corpus", _refuse)
    with pytest.raises(DataError, match="far enough"):
        run_demo(tmp_path, grammar=True, say=lambda _: None)
    assert everything_in(tmp_path) == ["demo.txt"]


@pytest.mark.parametrize(("minutes", "asked"), [(None, 9.75), (0.02, 0.02)])
def test_captions_are_learned_by_the_recipe_for_the_minutes_on_this_machine(
    tmp_path, monkeypatch, minutes, asked
):
    write_multi30k(tmp_path / "data" / "multi30k" / "raw")
    monkeypatch.setenv(demo.DATA_VARIABLE, str(tmp_path / "data"))
    calls = []

    def for_minutes(minutes, corpus, device, precision):
        calls.append((minutes, len(corpus.train), device.type, precision))
        recipe = demo.demo().with_changes(["training.max_steps=2", "optimizer.warmup_steps=7"])
        return with_minutes(recipe, minutes), 1.0

    monkeypatch.setattr(demo, "for_minutes", for_minutes)
    monkeypatch.setattr(demo, "fast_precision", lambda _device: "fp32")
    result = run_demo(tmp_path / "out", max_minutes=minutes, seed=4, say=lambda _: None)
    assert calls == [(asked, 100, "cpu", "fp32")]
    recipe = Recipe.from_file(result.out / "run" / "recipe.toml")
    assert (recipe.optimizer.warmup_steps, recipe.training.seed) == (7, 4)
    assert recipe.training.max_minutes == asked


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf")])
def test_no_time_is_refused_before_anything(tmp_path, minutes):
    with pytest.raises(ConfigError, match="minutes"):
        run_demo(tmp_path / "out", grammar=True, max_minutes=minutes, say=lambda _: None)
    assert everything_in(tmp_path) == []


def chosen(tmp_path, **options):
    """Which data a call takes, and what it says of it."""
    said = []
    options = {"download": False, "grammar": False, "seed": 1, **options}
    data = demo._data(tmp_path, say=said.append, **options)
    return data, said


def test_multi30k_is_taken_from_the_data_folder(tmp_path, monkeypatch):
    write_multi30k(tmp_path / "data" / "multi30k" / "raw")
    monkeypatch.setenv(demo.DATA_VARIABLE, str(tmp_path / "data"))
    # Asking for a download changes nothing where the files are: nobody fetches them.
    monkeypatch.setattr(demo, "fetch_files", _refuse)
    for download in (False, True):
        data, said = chosen(tmp_path / "out", download=download)
        assert (data.name, said) == ("Multi30k", ["data: Multi30k English-German from DRAGOMAN_DATA"])
        assert data.train[0] == tmp_path / "data" / "multi30k" / "raw" / "train.en.gz"
        assert data.dev[1].name == "val.de.gz"
        assert data.test[1].name == "test_2016_flickr.de.gz"
    assert chosen(tmp_path / "out", grammar=True)[0].name == "grammar"


def test_a_data_folder_without_a_file_of_it_is_none(tmp_path, monkeypatch):
    raw = tmp_path / "data" / "multi30k" / "raw"
    write_multi30k(raw)
    (raw / "val.de.gz").unlink()
    monkeypatch.setenv(demo.DATA_VARIABLE, str(tmp_path / "data"))
    data, said = chosen(tmp_path / "out")
    assert data.name == "grammar"
    assert said == [
        f"data: the built-in English-German grammar ({tmp_path / 'data'} has no multi30k/raw that is whole, and "
        "--download was not given)"
    ]


def test_without_a_data_folder_there_is_the_grammar(tmp_path):
    data, said = chosen(tmp_path)
    assert data.name == "grammar"
    assert "DRAGOMAN_DATA is not set, and --download was not given" in said[0]
    lines = {name: len(path.read_bytes().splitlines()) for name, path in _named(data)}
    assert lines == {
        f"{split}.{language}": 400 if split == "train" else TEST_PAIRS
        for split in ("train", "dev", "test")
        for language in ("en", "de")
    }


def _named(data):
    return [(path.name, path) for path in (*data.train, *data.dev, *data.test)]


def test_a_download_is_announced_with_its_terms(tmp_path, monkeypatch):
    def fetch(data: DataSet, directory, *, say):
        say(f"fetching {len(data.files)} files")
        write_multi30k(directory)

    monkeypatch.setattr(demo, "fetch_files", fetch)
    data, said = chosen(tmp_path, download=True)
    assert data.name == "Multi30k"
    assert data.train[0] == tmp_path / "multi30k" / "train.en.gz"
    assert "terms" in said[0]
    assert said[1] == "fetching 6 files"


def test_it_runs_on_multi30k(tmp_path, monkeypatch):
    write_multi30k(tmp_path / "data" / "multi30k" / "raw")
    monkeypatch.setenv(demo.DATA_VARIABLE, str(tmp_path / "data"))
    result = run_demo(tmp_path / "out", max_minutes=MINUTES / 3, say=lambda _: None)
    assert (result.data, len(result.references)) == ("Multi30k", 14)
    assert "Multi30k, sentences the model has not seen:" in result.lines()


def test_a_signal_saves_and_says_how_to_go_on(tmp_path):
    def interrupt(event):
        if isinstance(event, Stepped) and event.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    out = tmp_path / "out"
    with pytest.raises(DemoStopped) as raised:
        run_demo(out, grammar=True, say=lambda _: None, on_event=interrupt)
    assert raised.value.exit_code == 75
    assert raised.value.cure == f"go on with: dragoman train {out / 'prepared'} --out {out / 'run'} --resume"
    assert (out / "run" / "checkpoints" / "latest").read_text(encoding="utf-8") == "step-00000003\n"
    assert not (out / "run" / "model").exists()
