"""Positions beyond the trained length: what a model makes of texts longer than any it was trained on.

The paper's sinusoids (3.5), learned positions (row (E) of Table 3), rotary and relative positions, trained on texts of
up to 32 tokens. A text is sentences of the embedded grammar strung together, so that a longer one holds nothing new but
its length. Scored by length, up to three times the trained one: perplexity a token, exact match of whole texts, and of
the same texts translated sentence by sentence by the same model, which is within the trained length.

A learned table of 32 rows ends with training's last position, and every later one has its last row; of a table of 512
rows those beyond are there, as they were drawn before training.

    python benchmarks/positions_beyond.py [--seeds 1 2 3] [--threads 1] [--updates 2000]

Each run is a line of `results/positions_beyond.jsonl`, and is not made again where its line is there. `--short` takes a
moment and shows that all of it works.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Integer
from learning import (
    Kept,
    learned,
    markdown,
    options_of,
    prepared_grammar,
    shown,
    translations,
    write_table,
)
from measure import prepare_process

from dragoman.data.batches import make_batch
from dragoman.data.prepare import prepare
from dragoman.data.prepared import PreparedCorpus, open_prepared
from dragoman.data.shards import PairShards
from dragoman.errors import DataError
from dragoman.machine import fast_precision
from dragoman.model.config import ModelShape
from dragoman.model.transformer import Transformer
from dragoman.recipe import (
    BatchSection,
    DepartureSection,
    OptimizerSection,
    Recipe,
    SubwordSection,
    TrainingSection,
)
from dragoman.scoring.exact_match import exact_match
from dragoman.text.lines import read_units
from dragoman.training.validation import dev_loss
from dragoman.variants.departures import Departure, LearnedPositions, RelativePositions, Rope

NAME = "positions_beyond"
TRAINED = 32  # tokens of a training text at most, EOS counted: positions 0 to 31
BOUNDS = (0, 16, TRAINED, 40, 64, 96)  # lengths over the one, up to the other
POSITIONS: dict[str, tuple[Departure, ...]] = {
    "sinusoids (the paper)": (),
    f"learned, {TRAINED} rows": (LearnedPositions(length=TRAINED),),
    "learned, 512 rows": (LearnedPositions(length=512),),
    "rotary": (Rope(),),
    "relative": (RelativePositions(),),
}
BATCH = 32


@dataclass(frozen=True)
class Scale:
    """How large all of it is.

    Attributes:
        pairs, test_pairs: sentences that training texts, and those that are scored, are made of.
        texts: to train on.
        scored: texts between each two of BOUNDS.
    """

    pairs: int
    test_pairs: int
    vocab_size: int
    texts: int
    scored: int
    N: int
    d_model: int
    d_ff: int
    h: int
    tokens: int
    updates: int
    warmup: int


FULL = Scale(
    pairs=60_000,
    test_pairs=500,
    vocab_size=2_000,
    texts=40_000,
    scored=100,
    N=2,
    d_model=128,
    d_ff=256,
    h=4,
    tokens=1_024,
    updates=2_000,
    warmup=600,
)
SHORT = replace(
    FULL, pairs=500, test_pairs=50, vocab_size=800, texts=50, scored=2, N=1, d_model=16, h=2, updates=2
)


def strung(
    lengths: Integer[np.ndarray, "n 2"], count: int, *, least: int, most: int, seed: str
) -> list[list[int]]:
    """Numbers of sentences that make a text of `least` to `most` tokens on its longer side; `count` such texts.

    Args:
        lengths: of each sentence, source and target, without EOS; a text has one.
    """
    assert lengths.max(axis=1).min() < most, "no sentence is short enough"
    draw = random.Random(seed)
    found: list[list[int]] = []
    while len(found) < count:
        aim, chosen, length = draw.randint(least, most), list[int](), np.ones(2, np.int64)
        while (longer := length + lengths[k := draw.randrange(len(lengths))]).max() <= aim:
            chosen, length = [*chosen, k], longer
        if chosen and length.max() >= least:
            found.append(chosen)
    return found


@dataclass(frozen=True)
class Scored:
    """The texts that are scored, a list for each two of BOUNDS.

    Attributes:
        sources, references: sentences.
        texts: numbers of the sentences of each text.
    """

    sources: list[str]
    references: list[str]
    texts: list[list[list[int]]]

    @property
    def all_texts(self) -> list[list[int]]:
        """In the order of their lists."""
        return [text for some in self.texts for text in some]


def scored_texts(grammar: PreparedCorpus, scale: Scale) -> Scored:
    """Texts of the test set's sentences."""
    sides = [list(read_units(grammar.directory.parent / f"test.{side}")) for side in ("en", "de")]
    encoded = [grammar.source_subwords.encode_batch(side) for side in sides]
    lengths = np.array([[len(ids) for ids in side] for side in encoded]).T
    texts = [
        strung(lengths, scale.scored, least=over + 1, most=most, seed=f"scored, over {over}")
        for over, most in pairwise(BOUNDS)
    ]
    return Scored(*sides, texts)


def strung_corpus(grammar: PreparedCorpus, scored: Scored, scale: Scale, place: Path) -> PreparedCorpus:
    """Texts of up to TRAINED tokens to train on, with the grammar's subwords; the scored ones as its dev set."""
    try:
        return open_prepared(place / "prepared")
    except DataError:
        place.mkdir(parents=True, exist_ok=True)
    lengths = np.stack([grammar.train.source_lengths, grammar.train.target_lengths], axis=1) - 1
    texts = strung(lengths, scale.texts, least=1, most=TRAINED, seed="training")
    for side, sentences in (("en", scored.sources), ("de", scored.references)):
        _write(place / f"scored.{side}", scored.all_texts, sentences)
        _write(place / f"train.{side}", texts, list(read_units(grammar.directory.parent / f"train.{side}")))
    return prepare(
        place / "train.en",
        place / "train.de",
        out=place / "prepared",
        dev_source=place / "scored.en",
        dev_target=place / "scored.de",
        subwords=grammar.directory / grammar.manifest.vocabularies["source"].file,
    )


def _write(path: Path, texts: list[list[int]], sentences: list[str]) -> None:
    lines = [" ".join(sentences[k] for k in text) for text in texts]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def recipe_of(scale: Scale, positions: str, seed: int, precision: str) -> Recipe:
    """One run's rules: the paper's but for sizes, a cooldown and, where asked for, how positions are told."""
    return Recipe(
        name=NAME,
        model=ModelShape(N=scale.N, d_model=scale.d_model, d_ff=scale.d_ff, h=scale.h, P_drop=0.0),
        subwords=SubwordSection(vocab_size=scale.vocab_size),
        batch=BatchSection(
            source_tokens=scale.tokens,
            target_tokens=scale.tokens,
            max_length=TRAINED,
            tokens_at_once=scale.tokens,
        ),
        optimizer=OptimizerSection(warmup_steps=scale.warmup, cooldown=0.3),
        training=TrainingSection(max_steps=scale.updates, seed=seed, precision=precision),
        departures=DepartureSection(architecture=POSITIONS[positions]),
    )


def outcome(corpus: PreparedCorpus, recipe: Recipe, scored: Scored) -> dict[str, Any]:
    """What one run makes of each length: a list of three numbers each."""
    run = learned(corpus, recipe)
    single = translations(run.model, corpus, recipe, scored.sources, beam_size=1)
    found: dict[str, Any] = {"updates": run.updates, "seconds": run.seconds}
    found |= {"perplexity": [], "exact": [], "sentence_by_sentence": []}
    first = 0
    for some in scored.texts:
        numbers = np.arange(first, first + len(some))
        first += len(some)
        sources, references, joined = (
            [" ".join(sentences[k] for k in text) for text in some]
            for sentences in (scored.sources, scored.references, single)
        )
        whole = translations(run.model, corpus, recipe, sources, beam_size=1)
        found["perplexity"].append(_perplexity(run.model, corpus.dev, numbers))
        found["exact"].append(exact_match(whole, references).value)
        found["sentence_by_sentence"].append(exact_match(joined, references).value)
    return found


def _perplexity(model: Transformer, shards: PairShards, numbers: Integer[np.ndarray, " n"]) -> float:
    parts = np.array_split(numbers, -(-len(numbers) // BATCH))
    return dev_loss(model, (make_batch(shards, part) for part in parts), eps_ls=0.0).perplexity


def tables(runs: Sequence[dict[str, Any]]) -> str:
    """A table of perplexities and one of exact matches, a column a length, the values of all seeds."""
    lengths = [f"{over + 1} to {most}" for over, most in pairwise(BOUNDS)]
    rows: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        rows.setdefault(run["positions"], []).append(run)

    def row(name: str, some: Sequence[dict[str, Any]], field: str, digits: int) -> list[str]:
        return [name, *(shown([run[field][k] for run in some], digits) for k in range(len(lengths)))]

    perplexities = [row(name, some, "perplexity", 2) for name, some in rows.items()]
    exact = [
        row(f"{name}{said}", some, field, 0)
        for name, some in rows.items()
        for field, said in (("exact", ""), ("sentence_by_sentence", ", sentence by sentence"))
    ]
    return (
        f"{markdown(['perplexity a token', *lengths], perplexities)}\n\n"
        f"{markdown(['exact match, %', *lengths], exact)}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    given = options_of(__doc__).parse_args(arguments)
    prepare_process(given.threads)
    scale = SHORT if given.short else FULL
    scale = replace(scale, updates=given.updates or scale.updates)
    grammar = prepared_grammar(
        given.out, pairs=scale.pairs, test_pairs=scale.test_pairs, vocab_size=scale.vocab_size
    )
    scored = scored_texts(grammar, scale)
    corpus = strung_corpus(grammar, scored, scale, grammar.directory.parent / f"strung-{scale.texts}")
    precision = fast_precision(torch.device("cpu"))
    kept, runs = Kept(given.out / f"{NAME}.jsonl"), []
    settings = {"scale": asdict(scale), "threads": given.threads}
    for seed, positions in product(given.seeds, POSITIONS):
        recipe = recipe_of(scale, positions, seed, precision)
        asked = {**settings, "recipe": recipe.model_dump(mode="json")}
        found = kept.result(asked, partial(outcome, corpus, recipe, scored))
        runs.append({"positions": positions, "seed": seed, **found})
        print(runs[-1], flush=True)
    print(f"\n{tables(runs)}")
    write_table(given.out / f"{NAME}.json", settings, runs)


if __name__ == "__main__":
    main()
