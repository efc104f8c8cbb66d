"""Models of one text beside what they replaced: n-grams with modified Kneser-Ney smoothing, of the same subwords.

The n-grams (`dragoman.predecessors.ngram`, Chen & Goodman 1999) count the training text of the prepared corpus that the
runs were trained on. Printed of a text: perplexity a subword and a word and bits a byte, of the language model and of
n-grams of several orders, all of the same tokens, ends of lines among them. And of places chosen by seed, one hidden at a
time: how often the hidden subword is the most probable one, and perplexity, of the masked model and of the longest
n-grams, which are given the same: all other tokens of the line, on both sides.

    python benchmarks/language_models.py PREPARED TEXT [--lm RUN] [--masked RUN]
        [--orders 1 3 5] [--places 500] [--seed 1] [--threads 2]
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

from measure import RESULTS, prepare_process, threads_of

from dragoman.data.prepared import PreparedCorpus, open_prepared
from dragoman.language.masked import MaskedLanguageModel
from dragoman.language.model import LanguageModel
from dragoman.predecessors.ngram import NGrams
from dragoman.provenance import provenance
from dragoman.scoring.perplexity import masked_scores, perplexities
from dragoman.scoring.score import Score
from dragoman.text.lines import read_units
from dragoman.text.subwords import Subwords

Row = tuple[str, tuple[Score, ...]]


def n_grams(corpus: PreparedCorpus, order: int) -> NGrams:
    """Of the training text."""
    units = (corpus.train.source(k).tolist() for k in range(len(corpus.train)))
    return NGrams(units, order=order, vocab_size=corpus.source_subwords.vocab_size)


def whole_texts(
    texts: Sequence[str],
    rows: Sequence[Sequence[int]],
    counted: Sequence[NGrams],
    model: LanguageModel | None,
) -> list[Row]:
    """Perplexities of each."""
    found = [
        (
            f"{ngrams.order}-grams",
            [ngrams.log_probability([*row, Subwords.EOS_ID]) for row in rows],
        )
        for ngrams in counted
    ]
    if model is not None:
        found.append(("language model", model.log_probabilities_of_ids(rows)))
    tokens = sum(len(row) + 1 for row in rows)
    return [(name, perplexities(texts, log_p, tokens, vocabulary="the same")) for name, log_p in found]


def hidden_places(
    texts: Sequence[str],
    rows: Sequence[Sequence[int]],
    ngrams: NGrams,
    model: MaskedLanguageModel,
    places: int,
    seed: int,
) -> list[Row]:
    """What each knows of tokens hidden one at a time."""
    every = [(k, place) for k, row in enumerate(rows) for place in range(len(row))]
    chosen = random.Random(seed).sample(every, min(places, len(every)))
    log_p, right = 0.0, 0
    for k, place in chosen:
        p = ngrams.between([*rows[k], Subwords.EOS_ID], place)
        log_p += math.log(p[rows[k][place]])
        right += int(p.argmax()) == rows[k][place]
    known = model.known_at(rows, chosen)
    counts = {
        f"{ngrams.order}-grams": (log_p, right),
        "masked model": (sum(one.log_probability for one in known), sum(one.right for one in known)),
    }
    return [
        (name, masked_scores(texts, log_p, right, len(chosen), vocabulary="the same"))
        for name, (log_p, right) in counts.items()
    ]


def show(rows: Sequence[Row]) -> None:
    """A table."""
    print(f"  {'':16}", *(f"{score.name:>28}" for score in rows[0][1]))
    for name, scores in rows:
        print(f"  {name:16}", *(f"{score.value:28.2f}" for score in scores), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("prepared", type=Path)
    options.add_argument("text", type=Path)
    options.add_argument("--lm", type=Path, default=None)
    options.add_argument("--masked", type=Path, default=None)
    options.add_argument("--orders", type=int, nargs="+", default=[1, 3, 5])
    options.add_argument("--places", type=int, default=500)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--threads", type=int, default=None)
    given = options.parse_args()
    prepare_process(threads_of(given.threads))
    corpus = open_prepared(given.prepared)
    texts = list(read_units(given.text))
    rows = corpus.source_subwords.encode_batch(texts)
    counted = [n_grams(corpus, order) for order in sorted(given.orders)]
    tables: list[list[Row]] = []
    model = None if given.lm is None else LanguageModel.load(given.lm)
    assert model is None or model.subwords == corpus.source_subwords, "the run is of another corpus"
    tables.append(whole_texts(texts, rows, counted, model))
    show(tables[-1])
    if given.masked is not None:
        masked = MaskedLanguageModel.load(given.masked)
        assert masked.subwords == corpus.source_subwords, "the run is of another corpus"
        tables.append(hidden_places(texts, rows, counted[-1], masked, given.places, given.seed))
        show(tables[-1])
    RESULTS.mkdir(exist_ok=True)
    found = [
        {"of": name, **score.as_dict()} for table in tables for name, scores in table for score in scores
    ]
    settings = {"orders": given.orders, "places": given.places, "seed": given.seed, "text": given.text.name}
    record = {"settings": settings, "provenance": provenance(), "found": found}
    (RESULTS / "language_models.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
