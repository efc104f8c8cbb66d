"""The report on how a recipe, a model or a run stands to the paper, as a table for people and as plain values.

Paper: none (infrastructure)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from dragoman.bundle import WEIGHTS, bundle_in, open_bundle
from dragoman.errors import CheckpointError, ConfigError
from dragoman.fidelity.measure import measure
from dragoman.model.config import ModelShape
from dragoman.recipe import Recipe
from dragoman.recipes.named import all_recipes, read_recipe
from dragoman.recipes.systems import SYSTEMS, system_recipes
from dragoman.standing import LEVELS, Finding, Standing

RUN_RECIPE = "recipe.toml"


@dataclass(frozen=True)
class Report:
    """How something stands to the paper.

    Attributes:
        name: of its recipe.
        kind: what it is.
        standing: measured now, with the code that is here.
        recorded: as it was measured when training began, where a model says so.
        source: where a system was read.
        not_expressed: what a system does otherwise still.
    """

    name: str
    kind: Literal["recipe", "model", "system"]
    standing: Standing
    recorded: Standing | None = None
    source: str | None = None
    not_expressed: tuple[str, ...] = ()

    @property
    def banner(self) -> str:
        """The one line on it."""
        return self.standing.banner(self.name)

    @property
    def changed(self) -> tuple[Finding, ...]:
        """Choices that were recorded otherwise than they are now: the code is another than the model's."""
        then = {} if self.recorded is None else {f.choice: f.here for f in self.recorded.findings}
        return tuple(f for f in self.standing.findings if then.get(f.choice, f.here) != f.here)

    def as_dict(self) -> dict[str, object]:
        """All of it as plain values, ready for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "nearest": self.standing.nearest,
            "standing": self.banner,
            "departures": [str(finding) for finding in self.standing.departures],
            "choices": [asdict(finding) for finding in self.standing.findings],
            "changed": [finding.choice for finding in self.changed],
            "source": self.source,
            "not_expressed": list(self.not_expressed),
        }


def report_on(name_or_path: str, changes: list[str]) -> Report:
    """The report on a recipe by its name or file, or on a model or run by its directory.

    Args:
        name_or_path: a recipe's name, or else a path.
        changes: `section.field=value` changes to a recipe.

    Raises:
        ConfigError: there is no such recipe or directory, or a change is not usable.
        CheckpointError: the model is damaged.
    """
    path = Path(name_or_path)
    names = [recipe.name for recipe in (*all_recipes(), *system_recipes())]
    if name_or_path in names or name_or_path.endswith(".toml"):
        return _of_recipe(read_recipe(name_or_path).with_changes(changes))
    if not path.is_dir():
        known = ", ".join(names)
        raise ConfigError(
            f"there is no recipe and no directory {name_or_path!r}",
            cure=f"choose from {known}, or give a .toml file, a model's directory or a run's",
        )
    if changes:
        raise ConfigError("a model is as it is: --set changes recipes only", cure="leave --set out")
    return _of_directory(path)


def report_like(system: str, changes: list[str]) -> Report:
    """The report on what a well-known system does by default, measured as any other.

    Args:
        system: its name.
        changes: `section.field=value` changes to its recipe.

    Raises:
        ConfigError: there is no such system, or a change is not usable.
    """
    if system not in SYSTEMS:
        raise ConfigError(
            f"nothing is known of a system {system!r}",
            where="--like",
            cure=f"choose from {', '.join(SYSTEMS)}",
        )
    known = SYSTEMS[system]()
    recipe = known.recipe.with_changes(changes)
    return Report(
        recipe.name, "system", measure(recipe), source=known.source, not_expressed=known.not_expressed
    )


def _of_recipe(recipe: Recipe) -> Report:
    return Report(recipe.name, "recipe", measure(recipe))


def _of_directory(path: Path) -> Report:
    """Of the model, or the newest checkpoint; of the recipe, where a run has neither yet."""
    try:
        directory = bundle_in(path)
    except CheckpointError:
        no_longer_whole = (path / WEIGHTS).exists()  # a model, whose recipe has the same name as a run's
        if no_longer_whole or not (path / RUN_RECIPE).is_file():
            raise
        return _of_recipe(Recipe.from_file(path / RUN_RECIPE))
    bundle = open_bundle(directory)
    facts = bundle.facts
    sizes = {name: getattr(facts.config, name) for name in ModelShape.model_fields}
    recipe = facts.recipe.model_copy(update={"model": ModelShape(**sizes)})
    measured = measure(recipe, subwords=facts.target_subwords)
    return Report(recipe.name, "model", measured, bundle.manifest.fidelity)


def table(standing: Standing) -> Iterator[str]:
    """The lines of the table: level by level, a choice a line; what the paper says where that is something else."""
    width = max(len(finding.choice) for finding in standing.findings)
    for level in LEVELS:
        yield level
        for finding in standing.findings:
            if finding.level == level:
                yield _line(finding, width)


def _line(finding: Finding, width: int) -> str:
    here = _shown(finding.here)
    paper = _shown(finding.paper).removesuffix(
        f": {here}"
    )  # of a silent choice, what is taken is said already
    beside = "" if here == paper else f"  [paper: {paper}]"
    return f"  {finding.verdict:12}  {finding.section:5}  {finding.choice:{width}}  {here}{beside}"


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
