"""The pages that repeat what the code says are up to date, and the documentation is whole."""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from dragoman.variants.departures import KINDS
from dragoman.variants.search_rules import SEARCH_KINDS
from dragoman.variants.training_rules import TRAINING_KINDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONSTRAINTS = ROOT / "constraints.txt"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not beside the tests")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """docs/generate_reference.py as a module; it finds docs/paper_map.py beside it, as it does when it is run."""
    sys.path.insert(0, str(DOCS))
    spec = importlib.util.spec_from_file_location("generate_reference", DOCS / "generate_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pinned(package: str) -> str | None:
    """The version that make installs."""
    found = re.search(rf"^{package}==(\S+)$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else None


@pytest.mark.parametrize(
    "name", ["reference/recipes.md", "reference/left-open.md", "reference/cli.md", "paper-map.md"]
)
def test_a_generated_page_is_what_the_code_says(generator, name):
    if name == "reference/cli.md" and version("typer") != pinned("typer"):
        pytest.skip(
            f"help texts are laid out by typer {version('typer')}, not by the pinned {pinned('typer')}"
        )
    page = (DOCS / name).read_text(encoding="utf-8")
    assert page == generator.pages()[name], "run: .venv/bin/python docs/generate_reference.py"


def test_every_verb_is_on_the_page_of_the_command_line(generator):
    names = [" ".join(words) for words in generator.verbs()]
    assert {"prepare", "train", "translate", "recipe list", "recipe show"} <= set(names)
    page = (DOCS / "reference/cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^## dragoman (.+)$", page, re.MULTILINE) == names


def test_every_field_of_a_recipe_is_on_its_page(generator):
    page = (DOCS / "reference/recipes.md").read_text(encoding="utf-8").partition("## Every field")[2]
    for section, fields in generator.Recipe().model_dump(exclude={"name", "description"}).items():
        described = page.partition(f"### [{section}]")[2].partition("###")[0]
        assert set(re.findall(r"`(\w+) = ", described)) == set(fields), section


def test_the_silent_lines_are_read_whole(generator, tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        '"""What it is.\n\nPaper: 3.1\nSilent: this (that), and\n    more of it.\n\nNot this.\n"""\n',
        encoding="utf-8",
    )
    assert generator.silent_of(module) == ("3.1", "this (that), and more of it.")
    module.write_text('"""What it is.\n\nPaper: 3.1\n"""\n', encoding="utf-8")
    assert generator.silent_of(module) is None


def test_every_silent_line_has_a_place_on_the_page(generator):
    source = Path(generator.dragoman.__file__).parent
    page = (DOCS / "reference/left-open.md").read_text(encoding="utf-8")
    silent = [path for path in source.rglob("*.py") if generator.silent_of(path) is not None]
    assert silent
    for path in silent:
        assert f"`{path.relative_to(source).as_posix()}` (" in page, "its folder is not in FLOW"


def pages() -> list[Path]:
    """Every page a person wrote or the script made."""
    found = [path for path in DOCS.rglob("*.md") if "_build" not in path.parts]
    return sorted([*found, *ROOT.glob("*.md")])


@pytest.mark.parametrize("page", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_page_is_in_the_table_of_contents():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = {
        line.strip()
        for tree in re.findall(r"```\{toctree\}(.*?)```", text, re.DOTALL)
        for line in tree.splitlines()
        if line.strip() and not line.startswith(":")
    }
    there = {
        path.relative_to(DOCS).with_suffix("").as_posix() for path in pages() if path.is_relative_to(DOCS)
    }
    assert listed == there - {"index"}


@pytest.mark.parametrize("page", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_name_no_place_of_one_machine(page):
    assert not re.findall(r"(?:^|[\s`(])/(?:home|root|work|tmp|Users)\b", page.read_text(encoding="utf-8"))


def test_each_guarantee_names_tests_that_are_there_and_no_test_of_one_is_left_out():
    page = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+test_\w+\.py)`", page))
    tests = ROOT / "tests"
    assert {name for name in named if not (tests / name).is_file()} == set()
    there = {f"properties/{path.name}" for path in (tests / "properties").glob("test_i*.py")}
    assert there - named == set()
    for row in re.findall(r"^\| (I\d\d) \|.*$", page, re.MULTILINE):
        assert page.count(f"| {row} |") == 1


def test_every_departure_is_on_its_page():
    page = (DOCS / "guides/departures.md").read_text(encoding="utf-8")
    table = {
        name
        for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    sections = {name for title in re.findall(r"^### (.+)$", page, re.MULTILINE) for name in title.split(", ")}
    kinds = {**KINDS, **TRAINING_KINDS, **SEARCH_KINDS}
    assert table == sections == set(kinds)
    for kind in kinds.values():
        assert all(f"`{field}`" in page for field in kind.model_fields if field != "name"), kind
