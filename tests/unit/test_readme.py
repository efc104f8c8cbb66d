"""What README and documentation tell people to type is real: verbs, options, files, Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dragoman.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    if "_build" not in path.parts and path.name != "CHANGELOG.md"
]
COMMAND: Any = get_command(app)
END_OF_COMMAND = {"|", "||", "&&", ";", "&", ">", ">>", "<", "(", ")"}

pytestmark = pytest.mark.skipif(
    not (ROOT / "README.md").is_file(), reason="the README is not beside the tests"
)


def blocks(text: str, *languages: str) -> list[str]:
    """The fenced blocks of a page in one of these languages."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [body for language, body in found if language in languages]


def commands(shell: str) -> Iterator[list[str]]:
    """The arguments of every call of dragoman in some lines of shell."""
    for line in shell.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        call: list[str] | None = None
        for word in lexer:
            if word in END_OF_COMMAND:
                if call is not None:
                    yield call
                call = None
            elif call is not None:
                call.append(word)
            elif word == "dragoman" or word.endswith("/bin/dragoman"):
                call = []
        if call is not None:
            yield call


def fault(arguments: list[str]) -> str | None:
    """What the command line has against these arguments; None if nothing. Nothing is done."""
    command, words = COMMAND, list(arguments)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands"):
        return None if words in (["--help"], ["--version"]) else f"no such verb: {arguments}"
    try:
        command.make_context("dragoman", words)
    except Exception as error:  # typer's own kinds have changed their place more than once
        return None if type(error).__name__ == "Exit" else f"{arguments}: {error}"
    return None


def shell_calls() -> list[tuple[str, list[str]]]:
    """Every call of dragoman in the shell blocks of all pages."""
    return [
        (path.relative_to(ROOT).as_posix(), call)
        for path in PAGES
        for block in blocks(path.read_text(encoding="utf-8"), "sh", "bash", "console")
        for call in commands(block)
    ]


@pytest.mark.parametrize(("page", "call"), shell_calls())
def test_what_people_are_told_to_type_is_a_command(page, call):
    assert fault(call) is None


def test_calls_are_found_and_faults_too():
    assert len(shell_calls()) >= 30
    assert list(commands("cat x | dragoman translate run --json > y; dragoman demo # say\n")) == [
        ["translate", "run", "--json"],
        ["demo"],
    ]
    assert fault(["train", "prepared", "--out", "run"]) is None
    assert fault(["--version"]) is None
    for wrong in (
        ["fly"],
        ["train", "prepared"],
        ["train", "prepared", "--out", "run", "--wings"],
        ["train", "prepared", "--out", "run", "--precision", "fp8"],
        ["translate", "run", "--n-best", "0"],
    ):
        assert fault(wrong) is not None


def options_of(words: list[str]) -> set[str]:
    """All options of a verb, or of all verbs where no verb is named."""
    command, words = COMMAND, list(words)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    inner = getattr(command, "commands", {})
    own = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    return own.union(*(options_of([name]) for name in inner)) if inner and command is COMMAND else own


def options_of_script(script: Path) -> set[str]:
    """All options that a script beside the package declares, itself or by the modules it shares with others."""
    text = script.read_text(encoding="utf-8")
    shared = [path for path in script.parent.glob("*.py") if f"from {path.stem} import" in text]
    every = [text, *(path.read_text(encoding="utf-8") for path in shared)]
    return {option for source in every for option in re.findall(r'"(--[a-z][a-z-]*)"', source)}


def test_options_of_scripts_are_found():
    scripts = ROOT / "benchmarks"
    assert {"--seeds", "--short", "--warmups"} <= options_of_script(scripts / "norm_and_warmup.py")
    assert "--warmups" not in options_of_script(scripts / "positions_beyond.py")


def test_options_named_in_running_text_exist():
    every = set().union(
        *(options_of(name.split()) for name in ["", *COMMAND.commands, "recipe list", "recipe show"])
    )
    foreign = {"--index-url", "--version"}  # of pip
    for path in PAGES:
        text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for span in re.findall(r"`([^`]+)`", text):
            words = span.split()
            named = {re.split(r"[=\W]*$", word)[0] for word in words if re.match(r"--\w", word)}
            verb = words[1:] if words[0] == "dragoman" else []
            described = options_of(verb) if verb else every
            if words[:1] == ["python"]:
                described = options_of_script(ROOT / words[1])
            assert named <= described | foreign, f"{path.name}: {span}"
            if verb and re.fullmatch(r"[a-z]+", verb[0]):
                assert verb[0] in COMMAND.commands, f"{path.name}: {span}"


def tree_of(readme: str) -> list[str]:
    """The paths in the README's tree, by its indentation."""
    [tree] = [block for block in blocks(readme, "text") if "src/dragoman/" in block]
    paths, folders = [], list[tuple[int, str]]()
    for line in tree.splitlines():
        indent, name = len(line) - len(line.lstrip()), line.split()[0]
        while folders and folders[-1][0] >= indent:
            folders.pop()
        path = (folders[-1][1] if folders else "") + name
        paths.append(path)
        if name.endswith("/"):
            folders.append((indent, path))
    return paths


def test_the_tree_in_the_readme_is_the_tree():
    paths = tree_of((ROOT / "README.md").read_text(encoding="utf-8"))
    assert "src/dragoman/text/grammar/" in paths
    for path in paths:
        there = ROOT / path
        assert there.is_dir() if path.endswith("/") else there.is_file(), path


def test_the_tree_in_the_readme_is_whole():
    paths = set(tree_of((ROOT / "README.md").read_text(encoding="utf-8")))
    package = ROOT / "src/dragoman"
    modules = {f"src/dragoman/{path.name}" for path in package.glob("*.py")}
    folders = {f"src/dragoman/{path.parent.name}/" for path in package.glob("*/__init__.py")}
    assert modules | folders <= paths
    assert {f"docs/{path.name}/" for path in (ROOT / "docs").iterdir() if any(path.glob("*.md"))} <= paths


def python_blocks() -> list[tuple[str, int, str]]:
    """Every block of Python in all pages."""
    return [
        (path.relative_to(ROOT).as_posix(), number, block)
        for path in PAGES
        for number, block in enumerate(blocks(path.read_text(encoding="utf-8"), "python"))
    ]


@pytest.mark.parametrize(("page", "number", "block"), python_blocks(), ids=str)
def test_python_compiles(page, number, block):
    assert compile(block, f"{page}, block {number}", "exec") is not None


def test_python_names_what_is_public():
    import dragoman

    named = {
        name for _, _, block in python_blocks() for name in re.findall(r"\bdragoman\.([A-Za-z_]+)\(", block)
    }
    assert {"prepare", "train", "evaluate", "Transformer"} <= named
    assert named <= set(dragoman.__all__)


def test_the_results_have_a_place_to_be_filled_in():
    for page in ("README.md", "docs/results.md"):
        assert "<!-- results -->" in (ROOT / page).read_text(encoding="utf-8")


def test_make_targets_named_to_people_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for line in "\n".join([*blocks(text, "sh"), *re.findall(r"`(make [^`]+)`", text)]).splitlines():
            if found := re.match(r"make ([a-z-]+)", line):
                assert found[1] in targets, f"{path.name}: {line}"
