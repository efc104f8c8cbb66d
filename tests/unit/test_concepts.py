"""The pages that compute something print what they say: every block of `>>>` in docs/ is run, page by page."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```\{doctest\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not beside the tests")


def examples_of(text: str) -> str:
    """A page's blocks on their own lines, all other lines empty: a failure names the page's line."""
    kept = [""] * (text.count("\n") + 1)
    for found in BLOCK.finditer(text):
        first = text.count("\n", 0, found.start(1))
        kept[first : first + found[1].count("\n")] = found[1].splitlines()
    return "\n".join(kept)


def run(text: str, name: str) -> tuple[doctest.TestResults, str]:
    """Runs a page's blocks in order, in one namespace; what failed, as doctest tells it."""
    told: list[str] = []
    test = doctest.DocTestParser().get_doctest(examples_of(text), {"__name__": name}, name, name, 0)
    return doctest.DocTestRunner(verbose=False).run(test, out=told.append), "".join(told)


def pages() -> list[Path]:
    """The pages with blocks to run."""
    found = [path for path in DOCS.rglob("*.md") if "_build" not in path.parts]
    return sorted(path for path in found if BLOCK.search(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.stem)
def test_a_page_prints_what_it_says(page):
    results, told = run(page.read_text(encoding="utf-8"), page.name)
    assert results.attempted > 0
    assert results.failed == 0, told


def test_a_page_that_says_something_else_fails_with_its_line():
    page = "# One\n\n```{doctest}\n>>> 1 + 1\n2\n```\n\nand\n\n```{doctest}\n>>> 2 + 2\n5\n```\n"
    results, told = run(page, "page.md")
    assert (results.attempted, results.failed) == (2, 1)
    assert "line 11" in told


def test_blocks_of_a_page_share_their_names_and_other_fences_are_left_alone():
    page = "```{doctest}\n>>> a = 1\n```\n\n```python\n>>> raise SystemExit\n```\n\n```{doctest}\n>>> a\n1\n```\n"
    results, _ = run(page, "page.md")
    assert (results.attempted, results.failed) == (2, 0)


def test_every_block_with_a_prompt_is_one_that_is_run():
    for path in sorted(DOCS.rglob("*.md")):
        if "_build" not in path.parts:
            text = path.read_text(encoding="utf-8")
            assert ">>> " not in BLOCK.sub("", text), path.name
