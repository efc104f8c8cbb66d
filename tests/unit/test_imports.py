"""Imports point backwards along the flow of data, and what must start fast does not import torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman

ROOT = Path(dragoman.__file__).parent

# A module imports from its own entry and from those before it.
ORDER = [
    "errors", "paper", "provenance", "text", "data", "download", "native", "remembered", "model", "machine", "variants",
    "recipe", "standing", "bundle", "training", "search", "predecessors", "whole_search", "fastest", "translator",
    "scoring", "language", "recipes", "fidelity", "pipeline", "demo", "cli",
]  # fmt: skip
MODEL_MAY_IMPORT = {"torch", "jaxtyping", "pydantic", "dragoman.model", "dragoman.errors", "dragoman.native"}
WITHOUT_TORCH = ("errors", "recipe", "text", "scoring")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def of_entry(entry: str) -> list[str]:
    """The modules of one entry of ORDER, a file or a folder."""
    prefix = f"dragoman.{entry}"
    return [name for name in MODULES if name == prefix or name.startswith(f"{prefix}.")]


def imported(tree: ast.AST) -> Iterator[str]:
    """Full names of all that is imported anywhere, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            assert node.module is not None
            # `from dragoman import text` imports dragoman.text as much as `import dragoman.text` does.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)


def imports_of(name: str) -> set[str]:
    return set(imported(ast.parse(MODULES[name].read_text(encoding="utf-8"))))


def entry_of(name: str) -> str | None:
    """The entry of ORDER a module of ours belongs to; None for the package itself and for others' modules."""
    parts = name.split(".")
    return parts[1] if parts[0] == "dragoman" and len(parts) > 1 else None


def test_the_scan_finds_the_modules_and_their_imports():
    assert "dragoman.model.attention" in MODULES
    assert "dragoman.model" in MODULES
    assert {"torch", "math", "dragoman.model.config"} <= imports_of("dragoman.model.attention")
    source = "import a.b\ndef f():\n    from dragoman.model import config\n    from c import d"
    assert set(imported(ast.parse(source))) == {"a.b", "dragoman.model.config", "c"}


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_backwards(name):
    own = entry_of(name)
    if own is None or own == "__main__":
        return
    assert own in ORDER, f"{name} has no place in the order of imports"
    for other in imports_of(name):
        entry = entry_of(other)
        if entry is not None:
            assert entry in ORDER[: ORDER.index(own) + 1], f"{name} imports {other}"


@pytest.mark.parametrize("name", of_entry("model"))
def test_the_model_knows_nothing_but_torch_and_its_own(name):
    for other in imports_of(name):
        parts = other.split(".")
        ours = ".".join(parts[:2]) if parts[0] == "dragoman" else parts[0]
        assert ours in MODEL_MAY_IMPORT or parts[0] in sys.stdlib_module_names, f"{name} imports {other}"


@pytest.mark.parametrize("name", of_entry("search"))
def test_the_search_knows_a_step_function_and_never_the_model(name):
    assert [other for other in imports_of(name) if entry_of(other) in ("model", "variants", "training")] == []


@pytest.mark.parametrize("name", [*of_entry("training"), *of_entry("search"), *of_entry("model")])
def test_the_published_system_knows_no_variant(name):
    assert [other for other in imports_of(name) if entry_of(other) == "variants"] == []


@pytest.mark.parametrize("name", [name for name in MODULES if entry_of(name) not in ("cli", "__main__")])
def test_nothing_imports_the_command_line(name):
    assert [other for other in imports_of(name) if entry_of(other) == "cli"] == []


def run(code: str) -> subprocess.CompletedProcess[str]:
    """In a fresh interpreter that finds the package where this one does."""
    path = f"import sys; sys.path.insert(0, {str(ROOT.parent)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", path + code], capture_output=True, text=True, timeout=60, check=False
    )


SAYS_WHETHER_TORCH = "\nprint('torch' in sys.modules)"


def test_importing_the_package_does_not_import_torch():
    result = run("import dragoman" + SAYS_WHETHER_TORCH)
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_text_scores_and_recipes_do_not_import_torch():
    names = [name for entry in WITHOUT_TORCH for name in of_entry(entry)]
    assert len(names) >= len(WITHOUT_TORCH)
    lines = [f"import {name}\nassert 'torch' not in sys.modules, {name!r}" for name in names]
    result = run("\n".join(lines) + SAYS_WHETHER_TORCH)
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_the_check_for_torch_can_fail():
    assert run("import dragoman.model.attention" + SAYS_WHETHER_TORCH).stdout == "True\n"


def test_loading_a_model_imports_no_compiler_of_torch():
    """Half a second of every command that translates: sums on the device "meta" bring it in."""
    code = (
        "import sys, torch, dragoman.translator, dragoman.bundle as bundle\n"
        "from dragoman.model.config import ModelConfig\n"
        "before = set(sys.modules)\n"
        "bundle.expected_shapes(ModelConfig.tiny(vocab_size=50))\n"
        "print(*(set(sys.modules) - before))\n"
    )
    found = run(code)
    assert found.stderr == ""
    assert not {"sympy", "torch._dynamo"} & set(found.stdout.split()), found.stdout


def test_measuring_a_recipe_and_training_import_no_compiler_of_torch():
    """Two seconds of every command that begins a run or shows a recipe: `torch.optim.Optimizer` brings it in."""
    found = run(
        "import sys, torch\n"
        "from dragoman.fidelity.measure import measure\n"
        "from dragoman.recipes.named import tiny\n"
        "assert measure(tiny()).banner('tiny')\n"
        "print(*sys.modules)\n"
    )
    assert found.stderr == ""
    assert "dragoman.training.step" in found.stdout.split()
    assert not {"sympy", "torch._dynamo"} & set(found.stdout.split())
