"""The model bundle: one directory with all that a model needs, written whole, checked before use.

Paper: none (infrastructure)

    config.json        sizes (ModelConfig)
    model.safetensors  weights, float32 unless said
    subwords.model     SentencePiece, both languages; or source.subwords.model and target.subwords.model
    recipe.toml        how it was trained
    manifest.json      format, languages, step, standing to the paper, provenance; size and SHA-256 of each file
    README.md          the model card, for people; not checked

A checkpoint is a bundle with more files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from dragoman.data.durable import sync_file, whole_directory
from dragoman.data.manifest import Count, Digest, FileRecord, Record, file_record
from dragoman.errors import CheckpointError, VocabularyMismatch
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.provenance import provenance
from dragoman.recipe import Recipe
from dragoman.standing import standing
from dragoman.text.subwords import Subwords

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


class BundleManifest(Record):
    """What a bundle says of itself.

    Attributes:
        kind: a model to use, or a checkpoint to go on from.
        step: updates done.
        standing: one line on how it stands to the paper.
        departures: choices of another rule than the paper's.
        vocabularies: SHA-256 of the source's and the target's subwords.
        averaged: names of the checkpoints it is the average of.
        data: facts on the training corpus.
        provenance: versions and machine.
        files: size and SHA-256 of every file but the manifest and the card.
        digest: SHA-256 of this manifest with an empty digest.
    """

    format: Literal["dragoman-model"] = "dragoman-model"
    version: Literal[1] = 1
    kind: Literal["model", "checkpoint"]
    source_language: str | None
    target_language: str | None
    step: Count
    standing: str
    departures: tuple[str, ...]
    vocabularies: dict[str, Digest]
    averaged: tuple[str, ...] = ()
    data: dict[str, str | int | None]
    provenance: dict[str, str]
    files: tuple[FileRecord, ...]
    digest: str = ""

    def own_digest(self) -> str:
        """SHA-256 of the manifest without its digest."""
        text = self.model_copy(update={"digest": ""}).model_dump_json(indent=2)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class BundleFacts:
    """What is written into a bundle beside its weights.

    Attributes:
        config, recipe: sizes and rules.
        source_subwords, target_subwords: the same object where one vocabulary serves both.
        source_language, target_language: codes such as "en", or None where unknown.
        data: facts on the training corpus, for the manifest and the card.
    """

    config: ModelConfig
    recipe: Recipe
    source_subwords: Subwords
    target_subwords: Subwords
    source_language: str | None = None
    target_language: str | None = None
    data: Mapping[str, str | int | None] = field(default_factory=dict)

    @property
    def joint(self) -> bool:
        """One vocabulary serves both languages."""
        return self.source_subwords.digest == self.target_subwords.digest


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
        """
        return read_tensors(self.directory / WEIGHTS, expected=expected_shapes(self.facts.config))

    def model(self, dtype: torch.dtype = torch.float32) -> Transformer:
        """The model with its weights, in evaluation mode."""
        weights = self.weights()
        model = Transformer(self.facts.config)
        model.load_state_dict(weights)
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
        directory: where; what stands there is removed only when the new one is durable.
        facts: what goes with the weights.
        weights: by the names of `Transformer.named_parameters`.
        step: updates done.
        kind: a model, or a checkpoint.
        averaged: names of the checkpoints averaged.
        card: the model card; a short one is made where None.
        more: writes further files into the directory it is given; they are recorded too.

    Raises:
        DataError: the directory cannot be written.
    """
    with whole_directory(directory) as temporary:
        _write_files(temporary, facts, weights)
        if more is not None:
            more(temporary)
        records = tuple(file_record(path) for path in sorted(temporary.iterdir()))
        manifest = _manifest(facts, records, step=step, kind=kind, averaged=averaged)
        text = card if card is not None else short_card(facts, manifest)
        (temporary / CARD).write_text(text, encoding="utf-8", newline="\n")
        path = temporary / MANIFEST
        path.write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8", newline="\n")
        sync_file(path)


def _write_files(directory: Path, facts: BundleFacts, weights: Mapping[str, Tensor]) -> None:
    config = json.dumps(facts.config.model_dump(), indent=2) + "\n"
    (directory / CONFIG).write_text(config, encoding="utf-8", newline="\n")
    (directory / RECIPE).write_text(facts.recipe.to_toml(), encoding="utf-8", newline="\n")
    if facts.joint:
        facts.source_subwords.save(directory / JOINT_SUBWORDS)
    else:
        facts.source_subwords.save(directory / SOURCE_SUBWORDS)
        facts.target_subwords.save(directory / TARGET_SUBWORDS)
    write_tensors(directory / WEIGHTS, weights, {"vocabulary": facts.target_subwords.digest})


def _manifest(
    facts: BundleFacts,
    records: tuple[FileRecord, ...],
    *,
    step: int,
    kind: Literal["model", "checkpoint"],
    averaged: tuple[str, ...],
) -> BundleManifest:
    stands = standing(facts.recipe)
    manifest = BundleManifest(
        kind=kind,
        source_language=facts.source_language,
        target_language=facts.target_language,
        step=step,
        standing=stands.banner(facts.recipe.name),
        departures=tuple(str(d) for d in stands.departures),
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
    config = _read_config(directory / CONFIG)
    recipe = Recipe.from_file(directory / RECIPE)
    source, target = _read_subwords(directory)
    if manifest.vocabularies != {"source": source.digest, "target": target.digest}:
        raise VocabularyMismatch("the subwords are not those the manifest names", where=str(directory))
    facts = BundleFacts(
        config, recipe, source, target, manifest.source_language, manifest.target_language, manifest.data
    )
    if (config.source_rows, config.vocab_size) != (source.vocab_size, target.vocab_size):
        raise VocabularyMismatch(
            f"the model has {config.source_rows} source and {config.vocab_size} target rows, the subwords "
            f"have {source.vocab_size} and {target.vocab_size}",
            where=str(directory),
        )
    return Bundle(directory, facts, manifest)


def read_manifest(directory: Path) -> BundleManifest:
    """The manifest of a bundle, its own digest checked.

    Raises:
        CheckpointError: there is none, or it is damaged or of another version.
    """
    path = directory / MANIFEST
    try:
        manifest = BundleManifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(
            f"{directory} is not a model: it has no {MANIFEST}",
            cure="give a directory that `dragoman train` or `dragoman average` wrote",
        ) from None
    except OSError as error:
        raise CheckpointError(f"cannot read the manifest: {error.strerror}", where=str(path)) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise CheckpointError(
            f"the manifest is damaged or of another version: {field}: {first['msg']}", where=str(path)
        ) from None
    if manifest.digest != manifest.own_digest():
        raise CheckpointError("the manifest is damaged: its digest is not its own", where=str(path))
    return manifest


def check_files(directory: Path, manifest: BundleManifest) -> None:
    """Compares size and SHA-256 of every file with the manifest.

    Raises:
        CheckpointError: names the first file that is missing or differs.
    """
    for record in manifest.files:
        path = directory / record.name
        if not path.is_file():
            raise CheckpointError(f"a file is missing: {record.name}", where=str(directory))
        if path.stat().st_size != record.bytes or file_record(path) != record:
            raise CheckpointError(
                f"a file is damaged: {record.name} is not what was written",
                where=str(path),
                cure="copy it again, or use another checkpoint",
            )


def _read_config(path: Path) -> ModelConfig:
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the configuration cannot be read: {error}", where=str(path)) from None
    if not isinstance(values, dict):
        raise CheckpointError("the configuration is not a table of fields", where=str(path))
    return ModelConfig(**values)


def _read_subwords(directory: Path) -> tuple[Subwords, Subwords]:
    if (directory / JOINT_SUBWORDS).is_file():
        both = Subwords.load(directory / JOINT_SUBWORDS)
        return both, both
    return Subwords.load(directory / SOURCE_SUBWORDS), Subwords.load(directory / TARGET_SUBWORDS)


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the weights of `Transformer(config)`, without making them."""
    with torch.device("meta"):
        model = Transformer(config)
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes tensors as a safetensors file."""
    save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, path, metadata)


def read_tensors(path: Path, *, expected: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Reads a safetensors file of exactly the expected names and shapes, all numbers finite.

    Raises:
        CheckpointError: it is damaged, or something is missing, extra, of another shape or not finite.
    """
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            _compare_shapes(found, expected, path)
            tensors = {name: file.get_tensor(name) for name in expected}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"the weights cannot be read: {error}", where=str(path)) from None
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"weight {name} holds numbers that are not finite", where=str(path))
    return tensors


def _compare_shapes(
    found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]], path: Path
) -> None:
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            raise CheckpointError(
                f"tensor {name}: the file has {found.get(name, 'none')}, "
                f"the configuration asks for {expected.get(name, 'none')}",
                where=str(path),
            )


def short_card(facts: BundleFacts, manifest: BundleManifest, scores: str = "") -> str:
    """A model card: what it is, how it stands to the paper, its data, its scores, how to use it."""
    config, recipe = facts.config, facts.recipe
    languages = f"{facts.source_language or 'source'} to {facts.target_language or 'target'}"
    data = "\n".join(f"* {key}: {value}" for key, value in manifest.data.items() if value is not None)
    averaged = ", ".join(manifest.averaged) or "none"
    departures = "\n".join(f"* {d}" for d in manifest.departures) or "* none"
    return f"""# Translation model, {languages}

{manifest.standing}

A Transformer of {config.N}+{config.N} layers, d_model {config.d_model}, d_ff {config.d_ff}, {config.h} heads,
{config.vocab_size} subwords, trained with dragoman for {manifest.step} updates (recipe {recipe.name}, seed
{recipe.training.seed}). Checkpoints averaged: {averaged}.

## Departures from the paper
{departures}

## Data
{data or "* not recorded"}

## Scores
{scores or "Not scored yet: `dragoman evaluate MODEL SOURCE REFERENCE`."}

## Use
    dragoman translate MODEL < input.txt > output.txt

## Limits
It has learned from the data above and nothing else: other subjects, other languages and longer texts than it was
trained on are translated badly, and it states falsehoods as fluently as facts. The licence of the data may bind
what the model can be used for.
"""


def bundle_in(path: Path) -> Path:
    """The bundle meant by a path: itself, or of a run its `model`, or else its newest checkpoint.

    Raises:
        CheckpointError: there is nothing there.
    """
    if (path / MANIFEST).is_file():
        return path
    if (path / "model" / MANIFEST).is_file():
        return path / "model"
    pointer = path / "checkpoints" / "latest"
    try:
        return pointer.with_name(pointer.read_text(encoding="utf-8").strip())
    except OSError:
        pass
    raise CheckpointError(
        f"no model at {path}" if path.exists() else f"{path} does not exist",
        cure="give a model directory, or a run directory with a model or a checkpoint in it",
    )


