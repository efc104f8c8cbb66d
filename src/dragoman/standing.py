"""How a run stands to the paper: architecture, recipe and scale, each as published or with what differs.

Paper: 3, 5, 6.1

A run is compared with whichever of the paper's models (base, big, big for English-French) it is nearest to. A choice
is as published; silent (the paper leaves it open, and we took the authors' practice); scaled (the paper's rule with
another number); or a departure (another rule). Here are the findings and what is said of them, and the comparison of a
recipe's numbers; what the code really does is measured in `fidelity`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from dragoman import paper
from dragoman.model.config import ModelShape
from dragoman.recipe import Recipe, SearchSection, SubwordSection, TrainingSection
from dragoman.variants.departures import KINDS, stack_of
from dragoman.variants.search_rules import SEARCH_KINDS
from dragoman.variants.training_rules import TRAINING_KINDS

Level = Literal["architecture", "recipe", "scale"]
Verdict = Literal["as published", "silent", "scaled", "departure"]
LEVELS: tuple[Level, ...] = ("architecture", "recipe", "scale")

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
_PUBLISHED_NAMES = {model.name for model in PUBLISHED}

# field -> (level, section of the paper). A number that follows size, data or time is scale; one that the paper has
# the same for all its models, and every switch, is the recipe.
_FIELDS: dict[str, tuple[Level, str]] = {
    "optimizer.beta_1": ("recipe", "5.3"),
    "optimizer.beta_2": ("recipe", "5.3"),
    "optimizer.epsilon": ("recipe", "5.3"),
    "optimizer.cooldown": ("recipe", "5.3"),
    "subwords.joint": ("recipe", "5.1"),
    "subwords.dropout": ("recipe", "5.1"),
    "search.max_extra": ("recipe", "6.1"),
    "model.N": ("scale", "3.1"),
    "model.d_model": ("scale", "3.1"),
    "model.d_ff": ("scale", "3.3"),
    "model.h": ("scale", "3.2.2"),
    "model.d_k": ("scale", "3.2.2"),
    "model.d_v": ("scale", "3.2.2"),
    "model.P_drop": ("scale", "5.4"),
    "subwords.vocab_size": ("scale", "5.1"),
    "batch.source_tokens": ("scale", "5.1"),
    "batch.target_tokens": ("scale", "5.1"),
    "optimizer.warmup_steps": ("scale", "5.3"),
    "optimizer.factor": ("scale", "5.3"),
    "training.eps_ls": ("scale", "5.4"),
    "training.max_steps": ("scale", "5.2"),
    "training.max_minutes": ("scale", "5.2"),
    "search.average_checkpoints": ("scale", "6.1"),
    "search.beam_size": ("scale", "6.1"),
    "search.alpha": ("scale", "6.1"),
    "departures.architecture": ("architecture", "3"),
    "departures.training": ("recipe", "5"),
    "departures.search": ("recipe", "6.1"),
}
_ASKED = {*KINDS, *TRAINING_KINDS, *SEARCH_KINDS}
# Fields that say nothing of a model of one text.
_NOT_OF_ONE_STACK = {
    "decoder_only": {"subwords.joint", "batch.source_tokens", "search.max_extra"},
    "encoder_only": {
        *("subwords.joint", "batch.target_tokens"),
        *("search.max_extra", "search.beam_size", "search.alpha"),
    },
}


@dataclass(frozen=True)
class Finding:
    """One choice of a run.

    Attributes:
        choice: its name, or the recipe's field.
        level: what it belongs to.
        section: of the paper.
        paper: what the paper says; where it is silent, what we took and from where.
        here: what this run does.
        verdict: the one beside the other.
    """

    choice: str
    level: Level
    section: str
    paper: object
    here: object
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.choice} {self.here} (paper {self.paper}, {self.section})"


@dataclass(frozen=True)
class Standing:
    """All choices of a run beside those of the nearest of the paper's models.

    Attributes:
        nearest: that model's name.
        findings: one for each choice, level by level.
    """

    nearest: str
    findings: tuple[Finding, ...]

    @property
    def differences(self) -> tuple[Finding, ...]:
        """Choices with another number or another rule than the paper's."""
        return tuple(f for f in self.findings if f.verdict in ("scaled", "departure"))

    @property
    def departures(self) -> tuple[Finding, ...]:
        """Choices that follow another rule than the paper's."""
        return tuple(f for f in self.findings if f.verdict == "departure")

    def banner(self, name: str) -> str:
        """One line for the head of a run, its manifest and its card."""
        departures = self.departures
        said = {level: [f for f in departures if f.level == level] for level in ("architecture", "recipe")}
        clauses = []
        if not said["architecture"] and not said["recipe"]:
            clauses.append("architecture and recipe as published")
        else:
            for level, found in said.items():
                clauses.append(f"{level} " + (_listed(found) if found else "as published"))
        return f"{paper.CITATION}: {', '.join(clauses)}, scale: {self._scale(name)}"

    def _scale(self, name: str) -> str:
        """A run that has the name of one of the paper's models and not its numbers is not that model."""
        scaled = [f.choice for f in self.findings if f.verdict == "scaled"]
        if not scaled:
            return f"as published ({self.nearest})"
        return f"{self.nearest} but for {' and '.join(scaled)}" if name in _PUBLISHED_NAMES else name


def _listed(found: list[Finding]) -> str:
    """The departures that were asked for, by name, and then only the names of what was measured to differ."""
    asked = [f for f in found if f.choice in _ASKED]
    measured = [f for f in found if f.choice not in _ASKED]
    listed = ", ".join(map(str, asked or measured))
    return f"{listed} (measured: {', '.join(f.choice for f in measured)})" if asked and measured else listed


def standing(
    recipe: Recipe,
    *,
    rules: tuple[Finding, ...] = (),
    measured: Mapping[str, object] = MappingProxyType({}),
) -> Standing:
    """Compares a recipe with each of the paper's models, field by field, and keeps the nearest.

    Args:
        recipe: what the run was told to do.
        rules: what was found of choices that no field holds.
        measured: what the run does in place of a field's value. Where that is not what the recipe says, the code does
            not do what it was told: that is a departure, whatever the number.
    """
    stands = [Standing(model.name, _numbers(recipe, model, measured)) for model in PUBLISHED]
    nearest = min(stands, key=lambda stands: len(stands.differences))
    findings = sorted((*rules, *nearest.findings), key=lambda f: LEVELS.index(f.level))
    return replace(nearest, findings=tuple(findings))


def _numbers(recipe: Recipe, model: Recipe, measured: Mapping[str, object]) -> tuple[Finding, ...]:
    found = []
    stack = stack_of(recipe.departures.architecture)
    left_out = set() if stack is None else _NOT_OF_ONE_STACK[stack.name]
    for path, (level, section) in _FIELDS.items():
        if path in left_out:
            continue
        if path.startswith("departures."):
            found += [
                Finding(d.name, level, d.section, d.instead_of, d.source_and_numbers, "departure")
                for d in getattr(recipe.departures, path.removeprefix("departures."))
            ]
            continue
        published, said = field_of(model, path), field_of(recipe, path)
        here = measured.get(path, said)
        verdict: Verdict = "scaled" if level == "scale" else "departure"
        if here != said:
            level, verdict = "recipe", "departure"
        elif _same(path, here, published):
            verdict = "as published"
        found.append(Finding(path, level, section, published, here, verdict))
    return tuple(found)


def field_of(recipe: Recipe, path: str) -> object:
    """The value of `section.field`."""
    section, field = path.split(".")
    return getattr(getattr(recipe, section), field)


def _same(path: str, here: object, published: object) -> bool:
    """Equal; or, where the paper says "about 37000 tokens", no further from it than 5 %."""
    if path == "subwords.vocab_size" and isinstance(here, int) and isinstance(published, int):
        return abs(here - published) <= 0.05 * published
    return here == published
