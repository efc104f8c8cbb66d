"""The command itself: help, version, exit codes, errors in words, and streams that fail."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap

import pytest
from command_line import done, dragoman, finish, finish_after, refused, start

import dragoman as package
from dragoman import __main__ as begin
from dragoman.cli import main
from dragoman.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    DragomanError,
    MissingDependency,
    NonFiniteLoss,
    VocabularyMismatch,
)

VERBS = ["demo", "prepare", "train", "average", "translate", "score", "evaluate", "compare", "recipe"]
PATH = f"import sys; sys.path.insert(0, {os.path.dirname(os.path.dirname(package.__file__))!r}); "


def test_help_lists_every_verb_and_the_exit_codes():
    text = done("--help").text
    assert all(f"\n  {verb} " in text for verb in VERBS)
    assert "Exit codes: 0 done;" in " ".join(text.split())


@pytest.mark.parametrize("verb", [*VERBS, "recipe list", "recipe show"])
def test_every_verb_explains_itself(verb):
    text = done(*verb.split(), "--help").text
    assert text.startswith("Usage: ")
    assert "-h, --help" in text
    assert "Example" in text or verb in ("demo", "recipe", "recipe list")


def test_no_verb_shows_the_help():
    result = dragoman()
    assert result.code == 2
    assert "Usage: dragoman" in result.text + result.err


def test_version():
    assert done("--version").text == f"dragoman {package.__version__}\n"


def test_help_is_quick_and_does_without_torch():
    code = PATH + (
        "from dragoman.cli.main import app\n"
        "try:\n    app(['--help'])\n"
        "finally:\n    print('torch' in sys.modules, 'numpy' in sys.modules, file=sys.stderr)"
    )
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        assert result.stderr.split() == ["False", "False"]
        assert result.stdout.startswith("Usage: ")
    assert min(seconds) < 0.5, "of processor time; the clock would measure the neighbors"


def test_scoring_two_files_does_without_torch(tmp_path):
    file = tmp_path / "a.de"
    file.write_text("ein Satz mit einigen Wörtern\n", encoding="utf-8")
    code = PATH + (
        "from dragoman.cli.main import app\n"
        f"try:\n    app(['evaluate', {str(file)!r}, {str(file)!r}])\n"
        "finally:\n    print('torch', 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.splitlines()[-1] == "torch False"
    assert result.stdout.startswith("BLEU 100.00")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["frobnicate"], "frobnicate"),
        (["translate"], "model"),
        (["translate", "m", "--beam-size", "four"], "beam-size"),
        (["translate", "m", "--beam-size", "0"], "beam-size"),
        (["translate", "m", "--precision", "fp8"], "fp8"),
        (["translate", "m", "--frob"], "--frob"),
        (["prepare", "a", "b"], "--out"),
        (["train", "p"], "--out"),
        (["recipe", "frob"], "frob"),
    ],
)
def test_a_wrong_command_line_is_code_2_and_names_the_word(arguments, named):
    assert named in refused(2, *arguments).lower()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DragomanError("x", cure="c"), 1),
        (ConfigError("x", cure="c"), 2),
        (DataError("x", cure="c"), 3),
        (CheckpointError("x", cure="c"), 4),
        (VocabularyMismatch("x", cure="c"), 4),
        (NonFiniteLoss("x", cure="c"), 5),
        (MissingDependency("x", cure="c"), 6),
        (MemoryError(), 1),
        (PermissionError(13, "Permission denied", "here.txt"), 1),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(32, "Broken pipe"), 141),
    ],
)
def test_what_goes_wrong_in_a_verb_has_its_exit_code(error, code, monkeypatch):
    def fail(_argument):
        raise error

    monkeypatch.setattr("dragoman.recipes.named.read_recipe", fail)
    result = dragoman("recipe", "show", "base")
    assert result.code == code
    assert result.out == b""
    if code == 141:
        assert result.err == ""
    else:
        assert result.err.startswith("dragoman: ")


def test_a_bug_of_ours_keeps_its_traceback(monkeypatch):
    def fail(_argument):
        raise ZeroDivisionError

    monkeypatch.setattr("dragoman.recipes.named.read_recipe", fail)
    with pytest.raises(AssertionError, match="a traceback"):
        dragoman("recipe", "show", "base")


def test_an_error_says_what_where_and_the_cure(monkeypatch):
    def fail(_argument):
        raise DataError("it is \x1b[31mred\u2028", where="file.txt, line 3", cure="paint it")

    monkeypatch.setattr("dragoman.recipes.named.read_recipe", fail)
    assert refused(3, "recipe", "show", "base") == (
        "dragoman: it is \\x1b[31mred\\u2028\n  where: file.txt, line 3\n  cure:  paint it\n"
    )


def test_an_error_of_the_system_names_its_file_and_a_cure():
    cure = "\n  cure:  check the path and its permissions"
    assert main._in_words(FileNotFoundError(2, "No such file", "a/b")) == f"No such file\n  where: a/b{cure}"
    assert main._in_words(OSError("odd")) == f"odd{cure}"
    assert main._in_words(OSError()) == f"OSError{cure}"
    assert "\n  cure:  free some space" in main._in_words(OSError(errno.ENOSPC, "No space left on device"))


def test_a_full_disk_is_told_in_words():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        result = finish(start("recipe", "show", "base", stdout=full))
    assert result.code == 1
    assert result.err == "dragoman: No space left on device\n  cure:  free some space, or write elsewhere\n"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_that_cannot_be_written_is_told_in_words(option):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        result = finish(start(option, stdout=full))
    assert result.code == 1
    assert result.err == "dragoman: No space left on device\n  cure:  free some space, or write elsewhere\n"


def test_a_closed_standard_output_is_told_and_nothing_is_written_elsewhere(tmp_path):
    """The next file that is opened would get its number."""
    text = tmp_path / "t.txt"
    text.write_text("a line\n", encoding="utf-8")
    shell = ["sh", "-c", 'exec "$0" -m dragoman evaluate "$1" "$1" >&-', sys.executable, str(text)]
    result = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (result.returncode, "Traceback" in result.stderr) == (1, False)
    assert "standard output is closed" in result.stderr
    assert text.read_text(encoding="utf-8") == "a line\n"


def test_a_reader_that_has_gone_is_no_news():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as stream:
        result = finish(start("recipe", "show", "base", stdout=stream))
    assert (result.code, result.err) == (141, "")


def test_when_the_reader_of_messages_has_gone_the_work_is_done_all_the_same(lab, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    train = ("train", lab.prepared, "--out", tmp_path / "run", "--recipe", lab.recipe, "--max-steps", 4)
    with os.fdopen(writing, "wb") as stream:
        result = finish(start(*train, "--json", stderr=stream))
    assert result.code == 0
    assert json.loads(result.text)["reason"] == "steps"
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()


def test_output_is_utf8_in_any_locale(tmp_path):
    recipe = tmp_path / "r.toml"
    recipe.write_text('description = "für später — 翻訳"\n', encoding="utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    result = finish(start("recipe", "show", recipe, environment=locale))
    assert (result.code, 'description = "für später — 翻訳"' in result.text) == (0, True)


def test_a_closed_standard_input_is_an_empty_one(tmp_path):
    reference = tmp_path / "r.txt"
    reference.write_text("a line\n", encoding="utf-8")
    shell = ["sh", "-c", 'exec "$0" -m dragoman evaluate - "$1" <&-', sys.executable, str(reference)]
    result = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert result.returncode == 3
    assert "- has 0 units and" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_a_signal_ends_a_verb_in_order(name, code, tmp_path):
    """`evaluate` waits for standard input; its end leaves nothing behind and no traceback."""
    with start("evaluate", "-", os.path.abspath(__file__), cwd=tmp_path) as process:
        process.stdin.write(b"a line\n")
        process.stdin.flush()
        _wait_until_it_reads(process)
        result = finish_after(process, getattr(signal, name))
    assert result.code == code
    assert "Traceback" not in result.err
    assert os.listdir(tmp_path) == []


def _wait_until_it_reads(process):
    """Until the line has been taken from the pipe: the verb has begun."""
    import fcntl
    import struct
    import termios
    import time

    end = time.monotonic() + 60
    while time.monotonic() < end:
        waiting = fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, b"\0" * 4)
        if struct.unpack("i", waiting)[0] == 0:
            return
        time.sleep(0.01)
    raise AssertionError("the process never read its input")


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_a_signal_while_libraries_are_imported_ends_at_once(name, code, tmp_path):
    """Whatever the library makes of an exception in the middle of its import, nobody sees it."""
    library = """
        import signal
        try:
            signal.raise_signal(signal.NAME)
        except BaseException as error:
            raise ImportError("a part of the library is missing") from error
    """
    (tmp_path / "library.py").write_text(textwrap.dedent(library).replace("NAME", name), encoding="utf-8")
    result = in_a_process_with_our_signals(f"sys.path.insert(0, {str(tmp_path)!r}); import library")
    assert result.returncode == code
    assert result.stderr == ("dragoman: stopped\n" if name == "SIGINT" else "")


@pytest.mark.parametrize(
    ("name", "raised"), [("SIGTERM", "SystemExit(143)"), ("SIGINT", "KeyboardInterrupt()")]
)
def test_a_signal_at_work_runs_what_puts_things_in_order(name, raised):
    work = (
        f"try:\n    signal.raise_signal(signal.{name})\n"
        "except BaseException as error:\n    print(repr(error), file=sys.stderr)"
    )
    assert in_a_process_with_our_signals(work).stderr == f"{raised}\n"


def in_a_process_with_our_signals(code):
    begin = "import signal\nfrom dragoman import __main__ as begin\n"
    signals = "for name in ('SIGINT', 'SIGTERM', 'SIGHUP'):\n    begin._leave_in_order(name)\n"
    command = [sys.executable, "-c", f"{PATH}\n{begin}{signals}{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, begin.SPINS),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "active"}, None),
    ],
)
def test_waiting_threads_do_not_hold_the_processor_unless_told_to(monkeypatch, environment, wanted):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    begin._wait_with_patience()
    assert os.environ.get("GOMP_SPINCOUNT") == wanted
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)


def test_a_hangup_that_was_ignored_stays_ignored(monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda _number: signal.SIG_IGN)
    monkeypatch.setattr(signal, "signal", lambda *_: pytest.fail("a handler was set"))
    begin._leave_in_order("SIGHUP")
    begin._leave_in_order("SIGNOWHERE")
