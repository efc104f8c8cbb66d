"""The Python that pages show runs, all of it, and there is no block in a page that nothing runs or reads.

A page's `{doctest}` blocks are run by test_concepts.py, its shell is parsed by test_readme.py.
"""

from __future__ import annotations

import importlib.util
import re
import traceback
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KNOWN = {"sh", "text", "toml", "bibtex", "python", "{doctest}", "{toctree}", "{eval-rst}"}
FENCE = re.compile(r"^( *)(```+|~~~+)(.*)$", re.MULTILINE)

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not beside the tests")


def _module() -> ModuleType:
    """docs/run_pages.py, which is no package's."""
    spec = importlib.util.spec_from_file_location("run_pages", DOCS / "run_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run_pages = _module() if DOCS.is_dir() else None


def strange_blocks(text: str) -> list[str]:
    """Blocks that nothing would run or read: of no known kind, or not at the start of a line."""
    faults, is_open = [], False
    for indent, fence, kind in FENCE.findall(text):
        if is_open:
            is_open = bool(kind)
            continue
        is_open = True
        if indent or fence != "```" or kind not in KNOWN:
            faults.append(f"{indent}{fence}{kind}")
    return faults


def all_pages() -> list[Path]:
    found = [path for path in DOCS.rglob("*.md") if "_build" not in path.parts]
    return sorted([*found, *ROOT.glob("*.md")])


@pytest.mark.parametrize("page", run_pages.pages() if run_pages else [])
def test_the_python_of_a_page_runs(page, tmp_path):
    printed = run_pages.run(
        page, (ROOT / page).read_text(encoding="utf-8"), tmp_path
    )  # a block that fails raises
    assert "Traceback" not in printed


def test_pages_with_python_are_found_wherever_they_are():
    assert {"README.md", "docs/guides/python.md"} <= set(run_pages.pages())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in all_pages()
        if "```python\n" in path.read_text(encoding="utf-8")
    }
    assert set(run_pages.pages()) == wanted


@pytest.mark.parametrize("page", all_pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_of_a_page_is_of_a_kind_that_is_run_or_read(page):
    text = page.read_text(encoding="utf-8")
    assert strange_blocks(text) == []
    if page.parent == ROOT:
        assert ">>> " not in text, "doctests are run in docs/ alone"


def test_other_kinds_of_blocks_are_refused():
    fine = "```sh\nls\n```\n\n```python\nx = 1\n```\n"
    assert strange_blocks(fine) == []
    for block in (
        "```py\nx = 1\n```\n",
        "```\nx = 1\n```\n",
        "```{code-block} python\nx = 1\n```\n",
        "``` python\nx = 1\n```\n",
        "~~~python\nx = 1\n~~~\n",
        "* so:\n\n  ```python\n  x = 1\n  ```\n",
    ):
        assert len(strange_blocks(fine + block)) == 1, block


def test_a_block_that_fails_is_told_with_its_line(tmp_path):
    page = "# Page\n\n```python\nx = 1\n```\n\ntext\n\n```python\nprint(x)\nraise KeyError(x)\n```\n"
    with pytest.raises(KeyError) as caught:
        run_pages.run("page.md", page, tmp_path)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == ("page.md", 11)


def test_what_blocks_print_is_given_back_and_files_are_there(tmp_path):
    page = "```python\nfrom pathlib import Path\nprint(len(Path('test.en').read_text().splitlines()))\n```\n"
    assert run_pages.run("page.md", page, tmp_path) == "10\n"


def test_what_is_made_shorter_must_be_on_the_page(tmp_path):
    with pytest.raises(ValueError, match=re.escape("README.md does not say 'training.max_minutes=60'")):
        run_pages.run("README.md", "```python\npass\n```\n", tmp_path)
