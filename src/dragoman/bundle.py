"""The model bundle: one directory with all that a model needs, written whole, checked before use.

Paper: none (infrastructure)

    config.json        sizes (ModelConfig)
    model.safetensors  weights, float32 unless said
    subwords.model     SentencePiece, both languages; or source.subwords.model and target.subwords.model
    recipe.toml        how it was trained
    manifest.json      format, languages, step, standing to the paper choice by choice, provenance; size and
                       SHA-256 of each file, and its own
    README.md          the model card, for people; not checked

A checkpoint is a bundle with more files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from pydantic import ValidationError
from torch import Tensor

from dragoman.data.durable import sync_file, whole_directory
from dragoman.data.manifest import Count, Digest, FileRecord, Record, file_record
from dragoman.data.tensors import COPY_AGAIN, read_metadata, read_tensors, write_tensors
from dragoman.errors import CHECK_PATH, CheckpointError, ConfigError, VocabularyMismatch, first_fault
from dragoman.model.config import ModelConfig
from dragoman.provenance import provenance
from dragoman.recipe import Recipe
from dragoman.standing import Standing, standing
from dragoman.text.subwords import Subwords
from dragoman.variants.departures import DecoderOnly, Departure, EncoderOnly, stack_of
from dragoman.variants.parts import Model, build

CONFIG, WEIGHTS, RECIPE, MANIFEST, CARD = (
    "config.json",
    "model.safetensors",
    "recipe.toml",
    "manifest.json",
    "README.md",
)
JOINT_SUBWORDS, SOURCE_SUBWORDS, TARGET_SUBWORDS = (
    "subwords.model",
    "source.subwords.model",
    "target.subwords.model",
)
OPTIMIZER, PLACE = "optimizer.safetensors", "training.json"  # of checkpoints alone
_OWN_FILES = {CONFIG, WEIGHTS, RECIPE, MANIFEST, CARD, JOINT_SUBWORDS, SOURCE_SUBWORDS, TARGET_SUBWORDS}
_OWN_FILES |= {OPTIMIZER, PLACE}
_REQUIRED = {"model": {CONFIG, WEIGHTS, RECIPE}, "checkpoint": {CONFIG, WEIGHTS, RECIPE, OPTIMIZER, PLACE}}
_DIGEST_AT_END = re.compile(rb'"digest": "([0-9a-f]{64})"\n}\n\Z')


class BundleManifest(Record):
    """What a bundle says of itself.

    Attributes:
        kind: a model to use, or a checkpoint to go on from.
        step: updates done.
        standing: one line on how it stands to the paper.
        departures: choices of another rule than the paper's.
        fidelity: all choices beside the paper's, as they were measured when training began; None in models written
            before they were.
        vocabularies: SHA-256 of the source's and the target's subwords.
        averaged: names of the checkpoints it is the average of.
        data: facts on the training corpus.
        provenance: versions and machine.
        files: size and SHA-256 of every file but the manifest and the card.
        digest: SHA-256 of this manifest's text with an empty digest, so that no byte of it can change.
    """

    format: Literal["dragoman-model"] = "dragoman-model"
    version: Literal[1] = 1
    kind: Literal["model", "checkpoint"]
    source_language: str | None
    target_language: str | None
    step: Count
    standing: str
    departures: tuple[str, ...]
    fidelity: Standing | None = None
    vocabularies: dict[str, Digest]
    averaged: tuple[str, ...] = ()
    data: dict[str, str | int | None]
    provenance: dict[str, str]
    files: tuple[FileRecord, ...]
    digest: str = ""

    def own_digest(self) -> str:
        """SHA-256 of the manifest as written, without its digest."""
        return _digest(self.model_copy(update={"digest": ""}).as_file())

    def as_file(self) -> bytes:
        """The bytes of `manifest.json`."""
        return (self.model_dump_json(indent=2) + "\n").encode()


@dataclass(frozen=True)
class BundleFacts:
    """What is written into a bundle beside its weights.

    Attributes:
        config, recipe: sizes and rules.
        source_subwords, target_subwords: the same object where one vocabulary serves both.
        source_language, target_language: codes such as "en", or None where unknown.
        data: facts on the training corpus, for the manifest and the card.
        standing: how the run stands to the paper.
    """

    config: ModelConfig
    recipe: Recipe
    source_subwords: Subwords
    target_subwords: Subwords
    source_language: str | None = None
    target_language: str | None = None
    data: Mapping[str, str | int | None] = field(default_factory=dict)
    standing: Standing = field(kw_only=True)

    @property
    def joint(self) -> bool:
        """One vocabulary serves both languages."""
        return self.source_subwords.digest == self.target_subwords.digest

    @property
    def stack(self) -> DecoderOnly | EncoderOnly | None:
        """The departure that leaves one stack of the two, for a model of one text; None for a translator."""
        return stack_of(self.recipe.departures.architecture)

    def build(self, seed: int | None) -> Model:
        """The model, with the departures of the recipe; `seed` as `Transformer` has it."""
        return build(self.config, self.recipe.departures.architecture, seed=seed)


@dataclass(frozen=True)
class Bundle:
    """An opened and checked bundle; the weights are read when asked for."""

    directory: Path
    facts: BundleFacts
    manifest: BundleManifest

    def weights(self) -> dict[str, Tensor]:
        """All weights by name, with the shapes the configuration asks for.

        Raises:
            CheckpointError: the file is damaged, or names or shapes are not those of the configuration.
            VocabularyMismatch: the weights were written for other subwords.
        """
        path, facts = self.directory / WEIGHTS, self.facts
        if read_metadata(path).get("vocabulary") != facts.target_subwords.digest:
            raise VocabularyMismatch(
                "the weights were written for other subwords", where=str(path), cure=COPY_AGAIN
            )
        return read_tensors(
            path, expected=expected_shapes(facts.config, facts.recipe.departures.architecture)
        )

    def model(self, dtype: torch.dtype = torch.float32) -> Model:
        """The model with its weights, in evaluation mode."""
        weights = self.weights()
        model = self.facts.build(None)
        with torch.no_grad():
            for name, parameter in model.named_parameters():  # each once, however many parts share it
                parameter.copy_(weights[name])
        return model.to(dtype).eval()


def write_bundle(
    directory: Path,
    facts: BundleFacts,
    weights: Mapping[str, Tensor],
    *,
    step: int,
    kind: Literal["model", "checkpoint"] = "model",
    averaged: tuple[str, ...] = (),
    card: str | None = None,
    more: Callable[[Path], None] | None = None,
) -> None:
    """Writes a bundle whole or not at all, replacing one that stands there.

    Args:
        directory: where; a bundle that stands there is removed only when the new one is durable.
        facts: what goes with the weights.
        weights: by the names of `Transformer.named_parameters`.
        step: updates done.
        kind: a model, or a checkpoint.
        averaged: names of the checkpoints averaged.
        card: the model card; a short one is made where None.
        more: writes further files into the directory it is given; they are recorded too.

    Raises:
        ConfigError: something else than a bundle stands there.
        DataError: the directory cannot be written.
    """
    if kind == "model":
        _check_place(directory)
    with whole_directory(directory) as temporary:
        _write_files(temporary, facts, weights)
        if more is not None:
            more(temporary)
        records = tuple(file_record(path) for path in sorted(temporary.iterdir()))
        manifest = _manifest(facts, records, step=step, kind=kind, averaged=averaged)
        text = card if card is not None else short_card(facts, manifest)
        (temporary / CARD).write_text(text, encoding="utf-8", newline="\n")
        path = temporary / MANIFEST
        path.write_bytes(manifest.as_file())
        sync_file(path)


def _check_place(directory: Path) -> None:
    """Nothing but a bundle is ever replaced, and only if nothing was put beside its files."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise ConfigError(f"{directory} is a file", cure="choose another directory")
    names = {path.name for path in directory.iterdir()}
    foreign = sorted(names - _OWN_FILES)
    if foreign or (names and MANIFEST not in names):
        found = f"holds {', '.join(foreign[:5])}" if foreign else f"has no {MANIFEST}"
        raise ConfigError(
            f"{directory} is not a model to be replaced: it {found}", cure="choose another directory"
        )


def _write_files(directory: Path, facts: BundleFacts, weights: Mapping[str, Tensor]) -> None:
    config = json.dumps(facts.config.model_dump(), indent=2) + "\n"
    (directory / CONFIG).write_text(config, encoding="utf-8", newline="\n")
    (directory / RECIPE).write_text(facts.recipe.to_toml(), encoding="utf-8", newline="\n")
    if facts.joint:
        (directory / JOINT_SUBWORDS).write_bytes(facts.source_subwords.to_bytes())
    else:
        (directory / SOURCE_SUBWORDS).write_bytes(facts.source_subwords.to_bytes())
        (directory / TARGET_SUBWORDS).write_bytes(facts.target_subwords.to_bytes())
    write_tensors(directory / WEIGHTS, weights, {"vocabulary": facts.target_subwords.digest})


def _manifest(
    facts: BundleFacts,
    records: tuple[FileRecord, ...],
    *,
    step: int,
    kind: Literal["model", "checkpoint"],
    averaged: tuple[str, ...],
) -> BundleManifest:
    manifest = BundleManifest(
        kind=kind,
        source_language=facts.source_language,
        target_language=facts.target_language,
        step=step,
        standing=facts.standing.banner(facts.recipe.name),
        departures=tuple(str(d) for d in facts.standing.departures),
        fidelity=facts.standing,
        vocabularies={"source": facts.source_subwords.digest, "target": facts.target_subwords.digest},
        averaged=averaged,
        data=dict(facts.data),
        provenance=provenance(),
        files=records,
    )
    return manifest.model_copy(update={"digest": manifest.own_digest()})


def open_bundle(directory: Path) -> Bundle:
    """Opens a bundle after checking every file against the manifest.

    Raises:
        CheckpointError: there is no bundle there, or a file is missing, damaged or of another version.
        VocabularyMismatch: subwords and weights do not belong together.
    """
    manifest = read_manifest(directory)
    check_files(directory, manifest)
    config, recipe = _read_settings(directory)
    source, target = _read_subwords(directory)
    if manifest.vocabularies != {"source": source.digest, "target": target.digest}:
        raise VocabularyMismatch(
            "the subwords are not those the manifest names", where=str(directory), cure=COPY_AGAIN
        )
    facts = BundleFacts(
        config,
        recipe,
        source,
        target,
        manifest.source_language,
        manifest.target_language,
        manifest.data,
        standing=manifest.fidelity or standing(recipe),
    )
    if (config.source_rows, config.vocab_size) != (source.vocab_size, target.vocab_size):
        raise VocabularyMismatch(
            f"the model has {config.source_rows} source and {config.vocab_size} target rows, the subwords "
            f"have {source.vocab_size} and {target.vocab_size}",
            where=str(directory),
            cure=COPY_AGAIN,
        )
    return Bundle(directory, facts, manifest)


def read_manifest(directory: Path) -> BundleManifest:
    """The manifest of a bundle, its own digest checked.

    Raises:
        CheckpointError: there is none, or it is damaged or of another version.
    """
    path = directory / MANIFEST
    try:
        text = path.read_bytes()
        manifest = BundleManifest.model_validate_json(text)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(
            f"{directory} is not a model: it has no {MANIFEST}",
            cure="give a directory that `dragoman train` or `dragoman average` wrote",
        ) from None
    except OSError as error:
        raise CheckpointError(
            f"cannot read the manifest: {error.strerror}", where=str(path), cure=CHECK_PATH
        ) from None
    except ValidationError as error:
        if b"dragoman-prepared" in text:
            what, cure = "this is a prepared corpus, not a model", "give the run that was trained on it"
        else:
            what = (
                f"the manifest is damaged or of another version: {': '.join(first_fault(error, 'the file'))}"
            )
            cure = COPY_AGAIN
        raise CheckpointError(what, where=str(path), cure=cure) from None
    end = _DIGEST_AT_END.search(text)
    if end is None or manifest.digest != _digest(text[: end.start(1)] + text[end.end(1) :]):
        raise CheckpointError(
            "the manifest is damaged: its digest is not its own", where=str(path), cure=COPY_AGAIN
        )
    return manifest


def _digest(text: bytes) -> str:
    """Of a manifest's text without its digest; the last line end, which is checked apart, is left out."""
    return hashlib.sha256(text.removesuffix(b"\n")).hexdigest()


def check_files(directory: Path, manifest: BundleManifest) -> None:
    """Compares size and SHA-256 of every file with the manifest.

    Raises:
        CheckpointError: names the first file that is missing or differs.
    """
    unlisted = _REQUIRED[manifest.kind] - {record.name for record in manifest.files}
    if unlisted:
        raise CheckpointError(
            f"the manifest does not list {min(unlisted)}", where=str(directory / MANIFEST), cure=COPY_AGAIN
        )
    for record in manifest.files:
        path = directory / record.name
        if not path.is_file():
            raise CheckpointError(f"a file is missing: {record.name}", where=str(directory), cure=COPY_AGAIN)
        if not _is_whole(path, record):
            raise CheckpointError(
                f"a file is damaged: {record.name} is not what was written",
                where=str(path),
                cure=COPY_AGAIN,
            )


def _is_whole(path: Path, record: FileRecord) -> bool:
    try:
        return path.stat().st_size == record.bytes and file_record(path) == record
    except OSError as error:
        raise CheckpointError(
            f"a file cannot be read: {error.strerror}", where=str(path), cure=CHECK_PATH
        ) from None


def _read_settings(directory: Path) -> tuple[ModelConfig, Recipe]:
    """Sizes and rules; whole files that cannot be understood are of another version."""
    try:
        return _read_config(directory / CONFIG), Recipe.from_file(directory / RECIPE)
    except ConfigError as error:
        raise CheckpointError(
            f"the model is of another version: {error.what}",
            where=f"{directory}: {error.where}",
            cure="use the version of dragoman that wrote it (see its manifest)",
        ) from None


def _read_config(path: Path) -> ModelConfig:
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"the configuration cannot be read: {error}", where=str(path), cure=COPY_AGAIN
        ) from None
    if not isinstance(values, dict):
        raise CheckpointError("the configuration is not a table of fields", where=str(path), cure=COPY_AGAIN)
    return ModelConfig(**values)


def _read_subwords(directory: Path) -> tuple[Subwords, Subwords]:
    if (directory / JOINT_SUBWORDS).is_file():
        both = Subwords.load(directory / JOINT_SUBWORDS)
        return both, both
    return Subwords.load(directory / SOURCE_SUBWORDS), Subwords.load(directory / TARGET_SUBWORDS)


def expected_shapes(config: ModelConfig, departures: Sequence[Departure] = ()) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the weights of the model, whose memory is not touched."""
    # Not on the device "meta": arithmetic there wants parts of PyTorch that take half a second to import.
    model = build(config, departures, seed=None)
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def short_card(facts: BundleFacts, manifest: BundleManifest, scores: str = "") -> str:
    """A model card: what it is, how it stands to the paper, its data, its scores, how to use it."""
    config, recipe, words = facts.config, facts.recipe, _words_of(facts)
    data = "\n".join(f"* {key}: {value}" for key, value in manifest.data.items() if value is not None)
    averaged = ", ".join(manifest.averaged) or "none"
    departures = "\n".join(f"* {d}" for d in manifest.departures) or "* none"
    scaled, left_open = (
        "\n".join(f"* {finding}" for finding in facts.standing.findings if finding.verdict == verdict)
        for verdict in ("scaled", "silent")
    )
    return f"""# {words.title}

{manifest.standing}

A Transformer of {words.layers}, d_model {config.d_model}, d_ff {config.d_ff}, {config.h} heads,
{config.vocab_size} subwords, trained with dragoman for {manifest.step} updates (recipe {recipe.name}, seed
{recipe.training.seed}). Checkpoints averaged: {averaged}.

## Departures from the paper
{departures}

## Scaled: the paper's rule with another number
{scaled or "* none"}

## Left open by the paper
{left_open or "* not recorded"}

Every other choice is as published: `dragoman fidelity MODEL` lists them all.

## Data
{data or "* not recorded"}

## Scores
{scores or f"Not scored yet: `dragoman evaluate MODEL {words.test_set}`."}

## Use
    dragoman {words.verb} MODEL < input.txt > output.txt

## Limits
It has learned from the data above and nothing else: other subjects, other languages and longer texts than it
was trained on are {words.done} badly, and it states falsehoods as fluently as facts. The license of the data may
bind what the model can be used for.
"""


@dataclass(frozen=True)
class _Words:
    """What a card says of a model of one kind."""

    title: str
    layers: str
    test_set: str
    verb: str
    done: str


def _words_of(facts: BundleFacts) -> _Words:
    N, language = facts.config.N, facts.target_language or "language not known"
    match facts.stack:
        case DecoderOnly():
            return _Words(f"Language model, {language}", f"{N} layers", "TEXT", "generate", "continued")
        case EncoderOnly():
            return _Words(f"Masked language model, {language}", f"{N} layers", "TEXT", "fill", "filled in")
        case None:
            languages = f"{facts.source_language or 'source'} to {facts.target_language or 'target'}"
            return _Words(
                f"Translation model, {languages}",
                f"{N}+{N} layers",
                "SOURCE REFERENCE",
                "translate",
                "translated",
            )


def bundle_in(path: Path) -> Path:
    """The bundle meant by a path: itself, or of a run its `model`, or else its newest checkpoint.

    Raises:
        CheckpointError: there is nothing there.
    """
    if (path / MANIFEST).is_file():
        return path
    if (path / "model" / MANIFEST).is_file():
        return path / "model"
    checkpoints = path / "checkpoints"
    name = read_pointer(checkpoints / "latest")
    if name is not None and (checkpoints / name).is_dir():
        return checkpoints / name
    if found := sorted(checkpoints.glob("step-*")):
        return found[-1]
    raise CheckpointError(
        f"no model at {path}" if path.exists() else f"{path} does not exist",
        cure="give a model directory, or a run directory with a model or a checkpoint in it",
    )


def read_pointer(pointer: Path) -> str | None:
    """The name of a directory beside it that a pointer file holds, or None."""
    try:
        text = pointer.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return text if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text) else None
