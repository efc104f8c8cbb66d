"""Writes the map of the paper: each section, equation, table and figure, its modules, and the tests that prove it.

    .venv/bin/python docs/paper_map.py          # writes docs/paper-map.md; fails where the map has a hole
    .venv/bin/python docs/paper_map.py --check  # writes nothing; fails also where the page is not what it would write

The map is read from the `Paper:` lines of the docstrings: of a module, what it implements; of a test module, what it
proves.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from dragoman import paper

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/paper-map.md"
SOURCE, TESTS = ROOT / "src/dragoman", ROOT / "tests"

# What is not built yet, by the module that will be it: once that is there, the check wants it taken out of here.
OWED = {
    "4": "reproduce/table1.py",
    "6.3": "reproduce/table4.py",
    "Table 1": "reproduce/table1.py",
    "Table 2": "reproduce/table2.py",
    "Table 3": "reproduce/table3.py",
    "Table 4": "reproduce/table4.py",
    "Figure 3": "reproduce/figures.py",
    "Figure 4": "reproduce/figures.py",
    "Figure 5": "reproduce/figures.py",
}
MADE = "<!-- Made by docs/paper_map.py from the headers of modules and tests: change those, then run it again. -->\n"
_REMARK = re.compile(r"\([^()]*\)")
_EQUATION = re.compile(r"\bEq\. [1-3]\b")


@dataclass
class Entry:
    """One part of the paper, and what there is of it here, by paths below `src/dragoman` and `tests`."""

    part: str
    title: str
    modules: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)

    @property
    def lacks(self) -> list[str]:
        """What there is none of: "module", "test"."""
        return [what for what, found in (("module", self.modules), ("test", self.tests)) if not found]


def parts_named(header: str) -> set[str]:
    """The parts of the paper a header line names: `3.2.1 (Eq. 1), Figure 2` names three."""
    line = header.removeprefix("Paper:")
    if line.strip().startswith(("none", "Vaswani")):
        return set()
    equations = {
        e for remark in _REMARK.findall(line) for e in _EQUATION.findall(remark) if "Wu" not in remark
    }
    remarks = [remark for remark in _REMARK.findall(line) if re.fullmatch(r"\(Table [1-5]\)", remark)]
    places = _REMARK.sub("", line).split(",") + [remark.strip("()") for remark in remarks]
    return {place.strip() for place in places} | equations


def header_of(path: Path) -> str | None:
    """The `Paper:` line of a module's docstring; None if there is none."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return next((line for line in text.splitlines() if line.startswith("Paper:")), None)


def entries(source: Path = SOURCE, tests: Path = TESTS) -> list[Entry]:
    """The map: every part of the paper in the paper's order."""
    equations = {equation: f"in {section}" for equation, section in paper.EQUATIONS.items()}
    titles = {**paper.SECTIONS, **equations, **paper.TABLES, **paper.FIGURES}
    found = {part: Entry(part, title) for part, title in titles.items()}
    for folder in (source, tests):
        for path in sorted(folder.rglob("*.py")):
            header = header_of(path)
            for part in sorted(parts_named(header) & set(found)) if header else ():
                entry = found[part]
                (entry.modules if folder == source else entry.tests).append(
                    path.relative_to(folder).as_posix()
                )
    return list(found.values())


def faults(found: list[Entry], source: Path = SOURCE) -> list[str]:
    """What the map lacks, and what is owed no longer."""
    built = [
        f"{part} is listed as owed, but {module} is there: take it out of OWED"
        for part, module in OWED.items()
        if (source / module).exists()
    ]
    holes = [
        f"{entry.part} ({entry.title}) has no {what}"
        for entry in found
        if entry.part not in OWED
        for what in entry.lacks
    ]
    return built + holes


def page(found: list[Entry]) -> str:
    """The map as a page."""
    kinds = {"Sections": "1234567", "Equations": "E", "Tables": "T", "Figures": "F"}
    lines = [
        MADE,
        "# The paper, part by part\n",
        "Where each part of the paper is, and which tests prove it. The page is made from the `Paper:` lines that head "
        "the modules and the tests; a test fails when a part has no module or no test, or the page is not what they "
        "say. How what a run does stands to the paper is measured apart: [the report on fidelity](guides/fidelity.md).\n",
    ]
    for kind, begins in kinds.items():
        lines += [f"## {kind}\n", "| part | what | modules | tests |", "|---|---|---|---|"]
        lines += [_row(entry) for entry in found if entry.part[0] in begins and entry.part not in OWED]
        lines.append("")
    lines += [
        "## Owed\n",
        "Not built yet as a whole; what there is of it so far.\n",
        "| part | what | modules | tests |",
        "|---|---|---|---|",
    ]
    lines += [_row(entry) for entry in found if entry.part in OWED]
    return "\n".join(lines) + "\n"


def _row(entry: Entry) -> str:
    modules, tests = (", ".join(f"`{path}`" for path in paths) for paths in (entry.modules, entry.tests))
    return f"| {entry.part} | {entry.title} | {modules} | {tests} |"


def main(arguments: list[str]) -> int:
    """Writes or checks the page; what is wrong goes to standard error."""
    found = entries()
    wrong, text = faults(found), page(found)
    if "--check" in arguments:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
            wrong.append("docs/paper-map.md is stale: run .venv/bin/python docs/paper_map.py")
    else:
        PAGE.write_text(text, encoding="utf-8", newline="\n")
        print("wrote docs/paper-map.md")
    for fault in wrong:
        print(f"paper map: {fault}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
