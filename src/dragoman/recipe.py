"""A recipe: everything a run needs, frozen and strict. A TOML file is a view of it.

Paper: 5, 6.1
The defaults of every field are the paper's (the base model); a field that differs makes the run a scaled one.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dragoman.errors import ConfigError, first_fault
from dragoman.model.config import ModelShape
from dragoman.variants.departures import Departure, check_departures, departures_of, stack_of
from dragoman.variants.search_rules import (
    SearchDeparture,
    SearchRules,
    check_search_departures,
    search_departures_of,
    search_rules,
)
from dragoman.variants.training_rules import (
    RunLimits,
    TrainingDeparture,
    TrainingRules,
    check_training_departures,
    training_departures_of,
    training_rules,
)

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0.0)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]


class Section(BaseModel):
    """One table of a recipe file: frozen, strict, no unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class SubwordSection(Section):
    """How text is cut (5.1: byte-pair encoding, one vocabulary of about 37,000 for both languages).

    Attributes:
        vocab_size: entries asked of SentencePiece; a small corpus may support fewer.
        joint: one vocabulary for both languages.
        dropout: BPE-dropout while training (Provilkov et al. 2020); 0 in the paper.
    """

    vocab_size: Count = 37_000
    joint: bool = True
    dropout: Fraction = 0.0


class BatchSection(Section):
    """What one update sees (5.1: about 25,000 source and 25,000 target tokens of similar length).

    Attributes:
        source_tokens, target_tokens: budget of a batch, without padding, EOS included.
        max_length: pairs longer than this on either side (tokens, EOS included) are left out of training.
        tokens_at_once: a batch is computed in pieces of about this many tokens a side (an eighth more at most),
            where memory is short; the update is the same.
    """

    source_tokens: Count = 25_000
    target_tokens: Count = 25_000
    max_length: Count = 256
    tokens_at_once: Count = 25_000


class OptimizerSection(Section):
    """Adam and the rate (5.3): d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    Attributes:
        beta_1, beta_2, epsilon: Adam's constants.
        warmup_steps: steps of rising rate.
        factor: the whole rate is multiplied by this; 1 in the paper.
        cooldown: share of the run, at its end, over which the rate falls linearly to a twentieth; 0 in the paper.
    """

    beta_1: Fraction = 0.9
    beta_2: Fraction = 0.98
    epsilon: Positive = 1e-9
    warmup_steps: Count = 4_000
    factor: Positive = 1.0
    cooldown: Fraction = 0.0


class TrainingSection(Section):
    """The rules of training (5.2, 5.4).

    Attributes:
        eps_ls: label smoothing.
        max_steps: updates.
        max_minutes: stop after this much training time, whichever comes first; None: no limit.
        precision: number format of weights and activations; master weights, optimizer and loss are fp32. In fp16 the loss
            is scaled for the gradient.
        seed: of initial weights, order and dropout.
        checkpoint_minutes: a checkpoint at least this often (5.2, 6.1: every 10 minutes).
        checkpoint_steps: a checkpoint every so many steps; None: by minutes alone.
        keep_checkpoints: the newest so many are kept, and the best.
        validate_steps: validation every so many steps; None: with every checkpoint.
        validation_sentences: dev sentences translated (greedily) for BLEU at a validation; 0: none.
        patience: stop after so many validations in a row without a better loss; None: never.
        log_steps: a line in the log every so many steps.
    """

    eps_ls: Fraction = 0.1
    max_steps: Count = 100_000
    max_minutes: Positive | None = None
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    checkpoint_minutes: Positive = 10.0
    checkpoint_steps: Count | None = None
    keep_checkpoints: Count = 5
    validate_steps: Count | None = None
    validation_sentences: Annotated[int, Field(ge=0)] = 500
    patience: Count | None = None
    log_steps: Count = 50


class SearchSection(Section):
    """Averaging and beam search (6.1).

    Attributes:
        average_checkpoints: the last so many checkpoints are averaged.
        beam_size, alpha: beam search and its length penalty.
        max_extra: a translation has at most so many tokens more than its source, EOS included on both.
    """

    average_checkpoints: Count = 5
    beam_size: Count = 4
    alpha: Annotated[float, Field(ge=-10.0, le=10.0)] = 0.6
    max_extra: Annotated[int, Field(ge=0)] = 50


class DepartureSection(Section):
    """Choices that are not the paper's, nor its rules with other numbers: none unless listed.

    Attributes:
        architecture: what the model has instead of the paper's parts: names, or tables of a name and its numbers.
        training: what training does instead of the paper's rules, alike.
        search: what search does instead, alike.
    """

    architecture: tuple[Departure, ...] = ()
    training: tuple[TrainingDeparture, ...] = ()
    search: tuple[SearchDeparture, ...] = ()

    @field_validator("architecture", mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        return departures_of(value)

    @field_validator("training", mode="before")
    @classmethod
    def _read_training(cls, value: object) -> object:
        return training_departures_of(value)

    @field_validator("search", mode="before")
    @classmethod
    def _read_search(cls, value: object) -> object:
        return search_departures_of(value)

    @property
    def all(self) -> tuple[Departure | TrainingDeparture | SearchDeparture, ...]:
        """Of every level."""
        return (*self.architecture, *self.training, *self.search)


CHANGED = ", changed"  # put to the name of a recipe whose model is another now


class Recipe(Section):
    """A complete run.

    Raises:
        ConfigError: a field is unknown, of the wrong type or out of bounds; it names the field.
    """

    name: str = "base"
    description: str = ""
    model: ModelShape = ModelShape()
    subwords: SubwordSection = SubwordSection()
    batch: BatchSection = BatchSection()
    optimizer: OptimizerSection = OptimizerSection()
    training: TrainingSection = TrainingSection()
    search: SearchSection = SearchSection()
    departures: DepartureSection = DepartureSection()

    @model_validator(mode="after")
    def _check_departures(self) -> Recipe:
        check_departures(self.departures.architecture, self.model, self.batch.max_length)
        training, optimizer = self.training, self.optimizer
        run = RunLimits(optimizer.warmup_steps, training.max_steps, training.max_minutes, optimizer.cooldown)
        check_training_departures(self.departures.training, run)
        check_search_departures(self.departures.search, stack_of(self.departures.architecture))
        return self

    @property
    def training_rules(self) -> TrainingRules:
        """What training does otherwise than published."""
        return training_rules(self.departures.training)

    @property
    def search_rules(self) -> SearchRules:
        """What search does otherwise than published."""
        return search_rules(self.departures.search)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _config_error(error) from None

    def with_changes(self, changes: Sequence[str]) -> Recipe:
        """A copy with `section.field=value` changes, values as in TOML (a bare word is a string).

        A name stands for a size of model: where that is another now, the name says so.

        Raises:
            ConfigError: a change is not of that form, or the field or value is not usable.
        """
        if not changes:
            return self
        values = self.model_dump()
        for change in changes:
            _apply(values, change)
        _refit_heads(self, values, changes)
        changed = Recipe(**values)
        if _sizes(changed) != _sizes(self) and changed.name == self.name:
            return changed.model_copy(update={"name": f"{self.name.removesuffix(CHANGED)}{CHANGED}"})
        return changed

    def to_toml(self) -> str:
        """The recipe as a TOML file that `from_toml` reads back equal.

        Fields that are None are left out, and so are departures where there are none.
        """
        values = self.model_dump()
        lines = [f"{key} = {_toml_value(values.pop(key))}" for key in ("name", "description")]
        if not any(values["departures"].values()):
            del values["departures"]
        for section, fields in values.items():
            lines += ["", f"[{section}]"]
            lines += [
                f"{key} = {_toml_value(value)}" for key, value in fields.items() if value not in (None, ())
            ]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, text: str, *, where: str = "recipe", name: str = "base") -> Recipe:
        """Reads a recipe; fields left out have the paper's values, and `name` where it has none.

        Raises:
            ConfigError: the text is not TOML, or a field is not usable.
        """
        try:
            return cls(**{"name": name, **tomllib.loads(text)})
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(
                f"{where} is not valid TOML: {error}",
                where=where,
                cure="compare it with one that is: dragoman recipe show tiny",
            ) from None
        except ConfigError as error:
            raise ConfigError(error.what, where=f"{where}: {error.where}", cure=error.cure) from None

    @classmethod
    def from_file(cls, path: Path) -> Recipe:
        """Reads a recipe file; one that gives itself no name has the file's.

        Raises:
            ConfigError: the file cannot be read, is not TOML, or a field is not usable.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
            raise ConfigError(
                f"the recipe file cannot be read: {reason}",
                where=str(path),
                cure="check the path, and that it is UTF-8 text",
            ) from None
        return cls.from_toml(text, where=str(path), name=path.stem)


def _sizes(recipe: Recipe) -> tuple[int, ...]:
    shape = recipe.model
    return shape.N, shape.d_model, shape.d_ff, shape.h, shape.d_k, shape.d_v


def _apply(values: dict[str, Any], change: str) -> None:
    path, equals, text = change.partition("=")
    section, dot, field = path.strip().partition(".")
    if not equals or not section:
        raise ConfigError(
            f"cannot read the change {change!r}", cure="write section.field=value, as in optimizer.factor=2.0"
        )
    place = values if not dot else values.get(section)
    key = field if dot else section
    if not isinstance(place, dict) or key not in place or isinstance(place[key], dict):
        known = sorted(place) if isinstance(place, dict) else sorted(values)
        raise ConfigError(
            f"a recipe has no field {path.strip()!r}",
            where=f"change {change!r}",
            cure=f"fields here: {', '.join(known)}",
        )
    place[key] = _read_value(text.strip(), like=place[key])


def _refit_heads(before: Recipe, values: dict[str, Any], changes: Sequence[str]) -> None:
    """Where d_k and d_v were d_model / h and only d_model or h was changed, they follow."""
    changed = {change.partition("=")[0].strip() for change in changes}
    shape = before.model
    for name in ("d_k", "d_v"):
        if getattr(shape, name) * shape.h == shape.d_model and f"model.{name}" not in changed:
            values["model"].pop(name)


def _read_value(text: str, *, like: Any) -> Any:
    if text.lower() == "none":
        return None
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    return float(value) if isinstance(like, float) and type(value) is int else value


def _toml_value(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)  # Python's shortest form is valid TOML for finite numbers
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, dict):
        if value.keys() == {"name"}:
            return _toml_value(value["name"])
        return "{" + ", ".join(f"{key} = {_toml_value(entry)}" for key, entry in value.items()) + "}"
    # JSON's strings are TOML's, but for U+007F, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _config_error(error: ValidationError) -> ConfigError:
    first = error.errors()[0]
    field, message = first_fault(error, "recipe")
    if first["type"] == "extra_forbidden":
        message, cure = "there is no such field", f"fields here: {', '.join(sorted(_fields_beside(field)))}"
    else:
        cure = "change the value"
    return ConfigError(f"recipe field {field}: {message}", where=f"{field} = {first['input']!r}", cure=cure)


def _fields_beside(field: str) -> Iterable[str]:
    section, dot, _ = field.partition(".")
    return getattr(Recipe(), section).model_dump() if dot else Recipe.model_fields
