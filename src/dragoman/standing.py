"""How a run stands to the paper: architecture, recipe and scale, each as published or with what differs.

Paper: 3, 5, 6.1
A choice is as published, scaled (the paper's rule with another number), or a departure (another rule).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dragoman.recipe import Recipe

Level = Literal["architecture", "recipe", "scale"]
Verdict = Literal["scaled", "departure"]

CITATION = "Vaswani et al. 2017"
PAPER_RECIPE = Recipe()

# field -> (level, section of the paper). Numbers of the paper's rules are scale; the rules are the recipe.
_FIELDS: dict[str, tuple[Level, str]] = {
    "model.N": ("scale", "3.1"),
    "model.d_model": ("scale", "3.1"),
    "model.d_ff": ("scale", "3.3"),
    "model.h": ("scale", "3.2.2"),
    "model.d_k": ("scale", "3.2.2"),
    "model.d_v": ("scale", "3.2.2"),
    "model.P_drop": ("scale", "5.4"),
    "model.shared_embeddings": ("scale", "3.4"),
    "model.tied_output": ("scale", "3.4"),
    "subwords.vocab_size": ("scale", "5.1"),
    "subwords.joint": ("scale", "5.1"),
    "batch.source_tokens": ("scale", "5.1"),
    "batch.target_tokens": ("scale", "5.1"),
    "optimizer.beta_1": ("scale", "5.3"),
    "optimizer.beta_2": ("scale", "5.3"),
    "optimizer.epsilon": ("scale", "5.3"),
    "optimizer.warmup_steps": ("scale", "5.3"),
    "optimizer.factor": ("scale", "5.3"),
    "training.eps_ls": ("scale", "5.4"),
    "training.max_steps": ("scale", "5.2"),
    "training.max_minutes": ("scale", "5.2"),
    "search.average_checkpoints": ("scale", "6.1"),
    "search.beam_size": ("scale", "6.1"),
    "search.alpha": ("scale", "6.1"),
    "search.max_extra": ("scale", "6.1"),
    "subwords.dropout": ("recipe", "5.1"),
}


@dataclass(frozen=True)
class Difference:
    """One choice that is not the paper's."""

    level: Level
    verdict: Verdict
    field: str
    section: str
    paper: object
    here: object

    def __str__(self) -> str:
        return f"{self.field} {self.here} (paper {self.paper}, {self.section})"


@dataclass(frozen=True)
class Standing:
    """All differences of a run from the base model's recipe."""

    differences: tuple[Difference, ...]

    @property
    def departures(self) -> tuple[Difference, ...]:
        """Choices that follow another rule than the paper's."""
        return tuple(d for d in self.differences if d.verdict == "departure")

    def banner(self, name: str) -> str:
        """One line for the head of a run, its manifest and its card."""
        departures = self.departures
        said = {level: [d for d in departures if d.level == level] for level in ("architecture", "recipe")}
        clauses = []
        if not said["architecture"] and not said["recipe"]:
            clauses.append("architecture and recipe as published")
        else:
            for level, found in said.items():
                clauses.append(f"{level} " + (", ".join(map(str, found)) if found else "as published"))
        scaled = any(d.verdict == "scaled" for d in self.differences)
        clauses.append(f"scale: {name if scaled else 'as published'}")
        return f"{CITATION}: {', '.join(clauses)}"


def _same(path: str, here: object, paper: object) -> bool:
    """Equal; or, where the paper says "about 37000 tokens", no further from it than 5 %."""
    if path == "subwords.vocab_size" and isinstance(here, int) and isinstance(paper, int):
        return abs(here - paper) <= 0.05 * paper
    return here == paper


def standing(recipe: Recipe) -> Standing:
    """Compares a recipe with the paper's base model, field by field.

    The architecture has no field here: the parts of `dragoman.model` are the paper's and have no other form.
    """
    found = []
    for path, (level, section) in _FIELDS.items():
        group, field = path.split(".")
        paper = getattr(getattr(PAPER_RECIPE, group), field)
        here = getattr(getattr(recipe, group), field)
        if not _same(path, here, paper):
            verdict: Verdict = "scaled" if level == "scale" else "departure"
            found.append(Difference(level, verdict, path, section, paper, here))
    return Standing(tuple(found))
