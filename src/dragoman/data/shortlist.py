"""Which target subwords a source is likely to need: a lexical table learned from parallel text.

Later: Jean et al. 2015, arXiv:1412.2007 (candidate lists for the output map)

The table is that of the first word alignment model of Brown et al. 1993, t(target | source), found by expectation
maximization from what stands in the same pairs. A translation may then consist of the likeliest subwords of each of its
source's, of the most frequent ones of all, and of the source's own where both sides share their subwords (names,
numbers). The output map, which is most of a small model's work, shrinks to those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int32, Int64
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dragoman.data.prepared import PreparedCorpus
from dragoman.data.shards import PairShards
from dragoman.errors import CHECK_ROOM, DataError, VocabularyMismatch
from dragoman.text.lines import replacing
from dragoman.text.subwords import Subwords

LIKELIEST, MOST_FREQUENT = 40, 200
ROUNDS = 5  # of expectation maximization
MOST_LINKS = 20_000_000  # pairs of a source and a target token that are looked at; some 500 MB
NONE = -1
_FORMAT = "dragoman-shortlist 1"


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Likely target subwords.

    Attributes:
        likeliest: for each source subword, best first, NONE where there are no more.
        always: subwords that any translation may hold, ascending.
        shares_subwords: both sides have the same subwords.
        digests: of the source's and the target's subwords.
    """

    likeliest: Int32[Tensor, "source_V L"]
    always: Int64[Tensor, " A"]
    shares_subwords: bool
    digests: tuple[str, str]

    def choices(self, source_ids: Sequence[int]) -> Int64[Tensor, " C"]:
        """What the translation of this source may consist of, ascending, none twice."""
        source = torch.tensor(source_ids)
        likely = self.likeliest[source].flatten().long()
        own = source if self.shares_subwords else source[:0]
        found: Tensor = torch.unique(torch.cat([self.always, likely[likely != NONE], own]))
        return found

    def save(self, path: Path) -> None:
        """Writes a file, whole or not at all.

        Raises:
            DataError: it cannot be written.
        """
        facts = {"format": _FORMAT, "source": self.digests[0], "target": self.digests[1]}
        content = save({"likeliest": self.likeliest, "always": self.always}, facts)
        try:
            with replacing(path) as stream:
                stream.write(content)
        except OSError as error:
            raise DataError(
                f"the file cannot be written: {error.strerror or error}",
                where=str(path),
                cure=CHECK_ROOM,
            ) from error

    @classmethod
    def load(cls, path: Path, *, source_subwords: Subwords, target_subwords: Subwords) -> Shortlist:
        """Reads a file for a model with these subwords.

        Raises:
            DataError: it cannot be read, or is not a shortlist.
            VocabularyMismatch: it is of other subwords.
        """
        cure = "make it anew: dragoman shortlist PREPARED --out FILE"
        try:
            with safe_open(path, framework="pt") as file:
                facts = file.metadata() or {}
                if facts.get("format") != _FORMAT:
                    raise DataError("this is not a shortlist", where=str(path), cure=cure)
                likeliest, always = file.get_tensor("likeliest"), file.get_tensor("always")
        except (OSError, SafetensorError) as error:
            raise DataError(f"the shortlist cannot be read: {error}", where=str(path), cure=cure) from None
        digests = (source_subwords.digest, target_subwords.digest)
        if (facts.get("source"), facts.get("target")) != digests:
            raise VocabularyMismatch(
                "the shortlist is of other subwords than the model", where=str(path), cure=cure
            )
        V = target_subwords.vocab_size
        fits = (
            likeliest.dtype == torch.int32
            and likeliest.dim() == 2
            and len(likeliest) == source_subwords.vocab_size
        )
        fits = fits and always.dtype == torch.int64 and always.dim() == 1 and bool((always.diff() > 0).all())
        for ids, least in ((likeliest, NONE), (always, 0)):
            fits = fits and (ids.numel() == 0 or least <= int(ids.min()) <= int(ids.max()) < V)
        if not fits or Subwords.EOS_ID not in always:
            raise DataError("the shortlist is damaged", where=str(path), cure=cure)
        return cls(likeliest, always, digests[0] == digests[1], digests)


def learn_shortlist(
    corpus: PreparedCorpus, *, likeliest: int = LIKELIEST, most_frequent: int = MOST_FREQUENT
) -> Shortlist:
    """From the training pairs of a prepared corpus; of a big one from some, evenly spread.

    Args:
        corpus: prepared text.
        likeliest: subwords kept for each source subword.
        most_frequent: subwords that any translation may hold.
    """
    V = corpus.target_subwords.vocab_size
    source, target, links = _links(corpus.train)
    table = _likeliest(source, target, links, corpus.source_subwords.vocab_size, V, likeliest)
    counts = np.bincount(target, minlength=V)
    frequent = torch.from_numpy(np.argsort(-counts, kind="stable")[:most_frequent].copy())
    forbidden = torch.tensor(corpus.target_subwords.forbidden_ids, dtype=torch.int64)
    always = torch.unique(torch.cat([frequent, torch.tensor([Subwords.EOS_ID])]))
    always = always[~torch.isin(always, forbidden)]
    digests = (corpus.source_subwords.digest, corpus.target_subwords.digest)
    return Shortlist(table, always, digests[0] == digests[1], digests)


@dataclass(frozen=True)
class _Links:
    """Each pair of a source and a target token of one sentence pair.

    Attributes:
        source, target: ids.
        place: which target token of all, from 0.
    """

    source: Int64[np.ndarray, " n"]
    target: Int64[np.ndarray, " n"]
    place: Int64[np.ndarray, " n"]


def _links(pairs: PairShards) -> tuple[Int64[np.ndarray, "_"], Int64[np.ndarray, "_"], _Links]:
    """Source and target tokens of the pairs that are looked at, and their links."""
    S, T = (np.asarray(lengths, dtype=np.int64) for lengths in (pairs.source_lengths, pairs.target_lengths))
    every = max(1, -(-int((S * T).sum()) // MOST_LINKS))
    numbers = range(0, len(pairs), every)
    sources, targets, of_links = [], [], []
    first = 0
    for number in numbers:
        source, target = (
            np.asarray(ids, dtype=np.int64) for ids in (pairs.source(number), pairs.target(number))
        )
        place = np.arange(first, first + len(target))
        of_links.append(
            (np.tile(source, len(target)), np.repeat(target, len(source)), np.repeat(place, len(source)))
        )
        sources.append(source)
        targets.append(target)
        first += len(target)
    joined = [np.concatenate(column) for column in zip(*of_links, strict=True)]
    return np.concatenate(sources), np.concatenate(targets), _Links(*joined)


def _likeliest(
    source: Int64[np.ndarray, "_"],
    target: Int64[np.ndarray, "_"],
    links: _Links,
    source_V: int,
    V: int,
    count: int,
) -> Int32[Tensor, "source_V count"]:
    codes, which = np.unique(links.source * V + links.target, return_inverse=True)
    t = translation_table(which, links.place, codes // V)
    table = np.full((source_V, count), NONE, dtype=np.int32)
    order = np.lexsort((codes % V, -t, codes // V))  # by source, then likeliest first, then the smaller id
    by_source = codes[order] // V
    edges = np.searchsorted(by_source, np.arange(source_V + 1))
    for word, (first, last) in enumerate(pairwise(edges)):
        best = codes[order[first : min(last, first + count)]] % V
        table[word, : len(best)] = best
    return torch.from_numpy(table)


def translation_table(
    which: Int64[np.ndarray, " links"],
    place: Int64[np.ndarray, " links"],
    source_of: Int64[np.ndarray, " codes"],
) -> Float[np.ndarray, " codes"]:
    """t(target | source) of each code, a code being a source and a target subword that meet (Brown et al. 1993, model 1).

    Args:
        which: the code of each link.
        place: the target token of each link.
        source_of: the source subword of each code.
    """
    t = np.ones(len(source_of))
    for _ in range(ROUNDS):
        share = t[which] / np.bincount(place, t[which])[place]  # of a target token, among the source's tokens
        counts = np.bincount(which, share, minlength=len(source_of))
        t = counts / np.bincount(source_of, counts)[source_of]
    return t
