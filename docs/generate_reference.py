"""Writes the reference pages that repeat what the code says: run it after changing help texts, recipes or headers.

    .venv/bin/python docs/generate_reference.py

`cli.md` is the command line's own help, `recipes.md` the recipes that come with dragoman and every field of one,
`left-open.md` the `Silent:` lines of the modules, `paper-map.md` (by `paper_map.py`) their `Paper:` lines and those of
the tests. A test fails when one of them is no longer what this writes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import paper_map
from typer.main import get_command
from typer.testing import CliRunner

import dragoman
from dragoman.cli.main import app
from dragoman.model.config import ModelShape
from dragoman.recipe import (
    BatchSection,
    DepartureSection,
    OptimizerSection,
    Recipe,
    SearchSection,
    SubwordSection,
    TrainingSection,
)
from dragoman.recipes import named, systems

DOCS = Path(__file__).resolve().parent
WIDTH = 96
MADE = "<!-- Made by docs/generate_reference.py from the code: change that, then run it again. -->\n"

SECTIONS = {
    "model": ModelShape,
    "subwords": SubwordSection,
    "batch": BatchSection,
    "optimizer": OptimizerSection,
    "training": TrainingSection,
    "search": SearchSection,
    "departures": DepartureSection,
}

# Folders and single modules in the order of the data flow.
FLOW = {
    "text": "Text and subwords",
    "data": "Shards and batches",
    "model": "The model",
    "training": "Training",
    "search": "Search",
    "variants": "Departures: what their own sources leave open",
    "translator.py": "Translating",
    "scoring": "Scores",
    "predecessors": "What came before: what its own sources leave open",
}


def verbs() -> Iterator[list[str]]:
    """Every verb as its words, `recipe list` as two."""
    for name, command in get_command(app).commands.items():
        yield [name]
        for inner in getattr(command, "commands", {}):
            yield [name, inner]


def help_of(words: list[str]) -> str:
    """What `dragoman WORDS --help` prints."""
    answer = CliRunner().invoke(app, [*words, "--help"], prog_name="dragoman", terminal_width=WIDTH)
    assert answer.exit_code == 0, answer.output
    return "\n".join(line.rstrip() for line in answer.output.strip("\n").split("\n"))


def cli_page() -> str:
    """The page of the command line."""
    parts = [
        MADE,
        "# Command line\n",
        "Every verb reads files and writes files; what it writes to standard output is data, what it says to "
        "standard error is for people. `dragoman VERB --help` prints the same texts as this page. The "
        "[exit codes](errors.md) tell a script what happened.\n",
        f"```text\n{help_of([])}\n```\n",
    ]
    for words in verbs():
        parts.append(f"## dragoman {' '.join(words)}\n\n```text\n{help_of(words)}\n```\n")
    return "\n".join(parts)


def attributes_of(section: type) -> Iterator[tuple[list[str], str]]:
    """The entries under `Attributes:` in a class's docstring: names, and what is said of them."""
    text = ast.get_docstring(_definition(section)) or ""
    body = text.partition("Attributes:\n")[2]
    for entry in re.split(r"\n(?=    \w)", body.rstrip()):
        names, _, meaning = " ".join(entry.split()).partition(": ")
        yield names.split(", "), meaning


def _definition(section: type) -> ast.ClassDef:
    path = Path(dragoman.__file__).parents[1] / (section.__module__.replace(".", "/") + ".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return next(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == section.__name__)


def field_lines(name: str, section: type) -> Iterator[str]:
    """The fields of one section as list items; the values are the base model's."""
    values = getattr(Recipe(), name)
    for fields, meaning in attributes_of(section):
        shown = ", ".join(f"`{field} = {_toml(getattr(values, field))}`" for field in fields)
        yield f"* {shown}: {meaning}"


def difference_lines(recipe: Recipe) -> Iterator[str]:
    """What a recipe has other than the base model's, as list items."""
    for name in SECTIONS:
        for field, here in getattr(recipe, name):
            there = getattr(getattr(Recipe(), name), field)
            if here != there:
                yield f"* `{name}.{field} = {_toml(here)}` (base: {_toml(there)})"


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return (
        str(value).lower() if isinstance(value, bool) else "none" if value is None else repr(value).strip("'")
    )


def recipes_page() -> str:
    """The page of the recipes."""
    parts = [
        MADE,
        "# Recipes\n",
        "A recipe is everything a run needs, as one frozen value; a TOML file is a view of it. Take one by name "
        "(`dragoman train prepared --out run --recipe tiny`), print it to change it "
        "(`dragoman recipe show tiny`), or change single fields with `--set`. Fields that a file leaves out "
        "have the values of `base`, which are the paper's.\n",
        "## The recipes that come with dragoman\n",
    ]
    for recipe in named.all_recipes():
        described = getattr(named, recipe.name.replace("-", "_")).__doc__
        parts += [f"### {recipe.name}\n", _as_markdown(described)]
        if differences := list(difference_lines(recipe)):
            parts += ["Where it differs from `base`:\n", "\n".join(differences) + "\n"]
    parts += [
        "## What other systems do\n",
        "Made of [departures](../guides/departures.md), and used as the others; `dragoman fidelity --like` takes the "
        "names in the list of its help. Their scores have not been measured with dragoman.\n",
    ]
    for make in (systems.tensor2tensor_base_v2, *systems.SYSTEMS.values()):
        system = make()
        differences = list(difference_lines(system.recipe))
        parts += [f"### {system.recipe.name}\n", _as_markdown(make.__doc__)]
        parts += [
            f"Read from {system.source}. Where it differs from `base`:\n",
            "\n".join(differences) + "\n",
        ]
        parts += ["What the system does otherwise still:\n"]
        parts += ["\n".join(f"* {said}" for said in system.not_expressed) + "\n"]
    parts += ["## Every field\n", "The values shown are those of `base`.\n"]
    for name, section in SECTIONS.items():
        parts += [f"### [{name}]\n", "\n".join(field_lines(name, section)) + "\n"]
    return "\n".join(parts)


def _as_markdown(docstring: str) -> str:
    """A docstring's paragraphs; an indented one becomes a block of shell."""
    found = []
    for paragraph in re.split(r"\n\s*\n", ast.get_docstring(ast.parse(f'"""{docstring}"""')) or ""):
        is_command = paragraph.strip().startswith("dragoman ")
        text = " ".join(paragraph.split()).replace("*", r"\*")
        found.append(f"```sh\n{paragraph.strip()}\n```" if is_command else text)
    return "\n\n".join(found) + "\n"


def silent_of(path: Path) -> tuple[str, str] | None:
    """The place in the paper and the `Silent:` lines of a module, or None where it has none."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    silent = re.search(r"^Silent: (.+?)(?=\n\s*\n|\Z)", text, re.DOTALL | re.MULTILINE)
    if silent is None:
        return None
    place = re.search(r"^(?:Paper|Later|Earlier): (.+)$", text, re.MULTILINE)
    assert place is not None, path
    return place[1], " ".join(silent[1].split())


def left_open_page() -> str:
    """The page of what the paper leaves open."""
    root = Path(dragoman.__file__).parent
    parts = [
        MADE,
        "# What the paper leaves open\n",
        "Where the text of the paper does not say how something is done, the module that does it says under "
        "`Silent:` in its header what is left open and what was chosen. Here are all of them. Where nothing else "
        "decides, the choice follows the authors' own code, tensor2tensor, in its `transformer_base_v1`.\n",
    ]
    for place, title in FLOW.items():
        paths = [root / place] if place.endswith(".py") else sorted((root / place).rglob("*.py"))
        found = [(path, said) for path in paths if (said := silent_of(path)) is not None]
        if found:
            parts.append(f"## {title}\n")
        for path, (where, text) in found:
            of_paper = where[0].isdigit() or where.startswith(("Table", "Figure", "Abstract"))
            section = (
                "not in the paper" if where.startswith("none") else f"paper: {where}" if of_paper else where
            )
            parts.append(f"`{path.relative_to(root).as_posix()}` ({section})\n: {text}\n")
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """The text of every generated page by its path under docs/."""
    return {
        "reference/cli.md": cli_page(),
        "reference/recipes.md": recipes_page(),
        "reference/left-open.md": left_open_page(),
        "paper-map.md": paper_map.page(paper_map.entries()),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"wrote docs/{name}")
