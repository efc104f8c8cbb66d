"""The map of the paper has no hole, and what makes it finds every hole there could be."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dragoman import paper

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not beside the tests")


@pytest.fixture(scope="module")
def paper_map() -> ModuleType:
    """docs/paper_map.py as a module."""
    spec = importlib.util.spec_from_file_location("paper_map", DOCS / "paper_map.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_part_of_the_paper_has_a_module_and_a_test_or_is_owed(paper_map):
    assert paper_map.faults(paper_map.entries()) == []


def test_the_page_is_what_the_headers_say(paper_map):
    page = (DOCS / "paper-map.md").read_text(encoding="utf-8")
    assert page == paper_map.page(paper_map.entries()), "run: .venv/bin/python docs/paper_map.py"


def test_the_map_has_every_part_of_the_paper_once(paper_map):
    parts = [entry.part for entry in paper_map.entries()]
    assert parts == [*paper.SECTIONS, *paper.EQUATIONS, *paper.TABLES, *paper.FIGURES]
    page = (DOCS / "paper-map.md").read_text(encoding="utf-8")
    for part in parts:
        assert page.count(f"\n| {part} | ") == 1, part


def test_what_is_owed_is_part_of_the_paper_and_comes_last_on_the_page(paper_map):
    parts = {*paper.SECTIONS, *paper.TABLES, *paper.FIGURES}
    assert set(paper_map.OWED) <= parts
    owed = (DOCS / "paper-map.md").read_text(encoding="utf-8").partition("## Owed")[2]
    assert all(f"\n| {part} | " in owed for part in paper_map.OWED)


@pytest.mark.parametrize(
    ("header", "parts"),
    [
        ("Paper: 3", {"3"}),
        ("Paper: 3.2.1 (Eq. 1), 3.2.2, Figure 2", {"3.2.1", "Eq. 1", "3.2.2", "Figure 2"}),
        ("Paper: 6.1 (Table 2)", {"6.1", "Table 2"}),
        ("Paper: 3, Table 2 (training cost), Table 3 (params)", {"3", "Table 2", "Table 3"}),
        ('Paper: 6.1 (beam 4, alpha 0.6, "terminate early when possible")', {"6.1"}),
        ("Paper: 6.1 (alpha; the formula is Eq. 14 of Wu et al. 2016, arXiv:1609.08144)", {"6.1"}),
        ("Paper: none (infrastructure)", set()),
        ("Paper: Vaswani et al. 2017, arXiv:1706.03762", set()),
    ],
)
def test_the_parts_a_header_names(paper_map, header, parts):
    assert paper_map.parts_named(header) == parts


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    """A source and a test folder, each with a file that names everything."""
    every = ", ".join(
        [*paper.SECTIONS, "3.2.1 (Eq. 1)", "3.3 (Eq. 2)", "5.3 (Eq. 3)", *paper.TABLES, *paper.FIGURES]
    )
    for name in ("source", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "all.py").write_text(f'"""All.\n\nPaper: {every}\n"""\n', encoding="utf-8")
    return tmp_path / "source", tmp_path / "tests"


def test_a_whole_map_has_no_faults(paper_map, folders):
    found = paper_map.entries(*folders)
    assert paper_map.faults(found, folders[0]) == []
    assert all((entry.modules, entry.tests) == (["all.py"], ["all.py"]) for entry in found)


@pytest.mark.parametrize("part", ["3.4", "Eq. 2", "Figure 2"])
@pytest.mark.parametrize("kind", ["source", "tests"])
def test_a_hole_is_found(paper_map, folders, part, kind):
    path = folders[0].parent / kind / "all.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace("(Eq. 2)", "" if part == "Eq. 2" else "(Eq. 2)").replace(f" {part},", ""),
        encoding="utf-8",
    )
    if part == "Figure 2":
        path.write_text(text.replace("Figure 2, ", ""), encoding="utf-8")
    [fault] = paper_map.faults(paper_map.entries(*folders), folders[0])
    assert fault.startswith(part)
    assert fault.endswith("no module" if kind == "source" else "no test")


def test_what_is_owed_may_have_holes_until_it_is_built(paper_map, folders):
    for folder in folders:
        path = folder / "all.py"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("Table 1, ", "").replace(" 6.3,", ""), encoding="utf-8")
    assert paper_map.faults(paper_map.entries(*folders), folders[0]) == []
    (folders[0] / "reproduce").mkdir()
    (folders[0] / "reproduce/table1.py").write_text('"""T.\n\nPaper: Table 1\n"""\n', encoding="utf-8")
    found = paper_map.faults(paper_map.entries(*folders), folders[0])
    assert {fault.split()[0] for fault in found} == {"4", "Table"}
    assert all("take it out of OWED" in fault for fault in found)


def test_the_command_fails_where_the_page_is_stale(paper_map, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paper_map, "PAGE", tmp_path / "paper-map.md")
    assert paper_map.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().err
    assert paper_map.main([]) == 0
    assert paper_map.main(["--check"]) == 0
    (tmp_path / "paper-map.md").write_text("other", encoding="utf-8")
    assert paper_map.main(["--check"]) == 1
    monkeypatch.setattr(paper_map, "faults", lambda _found: ["3.4 has no test"])
    assert paper_map.main([]) == 1
    assert "3.4 has no test" in capsys.readouterr().err
