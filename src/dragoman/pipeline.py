"""Whole steps as functions: train, average, evaluate. The command line calls these and prints.

Paper: 5, 6
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from dragoman.bundle import MANIFEST, BundleFacts
from dragoman.data.batches import (
    Batch,
    BatchLoader,
    BatchPlan,
    Objective,
    bpe_dropout_segmenter,
    dev_batches,
)
from dragoman.data.durable import only_one
from dragoman.data.prepared import DevTexts, PreparedCorpus, open_prepared
from dragoman.errors import ConfigError
from dragoman.fidelity.measure import measure
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.recipe import CHANGED, Recipe
from dragoman.recipes.choose import choose_language_model, choose_recipe
from dragoman.scoring.bleu import bleu
from dragoman.scoring.chrf import chrf
from dragoman.scoring.exact_match import exact_match
from dragoman.scoring.paper_bleu import paper_bleu
from dragoman.scoring.score import Score
from dragoman.text.subwords import Subwords
from dragoman.training.allocator import tune_process
from dragoman.training.averaging import average_checkpoints, last_checkpoints
from dragoman.training.checkpoint import (
    Checkpoint,
    newest_checkpoint,
    remove_unfinished,
    write_durably,
)
from dragoman.training.events import Emit, Event, JsonLines, Said, TensorBoard
from dragoman.training.learner import Learner
from dragoman.training.stopping import stop_on_signals
from dragoman.training.trainer import TEXT_DIGEST, Task, Trainer
from dragoman.translator import Precision, Translation, Translator, usable_device
from dragoman.variants.decoder_only import next_token
from dragoman.variants.departures import DecoderOnly, EncoderOnly, stack_of
from dragoman.variants.encoder_only import hide

RECIPE_FILE, EVENTS_FILE, CHECKPOINTS, MODEL = "recipe.toml", "events.jsonl", "checkpoints", "model"

# What may change when a run goes on: limits and habits, never what is computed.
CHANGEABLE_ON_RESUME = (
    "training.max_steps",
    "training.max_minutes",
    "training.patience",
    "training.checkpoint_minutes",
    "training.checkpoint_steps",
    "training.keep_checkpoints",
    "training.validate_steps",
    "training.validation_sentences",
    "training.log_steps",
    "search.average_checkpoints",
)
# What a run takes from its corpus, whatever its recipe asks for.
OF_THE_CORPUS = ("subwords.vocab_size", "subwords.joint", "model.shared_embeddings")
DEV_EPOCH = (
    2**32 - 1
)  # that no training comes to: what is hidden in the dev set is the same at each validation


@dataclass(frozen=True)
class TrainedRun:
    """What `train` left behind.

    Attributes:
        directory: the run: recipe.toml, events.jsonl, checkpoints/ and model/.
        model: the averaged model, or None if training was stopped by a signal before its end.
        reason: why it ended: "steps", "minutes", "patience" or "signal".
        recipe: what it followed.
    """

    directory: Path
    model: Path | None
    reason: str
    recipe: Recipe

    @property
    def interrupted(self) -> bool:
        """A signal stopped it; it can go on with `resume`."""
        return self.reason == "signal"


@dataclass(frozen=True)
class Evaluation:
    """Scores of one translation of a test set."""

    scores: tuple[Score, ...]
    translations: tuple[Translation, ...]
    standing: str

    @property
    def truncated(self) -> int:
        """Units whose translation the length limit cut."""
        return sum(t.truncated for t in self.translations)


def train(
    prepared: PreparedCorpus | str | Path,
    out: str | Path,
    *,
    recipe: Recipe | None = None,
    changes: Sequence[str] = (),
    resume: bool = False,
    device: str = "cpu",
    tensorboard: bool = False,
    on_event: Callable[[Event], None] | None = None,
) -> TrainedRun:
    """Trains a model on a prepared corpus and averages its last checkpoints.

    Args:
        prepared: what `prepare` wrote.
        out: directory of the run; must be new or empty unless `resume`.
        recipe: the rules; chosen from the corpus and the machine where None.
        changes: `section.field=value` changes to the recipe.
        resume: go on from the newest whole checkpoint in `out`, with the recipe stored there; only limits
            may then be changed, by `changes` or by a `recipe` that is the same but for them.
        device: "cpu", "cuda", ...
        tensorboard: write scalars for TensorBoard into the run as well (extra `tensorboard`).
        on_event: told of every event.

    Raises:
        ConfigError: the recipe, a change or the device is not usable, or `out` is in the way.
        DataError: the prepared corpus is damaged (every byte of it is checked first).
        CheckpointError: nothing whole to resume from, or it is of another corpus.
        NonFiniteLoss: training diverged.
    """
    tune_process()
    corpus = prepared if isinstance(prepared, PreparedCorpus) else open_prepared(prepared)
    place, where = usable_device(device), Path(out)
    notes: list[Event] = []  # until there is a log to write them to
    chosen = _recipe_for(corpus, where, recipe, changes, resume=resume, device=place, tell=notes.append)
    _check_place(where, resume=resume)
    corpus.verify()
    where.mkdir(parents=True, exist_ok=True)
    with ExitStack() as open_logs:
        open_logs.enter_context(only_one(where))
        _check_place(where, resume=resume)  # what another has written before it let go
        every = chosen.training.log_steps
        logs: list[Emit] = [
            open_logs.enter_context(
                closing(JsonLines(where / EVENTS_FILE, every_steps=every, anew=not resume))
            )
        ]
        if tensorboard:
            board = TensorBoard(where / "tensorboard", every_steps=every)
            logs.append(open_logs.enter_context(closing(board)))
        if on_event is not None:
            logs.append(on_event)

        def emit(event: Event) -> None:
            for log in logs:
                log(event)

        for note in notes:
            emit(note)
        with stop_on_signals() as stop:
            trainer = _trainer(corpus, where, chosen, place, emit, resume=resume)
            write_durably(where / RECIPE_FILE, chosen.to_toml())
            reason = trainer.run(stop)
        last = chosen.search.average_checkpoints
        model = None if reason == "signal" else average(where, where / MODEL, last=last, overwrite=True)
    return TrainedRun(where, model, reason, chosen)


def average(
    run: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    last: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Averages checkpoints into a model bundle.

    Args:
        run: a run, of which the `last` checkpoints are averaged, or checkpoints by name.
        out: the bundle to write.
        last: how many; 5 where None.
        overwrite: replace a model that stands at `out`.

    Raises:
        ConfigError: something stands at `out` that is not to be replaced, or the arguments do not go together.
        CheckpointError: there is no checkpoint, or they do not fit together.
    """
    if not overwrite and (Path(out) / MANIFEST).is_file():
        raise ConfigError(f"{out} is a model already", cure="choose another directory, or give --overwrite")
    if isinstance(run, str | Path):
        return average_checkpoints(last_checkpoints(Path(run), 5 if last is None else last), Path(out))
    if last is not None:
        raise ConfigError(
            "both checkpoints by name and a number of last ones were given", cure="give one of the two"
        )
    return average_checkpoints([Path(path) for path in run], Path(out))


def evaluate(
    model: Translator | str | Path,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    beam_size: int | None = None,
    alpha: float | None = None,
    device: str = "cpu",
    precision: Precision = "fp32",
    target_language: str | None = None,
    with_paper_bleu: bool = False,
    on_batch: Callable[[int], None] | None = None,
) -> Evaluation:
    """Translates a test set and scores the result.

    Args:
        model: a translator, or a model's directory.
        sources: units of the test set.
        references: one translation of each.
        beam_size, alpha: of the search; as the model's recipe has them where None.
        device, precision: where `model` is a directory.
        target_language: chooses the tokenizer of BLEU; the model's own where None.
        with_paper_bleu: also the paper's measure.
        on_batch: told how many units are done.

    Raises:
        ConfigError, CheckpointError: as `Translator.load` and `Translator.translate`.
        DataError: the numbers of units differ.
    """
    if len(sources) != len(references):
        exact_match(sources, references)  # raises the error that names both counts
    translator = (
        model if isinstance(model, Translator) else Translator.load(model, device=device, precision=precision)
    )
    language = target_language or translator.target_language
    translations: list[Translation] = []
    for chunk in chunks(sources):
        translations += translator.translate(chunk, beam_size=beam_size, alpha=alpha)
        if on_batch is not None:
            on_batch(len(translations))
    texts = [t.text for t in translations]
    scores = [bleu(texts, references, target_language=language), chrf(texts, references)]
    scores.append(exact_match(texts, references))
    if with_paper_bleu:
        scores.append(paper_bleu(texts, references, target_language=language or "en"))
    search = _search_signature(translator, beam_size, alpha)
    signed = tuple(replace(score, signature=f"{score.signature}|{search}") for score in scores)
    return Evaluation(signed, tuple(translations), translator.standing)


def _search_signature(translator: Translator, beam_size: int | None, alpha: float | None) -> str:
    """What the translations were made with, in the style of sacreBLEU's signatures: the search; departures if any."""
    search = translator.search
    beam_size = search.beam_size if beam_size is None else beam_size
    alpha = search.alpha if alpha is None else alpha
    longest = f"source+{search.max_extra}" if translator.rules.limit is None else "by departure"
    signature = f"beam:{beam_size}|alpha:{alpha}|max:{longest}"
    if translator.products != "fp32":
        signature += f"|products:{translator.products}"
    if translator.shortlist is not None:
        signature += (
            f"|shortlist:{translator.shortlist.likeliest.shape[1]}+{len(translator.shortlist.always)}"
        )
    if translator.departures:
        signature += f"|departures:{'; '.join(translator.departures)}"
    return signature


def chunks(units: Sequence[str], size: int = 2_000) -> Iterator[Sequence[str]]:
    """Runs of units: enough to sort by length, few enough to hold their translations."""
    for start in range(0, len(units), size):
        yield units[start : start + size]


def _recipe_for(
    corpus: PreparedCorpus,
    out: Path,
    recipe: Recipe | None,
    changes: Sequence[str],
    *,
    resume: bool,
    device: torch.device,
    tell: Callable[[Event], None],
) -> Recipe:
    if resume:
        return _stored_recipe(out, recipe, changes)
    if recipe is None:
        limit = [change for change in changes if change.partition("=")[0].strip() == "training.max_minutes"]
        minutes = Recipe().with_changes(limit).training.max_minutes
        choose = choose_language_model if corpus.one_text else choose_recipe
        choice = choose(corpus, device, max_minutes=minutes)
        tell(
            Said(
                f"recipe {choice.recipe.name} ({choice.recipe.training.precision}) chosen for "
                f"{choice.reason}: about {choice.expected_time} expected; --recipe chooses another"
            )
        )
        recipe = choice.recipe
    if not corpus.joint and recipe.model.shared_embeddings:
        tell(Said("the corpus has a vocabulary for each language: embeddings are not shared"))
        changes = ["model.shared_embeddings=false", *changes]
    return _as_prepared(recipe.with_changes(changes), corpus, tell)


def _as_prepared(recipe: Recipe, corpus: PreparedCorpus, tell: Callable[[Event], None]) -> Recipe:
    """The recipe with the subwords the corpus has, so that what is stored and said of the run is true."""
    stack = stack_of(recipe.departures.architecture)
    if corpus.one_text != (stack is not None):
        what = "one text" if corpus.one_text else "pairs"
        model = "both stacks, for pairs" if stack is None else f"{stack.name}, for one text"
        raise ConfigError(
            f"the corpus is of {what}, and the model of the recipe is of {model}",
            where=f"{corpus.directory}; recipe {recipe.name}",
            cure="take the recipe lm or masked-lm"
            if corpus.one_text
            else "prepare one text (dragoman prepare TEXT --one-text), or leave the departure out",
        )
    if recipe.model.shared_embeddings and not corpus.joint:
        raise ConfigError(
            "shared embeddings need one vocabulary, and the corpus has one for each language",
            where="model.shared_embeddings = true",
            cure="leave it out, or prepare the corpus with a joint vocabulary",
        )
    size, asked = corpus.target_subwords.vocab_size, recipe.subwords.vocab_size
    if abs(size - asked) > 0.05 * asked:
        tell(
            Said(
                f"vocabulary: the {size:,} subwords of the corpus (recipe {recipe.name} alone would take {asked:,})"
            )
        )
    return recipe.with_changes(
        [f"subwords.vocab_size={size}", f"subwords.joint={'true' if corpus.joint else 'false'}"]
    )


def _stored_recipe(out: Path, recipe: Recipe | None, changes: Sequence[str]) -> Recipe:
    if not (out / RECIPE_FILE).is_file():
        raise ConfigError(f"there is no run to go on with in {out}", cure="start it without --resume")
    stored = Recipe.from_file(out / RECIPE_FILE)
    asked = (recipe or stored).with_changes(changes)
    # The run's own recipe has the subwords of its corpus.
    for field, before, now in _changed_rules(stored, asked):
        if recipe is None or field not in OF_THE_CORPUS:
            raise ConfigError(
                f"{field} cannot change when a run goes on: it is {before}, not {now}",
                where=str(out / RECIPE_FILE),
                cure=f"start a new run; these can change: {', '.join(CHANGEABLE_ON_RESUME)}",
            )
    limits = {field: _field(asked, field) for field in CHANGEABLE_ON_RESUME}
    values = stored.model_dump()
    for field, value in limits.items():
        section, _, name = field.partition(".")
        values[section][name] = value
    return Recipe(**values)


def _changed_rules(then: Recipe, now: Recipe) -> Iterator[tuple[str, object, object]]:
    """Fields that differ and may not: each with its value then and now."""
    # Names that differ in this alone have sizes that differ, which are told by themselves.
    if then.name.removesuffix(CHANGED) != now.name.removesuffix(CHANGED):
        yield "name", then.name, now.name
    for section, fields in now.model_dump(exclude={"name", "description"}).items():
        for name in fields:
            field = f"{section}.{name}"
            before, value = _field(then, field), _field(now, field)
            if value != before and field not in CHANGEABLE_ON_RESUME:
                yield field, _said(before), _said(value)


def _field(recipe: Recipe, path: str) -> object:
    section, _, name = path.partition(".")
    return getattr(getattr(recipe, section), name)


def _said(value: object) -> object:
    """A list of departures in words; anything else as it is."""
    return (", ".join(map(str, value)) or "none") if isinstance(value, tuple) else value


def _check_place(out: Path, *, resume: bool) -> None:
    if resume or not out.exists():
        return
    if not out.is_dir():
        raise ConfigError(f"{out} is a file", cure="choose another directory")
    # A run that failed before its first checkpoint leaves nothing worth keeping. Its log is its first file: a
    # recipe alone is somebody's own.
    names = {path.name for path in out.iterdir()}
    if names and not {EVENTS_FILE} <= names <= {EVENTS_FILE, RECIPE_FILE}:
        raise ConfigError(
            f"{out} is not empty",
            cure="choose another directory, or --resume to go on with the run in it",
        )


def _trainer(
    corpus: PreparedCorpus, out: Path, recipe: Recipe, device: torch.device, emit: Emit, *, resume: bool
) -> Trainer:
    plan = BatchPlan.of(
        corpus.train,
        source_tokens=recipe.batch.source_tokens,
        target_tokens=recipe.batch.target_tokens,
        seed=recipe.training.seed,
        max_length=min(recipe.batch.max_length, recipe.batch.source_tokens, recipe.batch.target_tokens),
    )
    for note in plan.notes:
        emit(Said(note))
    checkpoint = None
    if resume:
        remove_unfinished(out / CHECKPOINTS)
        checkpoint = newest_checkpoint(out / CHECKPOINTS, lambda text: emit(Said(text)))
        _check_same_rules(checkpoint, recipe, out)
        emit(Said(f"going on from {checkpoint.name}"))
    task = Task(
        loader=BatchLoader(
            corpus.train, plan, segment=_segmenter(corpus, recipe), objective=_objective(corpus, recipe)
        ),
        dev=_dev(corpus, recipe),
        translate_dev=_dev_bleu(corpus, recipe, device),
        facts=_facts(corpus, recipe),
        checkpoints=out / CHECKPOINTS,
        device=device,
    )
    return Trainer(task, recipe, emit, resume=checkpoint)


def _check_same_rules(checkpoint: Checkpoint, recipe: Recipe, out: Path) -> None:
    """The recipe file of a run may have been edited since the checkpoint was written; what is done stays done."""
    if checkpoint.place.step > recipe.training.max_steps:
        raise ConfigError(
            f"the run has made {checkpoint.place.step:,} updates already",
            where=f"training.max_steps = {recipe.training.max_steps}",
            cure="give a higher number, or average its checkpoints",
        )
    then = checkpoint.bundle.facts.recipe
    if then.training_rules.decay is not None and recipe.training.max_steps != then.training.max_steps:
        raise ConfigError(
            f"the rate falls until update {then.training.max_steps:,}: the run cannot be given another end",
            where=f"training.max_steps = {recipe.training.max_steps}",
            cure="start a new run",
        )
    for field, before, now in _changed_rules(then, recipe):
        raise ConfigError(
            f"{field} is {now}, but was {before} when {checkpoint.name} was written: it cannot change when a "
            "run goes on",
            where=str(out / RECIPE_FILE),
            cure=f"set it back to {before}, or start a new run",
        )


def _segmenter(corpus: PreparedCorpus, recipe: Recipe) -> Callable[..., list[int]] | None:
    p = recipe.subwords.dropout
    if p == 0.0:
        return None
    seed = recipe.training.seed
    return bpe_dropout_segmenter(corpus.source_subwords, corpus.target_subwords, p=p, seed=seed)


def _dev(corpus: PreparedCorpus, recipe: Recipe) -> Callable[[], Iterator[Batch]] | None:
    if not len(corpus.dev):
        return None
    tokens, objective = (
        min(recipe.batch.target_tokens, recipe.batch.tokens_at_once),
        _objective(corpus, recipe),
    )

    def batches() -> Iterator[Batch]:
        for batch in dev_batches(corpus.dev, tokens):
            yield batch if objective is None else objective(batch, DEV_EPOCH)

    return batches


def _objective(corpus: PreparedCorpus, recipe: Recipe) -> Objective | None:
    """What a model of one text learns from; None where a target is learned from its source."""
    match stack_of(recipe.departures.architecture):
        case DecoderOnly():
            return lambda batch, _epoch: next_token(batch)
        case EncoderOnly(share=share):
            vocab_size, seed = corpus.source_subwords.vocab_size, recipe.training.seed
            return lambda batch, epoch: hide(
                batch, vocab_size=vocab_size, share=share, seed=seed, epoch=epoch
            )
        case None:
            return None


def _dev_bleu(
    corpus: PreparedCorpus, recipe: Recipe, device: torch.device
) -> Callable[[Learner], float] | None:
    count = min(recipe.training.validation_sentences, len(corpus.dev))
    if count == 0 or corpus.one_text:
        return None
    texts = corpus.dev_texts()
    texts = DevTexts(texts.sources[:count], texts.targets[:count])

    def measure(model: Learner) -> float:
        assert isinstance(model, Transformer)
        translator = Translator(
            model,
            corpus.source_subwords,
            corpus.target_subwords,
            max_source_tokens=recipe.batch.max_length,
            search=recipe.search,
            rules=recipe.search_rules,
            _device=device,
        )
        output = [t.text for t in translator.translate(texts.sources, beam_size=1)]
        return bleu(output, texts.targets, target_language=_bleu_language(corpus.target_language)).value

    return measure


def _bleu_language(language: str | None) -> str | None:
    """During training a rough figure is enough: without the tokenizers of Japanese and Korean."""
    return None if language is None or language[:2] in ("ja", "ko") else language


def _facts(corpus: PreparedCorpus, recipe: Recipe) -> BundleFacts:
    source, target = corpus.source_subwords, corpus.target_subwords
    config = ModelConfig.from_shape(
        recipe.model,
        vocab_size=target.vocab_size,
        source_vocab_size=source.vocab_size,
        pad_id=Subwords.PAD_ID,
    )
    record = corpus.manifest.splits["train"]
    origin = corpus.manifest.origin
    data: dict[str, str | int | None] = {
        "training pairs": record.pairs,
        "source tokens": record.source_tokens,
        "target tokens": record.target_tokens,
        "dev pairs": len(corpus.dev),
        "source files": None if origin is None else ", ".join(origin.source_files),
        "target files": None if origin is None else ", ".join(origin.target_files),
    }
    if corpus.one_text:
        data = {
            "training lines": record.pairs,
            "tokens": record.source_tokens,
            "dev lines": len(corpus.dev),
            "files": data["source files"],
        }
    data[TEXT_DIGEST] = _text_digest(corpus)
    return BundleFacts(
        config,
        recipe,
        source,
        target,
        corpus.source_language,
        corpus.target_language,
        data,
        standing=measure(recipe, subwords=target),
    )


def _text_digest(corpus: PreparedCorpus) -> str:
    """Of the shards trained on, from their digests in the corpus's manifest."""
    shards = [
        f"{file.name} {file.sha256}" for file in corpus.manifest.files if file.name.startswith("train.")
    ]
    return hashlib.sha256("\n".join(sorted(shards)).encode()).hexdigest()
