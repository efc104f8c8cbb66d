"""English-German sentence pairs from the embedded grammar: as many as asked for, in three splits, with word
alignments.

Paper: none (infrastructure)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.text.grammar import english, german
from dragoman.text.grammar.capacity import capacity
from dragoman.text.grammar.held_out import SPLITS, Split, split_of
from dragoman.text.grammar.sentences import Sentences
from dragoman.text.grammar.syntax import Sentence, Word

# An ordinal like "3." is one word; so are "o'clock", "brother's" and "twenty-one".
_WORD = re.compile(r"\d+\.(?= )|\w+(?:['-]\w+)*|[^\w\s]")


def words_of(text: str) -> tuple[str, ...]:
    """A text's words and punctuation marks, as the alignments count them."""
    return tuple(_WORD.findall(text))


def text_of(words: Iterable[str]) -> str:
    """Words as a line of text: spaces between, none before punctuation, a capital first."""
    text = " ".join(words)
    for mark in ",.?":
        text = text.replace(f" {mark}", mark)
    return text[:1].upper() + text[1:]


@dataclass(frozen=True, slots=True)
class GrammarPair:
    """A sentence and its translation.

    Attributes:
        source: the English sentence.
        target: the German sentence.
        alignment: pairs of positions, in `source_words` and in `target_words`, of words that translate each
            other; sorted.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]

    @property
    def source_words(self) -> tuple[str, ...]:
        """The source's words and punctuation marks."""
        return words_of(self.source)

    @property
    def target_words(self) -> tuple[str, ...]:
        """The target's words and punctuation marks."""
        return words_of(self.target)


def generate(n: int, *, seed: int = 1, split: Split = "train") -> list[GrammarPair]:
    """The first `n` pairs of `stream`.

    Args:
        n: how many pairs.
        seed: what the sentences are drawn with; which split a sentence belongs to does not depend on it.
        split: "train", "dev" or "test".

    Returns:
        Pairs with distinct sources, the same in every process and for every larger `n`.

    Raises:
        ConfigError: for an unknown split, a negative `n`, or one beyond `capacity(split)`.
    """
    if split not in SPLITS:
        raise ConfigError(
            f"There is no split {split!r}.", where="split", cure=f"Use one of {', '.join(SPLITS)}."
        )
    if n < 0:
        raise ConfigError(f"{n} pairs cannot be made.", where="n", cure="Ask for 0 or more.")
    if n > (possible := capacity(split)):
        cure = f"Ask for at most {possible:,}."
        raise ConfigError(
            f"The grammar cannot promise {n:,} pairs of {split}; {possible:,} are possible.",
            where="n",
            cure=cure,
        )
    return list(islice(stream(seed=seed, split=split), n))


def stream(*, seed: int = 1, split: Split = "train") -> Iterator[GrammarPair]:
    """Pairs with distinct sources, without end.

    Args:
        seed: what the sentences are drawn with.
        split: which split's sentences to give; see `held_out` for how they are told apart.
    """
    seen: set[str] = set()
    sentences = Sentences(f"dragoman grammar, seed {seed}, {split}")
    while True:
        tree = sentences.draw()
        if split_of(tree) != split:
            continue
        pair = translate(tree)
        if pair.source not in seen:
            seen.add(pair.source)
            yield pair


def translate(tree: Sentence) -> GrammarPair:
    """Word a tree in both languages, and align the words that stand for the same nodes."""
    source, target = english.sentence(tree), german.sentence(tree)
    texts = [text_of(word.text for word in words) for words in (source, target)]
    return GrammarPair(texts[0], texts[1], _alignment(source, target))


def _alignment(source: list[Word], target: list[Word]) -> tuple[tuple[int, int], ...]:
    places: dict[str, list[int]] = {}
    for j, word in enumerate(target):
        for node in word.nodes:
            places.setdefault(node, []).append(j)
    return tuple(
        sorted({(i, j) for i, word in enumerate(source) for node in word.nodes for j in places.get(node, ())})
    )


def write_corpus(directory: Path | str, *, train: int, dev: int, test: int, seed: int = 1) -> None:
    """Write `train.en`, `train.de`, `dev.en` ... `test.de`: UTF-8, a sentence a line, every line ended by LF.

    Args:
        directory: where to; made if it does not exist.
        train: pairs in the training split.
        dev: pairs in the development split.
        test: pairs in the test split.
        seed: as for `generate`.

    Raises:
        ConfigError: as for `generate`.
    """
    sizes: dict[Split, int] = {"train": train, "dev": dev, "test": test}
    corpora = {split: generate(n, seed=seed, split=split) for split, n in sizes.items()}
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for split, pairs in corpora.items():
        _write(directory / f"{split}.en", [pair.source for pair in pairs])
        _write(directory / f"{split}.de", [pair.target for pair in pairs])


def _write(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
