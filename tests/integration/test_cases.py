"""Inputs that broke other systems (DRAGOMAN_CASES), each by its own `case.json`.

Tested where their code is: 07 in unit/training/test_step.py, 08 in unit/training/test_loss.py, 16 in
unit/search/test_beam.py. 20 and 22 are about a server.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import done, everything_in, finish, refused, start
from tiny_runs import Killed, kill_at_save, last_checkpoint, logged, state_digests, terminate_at, tiny_recipe
from toy_search import cases_folder

from dragoman.data.prepare import open_prepared, prepare
from dragoman.pipeline import train
from dragoman.recipe import Recipe
from dragoman.training.checkpoint import checkpoint_names, newest_checkpoint, open_checkpoint
from dragoman.translator import Translator

CASES = cases_folder()
pytestmark = pytest.mark.skipif(CASES is None, reason="DRAGOMAN_CASES names no folder of cases")


def case(name: str) -> Path:
    assert CASES is not None
    [folder] = CASES.glob(f"{name}-*")
    return folder


def prepared_case(name: str, out: Path, *options: object):
    folder = case(name)
    return done("prepare", folder / "train.src", folder / "train.tgt", "--out", out, *options)


def units_of(path: Path) -> list[str]:
    """Lines by LF alone, undecodable bytes kept."""
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    return text.removesuffix("\n").split("\n")


def test_01_line_separators_of_unicode(lab, tmp_path):
    folder = case("01")
    prepared_case("01", tmp_path / "data", "--vocab-size", 300)
    corpus = open_prepared(tmp_path / "data")
    assert corpus.manifest.origin.pairs_read == 7
    sources, targets = units_of(folder / "train.src"), units_of(folder / "train.tgt")
    seen = 0
    for shards in (corpus.train, corpus.dev):
        for k, line in enumerate(shards.line_numbers.tolist()):
            pair = shards.source(k).tolist(), shards.target(k).tolist()
            wanted = (
                corpus.source_subwords.encode(sources[line - 1]),
                corpus.target_subwords.encode(targets[line - 1]),
            )
            assert pair == tuple([*ids, 1] for ids in wanted)
            seen += 1
    assert seen + corpus.left_out.total == 7
    done("translate", lab.run, folder / "train.src", "--out", tmp_path / "hyp")
    assert (tmp_path / "hyp").read_bytes().count(b"\n") == 7
    assert (tmp_path / "hyp").read_bytes().endswith(b"\n")
    first, second = tmp_path / "1.model", tmp_path / "2.model"
    corpus.source_subwords.save(first)
    type(corpus.source_subwords).load(first).save(second)
    assert first.read_bytes() == second.read_bytes()


def test_03_bytes_that_are_not_utf8(lab, tmp_path):
    folder = case("03")
    message = refused(3, "prepare", folder / "train.src", folder / "train.tgt", "--out", tmp_path / "a")
    assert "train.src, line 2" in message
    assert "Traceback" not in message
    assert everything_in(tmp_path) == []
    result = prepared_case("03", tmp_path / "b", "--bad-bytes", "skip", "--vocab-size", 300, "--dev-size", 1)
    corpus = open_prepared(tmp_path / "b")
    assert len(corpus.train) + len(corpus.dev) == 3
    assert all(str(line) in result.err for line in (2, 4, 5, 7))
    assert "train.src, line 2" in refused(
        3, "translate", lab.run, folder / "train.src", "--out", tmp_path / "h"
    )
    command = ("translate", lab.run, folder / "train.src", "--bad-bytes", "replace")
    result = done(*command, "--out", tmp_path / "hyp")
    assert (tmp_path / "hyp").read_bytes().count(b"\n") == 7
    replaced = [
        k for k, r in enumerate(done(*command, "--json").records, start=1) if "replaced" in r["flags"]
    ]
    assert (
        replaced == [line for line in range(1, 8) if f"warning: line {line} holds U+FFFD" in result.err] != []
    )


def test_05_lines_too_long_to_learn_subwords_from(tmp_path):
    text = case("05") / "corpus.txt"
    result = done("prepare", text, text, "--out", tmp_path / "v", "--vocab-size", 300)
    assert all(str(line) in result.err for line in (41, 121))
    subwords = open_prepared(tmp_path / "v").source_subwords
    assert subwords.decode(subwords.encode("ѫ")) == "ѫ"
    text = case("05") / "only_long.txt"
    message = refused(3, "prepare", text, text, "--out", tmp_path / "w", "--vocab-size", 300)
    assert "Traceback" not in message
    assert "assert" not in message.lower()


SMALL: tuple[str, ...] = (
    "training.checkpoint_steps=1",
    "training.keep_checkpoints=2",
    "training.validate_steps=1000",
    "search.average_checkpoints=2",
)


def recipe_of(max_steps: int, *changes: str) -> Recipe:
    return tiny_recipe(
        f"training.max_steps={max_steps}", "batch.source_tokens=60", "batch.target_tokens=60", *changes
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_10_killed_while_saving_fifty_times(tmp_path):
    """Each time the command starts again by itself, loses nothing it called saved, and ends where a straight run does."""
    prepared_case("10", tmp_path / "data", "--vocab-size", 300)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(recipe_of(600, *SMALL).to_toml(), encoding="utf-8")
    run, straight = tmp_path / "run", tmp_path / "straight"
    done("train", tmp_path / "data", "--out", straight, "--recipe", recipe)
    kills = json.loads((case("10") / "kills.json").read_text())["seconds_after_start_of_saving_phase"]
    command = ("train", tmp_path / "data", "--out", run, "--recipe", recipe)
    for round_, delay in enumerate(kills):
        process = start(*command, *(["--resume"] if round_ else []))
        before = len(saved(run))
        deadline = time.monotonic() + 60.0
        while len(saved(run)) == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(delay)
        process.kill()
        process.communicate()
        newest = newest_checkpoint(run / "checkpoints", lambda _text: None)
        assert newest.place.step >= max(saved(run), default=0)
        for name in checkpoint_names(run / "checkpoints"):
            open_checkpoint(run / "checkpoints" / name)
    result = finish(start(*command, "--resume"), patience_seconds=600.0)
    assert result.code == 0, result.err
    assert state_digests(last_checkpoint(run)) == state_digests(last_checkpoint(straight))
    assert [
        path for path in everything_in(run / "checkpoints") if ".partial" in path or ".old-" in path
    ] == []


def saved(run: Path) -> list[int]:
    """Steps that the log calls saved; a line cut by a kill does not count."""
    log = run / "events.jsonl"
    if not log.is_file():
        return []
    steps = []
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if event["event"] == "saved":
            steps.append(event["step"])
    return steps


SAME = ("loss", "nll", "rate", "gradient_norm", "source_tokens", "target_tokens")


def steps_of(run: Path) -> dict[int, list[float]]:
    return {event["step"]: [event[name] for name in SAME] for event in logged(run, "stepped")}


@pytest.fixture(scope="module")
def mid_epoch(tmp_path_factory):
    """37 pairs, prepared, and a straight run of 24 updates."""
    folder = tmp_path_factory.mktemp("case11")
    source = case("11")
    corpus = prepare(
        *(source / "train.src", source / "train.tgt"),
        out=folder / "data",
        dev_source=source / "train.src",
        dev_target=source / "train.tgt",
        vocab_size=300,
    )
    train(corpus, folder / "straight", recipe=recipe_of(24, "training.checkpoint_steps=5"))
    return corpus, folder / "straight"


STOPS = [[1], [4], [5], [9], [10], [11], [19], [20], [23], [5, 12], [10, 20]]


@pytest.mark.usefixtures("quick_runs")
@pytest.mark.parametrize("kind", ["graceful", "kill"])
@pytest.mark.parametrize("stops", STOPS, ids=str)
def test_11_stopped_in_the_middle_of_an_epoch(mid_epoch, tmp_path, stops, kind):
    corpus, straight = mid_epoch
    listed = json.loads((case("11") / "stops.json").read_text())
    assert [[n] for n in listed["stop_after"]] + listed["twice"] == STOPS
    run = tmp_path / "run"
    watches: dict[str, Callable] = {"graceful": terminate_at, "kill": kill_at_save}
    for number, stop in enumerate([*stops, None]):
        watch = None if stop is None else watches[kind](stop)
        recipe = recipe_of(24, "training.checkpoint_steps=5") if number == 0 else None
        try:
            train(corpus, run, recipe=recipe, resume=number > 0, on_event=watch)
        except Killed:
            assert kind == "kill"
    assert steps_of(run) == steps_of(straight)
    assert state_digests(last_checkpoint(run)) == state_digests(last_checkpoint(straight))
    assert {event["step"] for event in logged(run, "saved")} >= {5, 10, 15, 20, 24}


@pytest.mark.parametrize("beam_size", [1, 5])
def test_14_any_batch_size_and_order(lab, beam_size):
    units = units_of(case("14") / "input.txt")
    permutation = json.loads((case("14") / "perm.json").read_text())["perm"]
    translator = Translator.load(lab.run)
    wanted = translator.translate(units, beam_size=beam_size, max_extra=10)
    for rows in (1, 2, 5, 16, 1000):
        assert (
            replace(translator, batch_rows=rows).translate(units, beam_size=beam_size, max_extra=10) == wanted
        )
    for tokens in (40, 200):
        assert (
            replace(translator, batch_tokens=tokens).translate(units, beam_size=beam_size, max_extra=10)
            == wanted
        )
    assert translator.translate(units[::-1], beam_size=beam_size, max_extra=10)[::-1] == wanted
    permuted = translator.translate([units[k] for k in permutation], beam_size=beam_size, max_extra=10)
    assert permuted == [wanted[k] for k in permutation]
    if beam_size > 1:
        several = translator.translate(units, beam_size=beam_size, n_best=beam_size, max_extra=10)
        assert [t.text for t in several] == [t.text for t in wanted]


@pytest.mark.parametrize("name", ["input.txt", "input_noword.txt"])
def test_15_a_line_too_long_among_short_ones(lab, tmp_path, name):
    source = case("15") / name
    units = units_of(source)
    result = done("translate", lab.run, source, "--out", tmp_path / "hyp", "--beam-size", 1)
    found = units_of(tmp_path / "hyp")
    assert len(found) == 5
    assert "warning: line 3 is too long for the model" in result.err
    translator = Translator.load(lab.run)
    for k in (0, 1, 3, 4):
        assert found[k] == translator.translate([units[k]], beam_size=1)[0].text
    length = len(translator.source_subwords.encode(units[0])) + 1
    shorter = [unit[:200] for unit in units]
    for limit in (length - 1, length, length + 1):
        around = replace(translator, max_source_tokens=limit).translate(shorter, beam_size=1, max_extra=3)
        assert len(around) == 5
        assert around[0].split == (limit < length)


def test_17_blank_lines(lab, tmp_path):
    folder = case("17")
    blank = (2, 4, 5, 6, 7, 10)
    done("translate", lab.run, folder / "input.txt", "--out", tmp_path / "hyp")
    found = units_of(tmp_path / "hyp")
    units = units_of(folder / "input.txt")
    assert len(found) == 10
    assert all(found[line - 1] == "" for line in blank)
    translator = Translator.load(lab.run)
    assert all(found[line - 1] == translator.translate([units[line - 1]])[0].text for line in (1, 3, 8, 9))
    whole = (tmp_path / "hyp").read_bytes()
    assert done("translate", lab.run, stdin=(folder / "input.txt").read_bytes()).out == whole
    for name, lines in (("empty.txt", 0), ("only_blank.txt", None), ("no_final_newline.txt", None)):
        source = folder / name
        count = len(units_of(source)) if lines is None else lines
        result = done("translate", lab.run, source)
        assert len(result.lines) == count
        if name == "only_blank.txt":
            assert set(result.lines) == {""}
    rows = [
        line.split("\t") for line in done("translate", lab.run, folder / "input.txt", "--n-best", 3).lines
    ]
    for line in blank:
        assert [row[1:] for row in rows if row[0] == str(line)] == [["0.0000", ""]] * 3


@pytest.mark.parametrize("verb", ["translate", "evaluate", "average"])
def test_25_archives_are_no_models(tmp_path, verb):
    """Nothing is unpacked, whatever is in them."""
    archives = [path for path in sorted(case("25").iterdir()) if path.suffix in (".tar", ".zip")]
    assert len(archives) > 8
    text = tmp_path / "text"
    text.write_text("one\n", encoding="utf-8")
    rest = {"translate": [text], "evaluate": [text, text], "average": ["--out", tmp_path / "m"]}[verb]
    before = everything_in(tmp_path)
    for archive in archives:
        message = refused(4, verb, archive, *rest)
        assert archive.name in message
    assert everything_in(tmp_path) == before


def test_28_blank_lines_and_odd_ones_in_scoring():
    folder = case("28")
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))

    def scores(*names: str) -> dict[str, dict]:
        result = done("evaluate", *(folder / name for name in names), "--json", "--target-language", "en")
        return {score["name"]: score for score in result.json}

    found = scores("hyp.txt", "ref.txt")
    assert found["BLEU"]["segments"] == 4
    assert found["BLEU"]["value"] == pytest.approx(wanted["bleu"], abs=0.01)
    assert found["BLEU"]["signature"] == wanted["bleu_signature"]
    assert found["chrF2"]["value"] == pytest.approx(wanted["chrf"], abs=0.01)
    assert (
        "blank hypotheses 1, blank references 1"
        in done("evaluate", folder / "hyp.txt", folder / "ref.txt").err
    )
    message = refused(3, "evaluate", folder / "hyp_short.txt", folder / "ref.txt")
    assert "3" in message
    assert "4" in message
    assert scores("all_empty.txt", "ref.txt")["BLEU"]["value"] == 0.0
    assert scores("ref.txt", "ref.txt")["chrF2"]["value"] == pytest.approx(wanted["identical_chrf"])
