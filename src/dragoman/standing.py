"""How a run stands to the paper: architecture, recipe and scale, each as published or with what differs.

Paper: 3, 5, 6.1

A run is compared with whichever of the paper's models (base, big, big for English-French) it is nearest to. A choice
is as published, scaled (the paper's rule with another number), or a departure (another rule).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dragoman import paper
from dragoman.model.config import ModelShape
from dragoman.recipe import Recipe, SearchSection, SubwordSection, TrainingSection

Level = Literal["architecture", "recipe", "scale"]
Verdict = Literal["scaled", "departure"]

BASE = Recipe(name="base")
_BIG_SHAPE = {
    name: getattr(paper.BIG, name) for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop")
}
BIG = Recipe(
    name="big",
    model=ModelShape(**_BIG_SHAPE),
    training=TrainingSection(max_steps=paper.BIG.train_steps, keep_checkpoints=paper.AVERAGED_BIG),
    search=SearchSection(average_checkpoints=paper.AVERAGED_BIG),
)
BIG_EN_FR = BIG.model_copy(
    update={
        "name": "big-en-fr",
        "model": ModelShape(**{**_BIG_SHAPE, "P_drop": paper.P_DROP_BIG_EN_FR}),
        "subwords": SubwordSection(vocab_size=paper.WORD_PIECES_EN_FR),
    }
)
PUBLISHED = (BASE, BIG, BIG_EN_FR)

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
    "optimizer.cooldown": ("recipe", "5.3"),
    "departures.architecture": ("architecture", "3"),
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
    """All differences of a run from the nearest of the paper's models.

    Attributes:
        nearest: that model's name.
        differences: what is not as in it.
    """

    nearest: str
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
        clauses.append(f"scale: {name if scaled else f'as published ({self.nearest})'}")
        return f"{paper.CITATION}: {', '.join(clauses)}"


def _same(path: str, here: object, published: object) -> bool:
    """Equal; or, where the paper says "about 37000 tokens", no further from it than 5 %."""
    if path == "subwords.vocab_size" and isinstance(here, int) and isinstance(published, int):
        return abs(here - published) <= 0.05 * published
    return here == published


def standing(recipe: Recipe) -> Standing:
    """Compares a recipe with each of the paper's models, field by field, and keeps the nearest.

    The architecture has no field but the list of departures: the parts of `dragoman.model` are the paper's and have no
    other form.
    """
    found = [Standing(model.name, _differences(recipe, model)) for model in PUBLISHED]
    return min(found, key=lambda stands: len(stands.differences))


def _differences(recipe: Recipe, model: Recipe) -> tuple[Difference, ...]:
    found = []
    for path, (level, section) in _FIELDS.items():
        group, field = path.split(".")
        published = getattr(getattr(model, group), field)
        here = getattr(getattr(recipe, group), field)
        if path == "departures.architecture":
            found += [
                Difference(level, "departure", d.name, d.section, d.instead_of, d.source_and_numbers)
                for d in here
            ]
        elif not _same(path, here, published):
            verdict: Verdict = "scaled" if level == "scale" else "departure"
            found.append(Difference(level, verdict, path, section, published, here))
    return tuple(found)
