"""Runs the Python of the pages: the blocks of each page in order, in one namespace, in a folder with a small corpus.

    .venv/bin/python docs/run_pages.py

It says which pages ran, and ends with the error of the first that did not. Blocks of `{doctest}`, which also print what
they say, are run by Sphinx and by tests/unit/test_concepts.py.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from pathlib import Path

from dragoman.text.grammar.generate import write_corpus

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# What is shorter here than on the page: minutes become moments. Each must be on its page.
SHORTER = {
    "docs/guides/language-models.md": {"training.max_minutes=30": "training.max_steps=2"},
    "README.md": {"training.max_minutes=60": "training.max_steps=2"},
    "docs/guides/python.md": {
        "max_steps = 100": "max_steps = 4",
        "checkpoint_steps = 25": "checkpoint_steps = 2",
    },
}


def pages() -> list[str]:
    """The pages with Python to run, by their paths in the project."""
    found = [
        *ROOT.glob("*.md"),
        *(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts),
    ]
    return sorted(
        p.relative_to(ROOT).as_posix() for p in found if BLOCK.search(p.read_text(encoding="utf-8"))
    )


def run(page: str, text: str, folder: Path) -> str:
    """Runs a page's blocks in `folder`, which gets the files that pages name; what they print.

    A block that fails raises what it raises, with the page and its line in the traceback.
    """
    for long, short in SHORTER.get(page, {}).items():
        if long not in text:
            raise ValueError(f"{page} does not say {long!r} any more: change SHORTER in docs/run_pages.py")
        text = text.replace(long, short)
    write_corpus(folder, train=600, dev=0, test=10)
    names: dict[str, object] = {"__name__": page}
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        for block in BLOCK.finditer(text):
            before = "\n" * text.count("\n", 0, block.start(1))
            exec(compile(before + block[1], page, "exec"), names)
    return printed.getvalue()


def main() -> None:
    for page in pages():
        with tempfile.TemporaryDirectory() as folder:
            run(page, (ROOT / page).read_text(encoding="utf-8"), Path(folder))
        print(f"ran {page}")


if __name__ == "__main__":
    main()
