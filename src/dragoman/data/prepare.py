"""From parallel text, or one text alone, to a prepared corpus: checked, cut into subwords, written whole or not at all.

Paper: 5.1
Silent: limits on length, blank lines, the dev set; here pairs with a blank side or over 1,024 tokens are left
out, counted and named, and a dev set is split off by seed when none is given.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.data.census import Census, Role, same_text, split_off_dev, take_census
from dragoman.data.choices import Choices, OnProgress, Overwrite, Progress, check_choices, check_place
from dragoman.data.durable import whole_directory
from dragoman.data.entities import Entities
from dragoman.data.inputs import Texts, file_names, languages_of, texts_of
from dragoman.data.learn import (
    GivenSubwords,
    LearningChoices,
    Vocabularies,
    as_given,
    learn_subwords,
    load_subwords,
)
from dragoman.data.manifest import Split
from dragoman.data.prepared import PreparedCorpus, open_prepared
from dragoman.data.writing import Preparation, write_prepared
from dragoman.errors import ConfigError, DataError
from dragoman.text.corpus import PairBadBytes, ParallelText, PathLike, Paths
from dragoman.text.subwords import SizePolicy

__all__ = ["PreparedCorpus", "Progress", "open_prepared", "prepare"]

MAX_UNIT_TOKENS = 1_024
FEW_PAIRS = 1_000  # below this, the report says so


def prepare(
    source: Paths,
    target: Paths | None = None,
    *,
    out: PathLike,
    columns: tuple[int, int] = (0, 1),
    one_text: bool = False,
    dev_source: Paths | None = None,
    dev_target: Paths | None = None,
    dev_size: int | None = None,
    vocab_size: int | None = None,
    size_policy: SizePolicy = "nearest",
    joint: bool = True,
    subwords: GivenSubwords | None = None,
    byte_fallback: bool = True,
    source_language: str | None = None,
    target_language: str | None = None,
    bad_bytes: PairBadBytes = "refuse",
    entities: Entities = "keep",
    max_unit_tokens: int = MAX_UNIT_TOKENS,
    seed: int = 1,
    overwrite: Overwrite = "refuse",
    on_progress: OnProgress | None = None,
) -> PreparedCorpus:
    """Prepare a parallel corpus for training.

    Everything is checked before anything is written, and `out` appears whole or not at all. Line k of the
    source and line k of the target are one pair; every pair is in the shards or is left out by number, with
    the reason, in the report.

    Args:
        source: a text file, or several to be read one after another; "-" is standard input. With no `target`,
            files of tab-separated columns.
        target: as many files, whose lines are the translations.
        out: directory to make.
        columns: the source and target columns, from 0, where there is no `target`.
        one_text: `source` has no translation: a corpus for a language model, of which each line is a sequence.
        dev_source: the dev set, given as `source` is. Without it, a dev set is split off by `seed`.
        dev_target: its translations.
        dev_size: pairs to split off; one in a hundred, at most 2,000, when None.
        vocab_size: subwords to learn, both sides together when `joint`, else each; by the number of pairs when
            None (`learn.default_vocab_size`).
        size_policy: "nearest" takes the size the corpus supports where that is not `vocab_size`; "exact"
            refuses.
        joint: one shared subword model (5.1), or one a side.
        subwords: a subword model, or one a side, to use in place of learning them.
        byte_fallback: write rare characters as bytes, so that no text is unknown.
        source_language: code of the language; taken from the end of the file's name when None.
        target_language: the same for the target.
        bad_bytes: "refuse" bytes that are not UTF-8, "skip" such pairs, or "replace" the bytes by U+FFFD.
        entities: "keep" HTML entities as text, or "unescape" them.
        max_unit_tokens: pairs with more tokens on a side, EOS counted, are left out.
        seed: chooses the dev set, and the pairs subwords are learned from if there are over 600,000.
        overwrite: "replace" a directory that `prepare` wrote, or "refuse".
        on_progress: told how far it is.

    Returns:
        The prepared corpus, opened.

    Raises:
        ConfigError: an argument is out of range, or does not go with another.
        DataError: a file is missing or not UTF-8, sides differ in length, nothing is left, or `out` is in the
            way.
        CheckpointError: a given subword model is none.
    """
    place = Path(out)
    learning = LearningChoices(vocab_size, joint, byte_fallback, size_policy, entities, seed)
    given = None if subwords is None else as_given(subwords)
    tell = on_progress or _say_nothing
    choices = Choices(given, learning, dev_size, bad_bytes, max_unit_tokens, seed, tell)
    check_choices(choices)
    if one_text and (not joint or isinstance(given, tuple)):
        raise ConfigError(
            "one text has one vocabulary, and one a side is asked for",
            where="one_text",
            cure="leave one of them out",
        )
    check_place(place, overwrite)
    texts = texts_of(source, target, dev_source, dev_target, columns, one_text)
    if texts.dev is not None and dev_size is not None:
        raise ConfigError(
            "dev_size has no meaning beside a dev set", where="dev_size", cure="give one of them"
        )
    languages = languages_of(texts.train, source_language, target_language)
    loaded = None if given is None else load_subwords(given)
    texts.count()
    censuses, notes = _take_censuses(texts, choices)
    vocabularies = loaded or _learn(censuses["train"], choices)
    made = Preparation(texts, censuses, vocabularies, choices, languages, tuple(notes))
    with whole_directory(place) as directory:
        write_prepared(directory, made)
    return open_prepared(place)


def _say_nothing(_: Progress) -> None:
    pass


def _learn(census: Census, choices: Choices) -> Vocabularies:
    choices.on_progress(Progress("learning subwords", 0, census.count(Role.TRAIN)))
    return learn_subwords(census, choices.learning)


def _take_censuses(texts: Texts, choices: Choices) -> tuple[dict[Split, Census], list[str]]:
    """The first pass over each text, and what to say about the dev set and about entities."""
    train = _census(texts.train, Role.TRAIN, choices)
    if texts.dev is not None:
        dev = _census(texts.dev, Role.DEV, choices)
        notes = _overlap_notes(train, dev)
    else:
        _check_left(train, Role.TRAIN, "train")
        split_off_dev(train, seed=choices.seed, dev_size=choices.dev_size)
        dev = train
        notes = [
            f"no dev set was given: {train.count(Role.DEV):,} of {len(train):,} {train.text.called} were split off"
            f" with seed {choices.seed} and are not trained on"
        ]
    _check_left(train, Role.TRAIN, "train")
    _check_left(dev, Role.DEV, "dev")
    return {"train": train, "dev": dev}, notes + _size_notes(train) + _entity_notes(train, choices)


def _census(text: ParallelText, role: Role, choices: Choices) -> Census:
    tick = choices.tick("reading", text.count())
    return take_census(
        text, role=role, bad_bytes=choices.bad_bytes, entities=choices.learning.entities, tick=tick
    )


def _overlap_notes(train: Census, dev: Census) -> list[str]:
    same = len(same_text(train, dev.keys[dev.roles == Role.DEV]))
    called = train.text.called
    note = f"{same:,} training {called} have the text of a dev {called[:-1]}: scores on it flatter"
    return [note] if same else []


def _size_notes(census: Census) -> list[str]:
    """What is likely a mistake, or cannot lead to a translator."""
    pairs, notes = census.count(Role.TRAIN), []
    text = census.text
    if text.one_text:
        few = f"{pairs:,} training lines are few: a model learns them by heart"
        return [few] if pairs < FEW_PAIRS else []
    sides = text.columns or (file_names(text.source), file_names(text.target))
    if sides[0] == sides[1]:
        notes.append("source and target are the same text: a model of it learns to copy, not to translate")
    if pairs < FEW_PAIRS:
        notes.append(
            f"{pairs:,} training pairs are few: a model learns them by heart; to translate other text it wants some "
            "ten thousand at the very least"
        )
    return notes


def _entity_notes(census: Census, choices: Choices) -> list[str]:
    if not census.entity_units:
        return []
    share = census.entity_units / ((1 if census.text.one_text else 2) * len(census))
    done = "turned into characters" if choices.learning.entities == "unescape" else "kept as they are"
    return [f"{census.entity_units:,} training lines ({share:.1%}) hold HTML entities, which were {done}"]


def _check_left(census: Census, role: Role, split: Split) -> None:
    if not census.count(role):
        reasons = "; ".join(census.left_out(split).lines()) or "the text is empty"
        names = ", ".join(dict.fromkeys((*file_names(census.text.source), *file_names(census.text.target))))
        raise DataError(
            f"no {census.text.called[:-1]} is left for the {split} set: {reasons}",
            where=names,
            cure=f"give texts with more {census.text.called}",
        )
