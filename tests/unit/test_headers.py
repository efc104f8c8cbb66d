"""Every module says where it comes from, in a form that the map of the paper can be made of.

First line: what it is. Then one line `Paper: 3.2.1 (Eq. 1), Figure 2`, or `Paper: none (reason)`, or `Later: author
year, where`, or `Earlier:` alike. Where the paper leaves something open: `Silent: what, and what we chose`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import dragoman

ROOT = Path(dragoman.__file__).parent
MODULES = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.py")) if path.stat().st_size}

REMARK = r"(?: \([^()]+\))?"
PLACE = rf"(?:[1-7](?:\.[1-9])*|Abstract|(?:Table|Figure) [1-5]){REMARK}"
WHOLE = r"Vaswani et al\. 2017, arXiv:1706\.03762"  # the package itself
PAPER = re.compile(rf"Paper: (?:{WHOLE}|none \([^()]+\)|{PLACE}(?:, {PLACE})*)")
LATER = re.compile(r"(?:Later|Earlier): .*\b(?:19|20)\d\d\b.*")
SECTIONS = {
    "1", "2", "3", "3.1", "3.2", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "4",
    "5", "5.1", "5.2", "5.3", "5.4", "6", "6.1", "6.2", "6.3", "7",
}  # fmt: skip


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def sources(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("Paper:", "Later:", "Earlier:"))]


def fault(text: str) -> str | None:
    """What is wrong with a docstring; None if nothing is."""
    lines = text.splitlines()
    if not lines or not lines[0].strip() or lines[0].startswith(("Paper:", "Later:", "Earlier:", "Silent:")):
        return "the first line does not say what the module is"
    if not lines[0].rstrip().endswith((".", "?", "!")) and len(lines) > 1 and lines[1].strip() == "":
        return "the first line is no sentence"
    found = sources(text)
    if len(found) != 1:
        return f"{len(found)} lines begin with Paper:, Later: or Earlier:, not one"
    [line] = found
    if not (PAPER if line.startswith("Paper:") else LATER).fullmatch(line):
        return f"not to be parsed: {line}"
    if line.startswith("Paper:"):
        named = re.findall(
            r"(?<![\w.])[1-7](?:\.[1-9])*(?![\w.])", re.sub(r"\([^()]*\)|(?:Table|Figure) \d", "", line)
        )
        if unknown := sorted(set(named) - SECTIONS):
            return f"the paper has no section {unknown}"
    silent = [text for text in lines if text.startswith("Silent:")]
    if len(silent) > 1 or any(not text.removeprefix("Silent:").strip() for text in silent):
        return "Silent: comes once and says something"
    return None


TESTS = {
    str(path.relative_to(Path(__file__).parents[1])): path
    for path in sorted(Path(__file__).parents[1].rglob("test_*.py"))
}


@pytest.mark.parametrize("name", TESTS)
def test_a_test_module_that_proves_a_part_of_the_paper_names_it_in_the_same_form(name):
    text = docstring(TESTS[name])
    assert not sources(text) or fault(text) is None
    assert not any(line.startswith("Paper: none") for line in sources(text)), "leave the line out"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_says_what_it_is_and_where_it_comes_from(name):
    assert fault(docstring(MODULES[name])) is None


@pytest.mark.parametrize(
    "line",
    [
        "Paper: 3",
        "Paper: 3.2.1 (Eq. 1), 3.2.2, 3.2.3, Figure 2",
        "Paper: 3.1, Table 3 (params)",
        "Paper: none (infrastructure)",
        "Paper: Vaswani et al. 2017, arXiv:1706.03762",
        'Paper: 3 ("auto-regressive, consuming symbols")',
        "Later: Xiong et al. 2020, arXiv:2002.04745",
        "Earlier: Bahdanau et al. 2015, arXiv:1409.0473",
    ],
)
def test_forms_that_are_right(line):
    assert fault(f"What it is.\n\n{line}\nSilent: this, and that we chose.") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What it is.",
        "Paper: 3",
        "What it is.\n\nPaper:",
        "What it is.\n\nPaper: none",
        "What it is.\n\nPaper: Bahdanau et al. 2015, arXiv:1409.0473",
        "What it is.\n\nPaper: section 3",
        "What it is.\n\nPaper: 3.2.4",
        "What it is.\n\nPaper: 8.1",
        "What it is.\n\nPaper: Table 7",
        "What it is.\n\nPaper: 3.1 3.2",
        "What it is.\n\nPaper: 3.1\nPaper: 3.2",
        "What it is.\n\nPaper: 3.1\nLater: Xiong et al. 2020",
        "What it is.\n\nLater: someone",
        "What it is.\n\nPaper: 3\nSilent:",
        "What it is.\n\n    Paper: 3",
    ],
)
def test_forms_that_are_wrong(text):
    assert fault(text) is not None
