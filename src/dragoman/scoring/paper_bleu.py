"""The paper's own BLEU: Moses tokens, compounds split at hyphens, multi-bleu. Not sacreBLEU's, and higher.

Paper: 6.1 (Table 2)
Silent: how Table 2's BLEU was computed. We take the script the authors' group published for English-German in
June 2017 (replace-unicode-punctuation, Moses tokenizer, split at hyphens, multi-bleu), for all languages.

Compare such a score with published numbers of that kind only; between systems of today use sacreBLEU.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.scoring.abbreviations import has_own_list
from dragoman.scoring.languages import primary_language
from dragoman.scoring.moses import replace_unicode_punctuation, tokenize
from dragoman.scoring.multi_bleu import (
    ORDERS,
    STATISTICS,
    MultiBleu,
    bleu_of_statistics,
    sentence_statistics,
    tokens,
)
from dragoman.scoring.score import References, Score, Segments, check_segments

LABEL = "paper (Vaswani et al. 2017: Moses tokens, compounds split, multi-bleu)"
_REVISION = 1
_NOTICE = "this is the paper's measure, not sacreBLEU: compare it with published scores of this kind only"

# The published script splits bytes, not characters, which matters at a lone non-ASCII letter: "a-ä-b" is
# split twice, "a-o-b" once, since the "o" ends the first match and cannot begin the second.
_HYPHEN = re.compile(rb"(\S)-(\S)")
_SPLIT_HYPHEN = rb"\1 ##AT##-##AT## \2"


def split_compounds(text: str) -> str:
    """Split tokens at hyphens: "E-Mail" becomes "E ##AT##-##AT## Mail".

    Args:
        text: tokens with spaces between them.

    Returns:
        The same with every hyphen that stands between two non-spaces made a token of its own.
    """
    split = _HYPHEN.sub(_SPLIT_HYPHEN, text.encode("utf-8", "surrogatepass"))
    return split.decode("utf-8", "surrogatepass")


def paper_tokens(text: str, *, target_language: str, tokenized: bool = False) -> tuple[str, ...]:
    """Return the tokens that the paper's BLEU compares.

    Args:
        text: one unit.
        target_language: code of its language; it chooses the Moses rules.
        tokenized: whether the unit is Moses-tokenized already, XML characters escaped; it is then only split.

    Returns:
        The tokens, compounds split.
    """
    if not tokenized:
        language = primary_language(target_language)
        text = tokenize(replace_unicode_punctuation(text), language=language)
    return tokens(split_compounds(text))


def paper_bleu(
    hypotheses: Sequence[str],
    references: References,
    *,
    target_language: str,
    tokenized: bool = False,
    hypothesis_name: str | None = None,
    reference_name: str | None = None,
) -> Score:
    """Score translations as the paper's authors did.

    Args:
        hypotheses: N units.
        references: N units, or several lists of N units, one list for each reference translation.
        target_language: code of the target language; it chooses the Moses rules.
        tokenized: whether both sides are Moses-tokenized already; they are then only split at hyphens.
        hypothesis_name: what to call the hypotheses in an error, such as their file.
        reference_name: what to call the references in an error.

    Returns:
        BLEU, 0 to 100, with case; 0 where some order of n-grams has no match.

    Raises:
        DataError: the counts differ, or there is nothing to score.
    """
    segments = check_segments(
        hypotheses, references, hypothesis_name=hypothesis_name, reference_name=reference_name
    )
    rows = paper_statistics(segments, target_language=target_language, tokenized=tokenized)
    result = bleu_of_statistics([sum(column) for column in zip(*rows, strict=True)])
    matches = [sum(row[2 + order] for row in rows) for order in range(ORDERS)]
    return _as_score(result, matches, segments, target_language, tokenized=tokenized)


def paper_statistics(segments: Segments, *, target_language: str, tokenized: bool) -> list[list[int]]:
    """Count what the paper's BLEU needs of each segment.

    Args:
        segments: N hypotheses with their references.
        target_language: code of the target language.
        tokenized: whether both sides are Moses-tokenized already.

    Returns:
        N rows of `multi_bleu.STATISTICS` counts.
    """
    rows = []
    for hypothesis, *wanted in zip(segments.hypotheses, *segments.references, strict=True):
        side, *others = (
            paper_tokens(unit, target_language=target_language, tokenized=tokenized)
            for unit in (hypothesis, *wanted)
        )
        rows.append(sentence_statistics(side, others))
        assert len(rows[-1]) == STATISTICS
    return rows


def paper_signature(references: int, *, target_language: str, tokenized: bool) -> str:
    """Return how a score was computed.

    Args:
        references: the number of reference translations.
        target_language: code of the target language.
        tokenized: whether both sides came tokenized.

    Returns:
        Key and value pairs, as sacreBLEU has them, closing with the measure's label.
    """
    language = primary_language(target_language)
    tokenizer = "given" if tokenized else f"unicode-punctuation+moses[{language}]"
    return (
        f"nrefs:{references}|case:mixed|tok:{tokenizer}|split:##AT##-##AT##|smooth:none|"
        f"revision:{_REVISION}|measure:{LABEL}"
    )


def _as_score(
    result: MultiBleu, matches: list[int], segments: Segments, target_language: str, *, tokenized: bool
) -> Score:
    """Put the result into the common form."""
    return Score(
        name="BLEU (paper)",
        value=result.value,
        signature=paper_signature(
            len(segments.references), target_language=target_language, tokenized=tokenized
        ),
        details={
            "precisions": list(result.precisions),
            "brevity_penalty": result.brevity_penalty,
            "hypothesis_length": result.hypothesis_length,
            "reference_length": result.reference_length,
            "counts": matches,
        },
        segments=len(segments),
        blank_hypotheses=segments.blank_hypotheses,
        blank_references=segments.blank_references,
        notices=_notices(target_language, tokenized=tokenized),
    )


def _notices(target_language: str, *, tokenized: bool) -> tuple[str, ...]:
    """Say what kind of score this is, and where the language has no rules of its own."""
    notices = [_NOTICE]
    language = primary_language(target_language)
    if language != "de":
        notices.append(f"the published script is for German; the same is done here for {target_language}")
    if not tokenized and not has_own_list(language):
        notices.append(f"no list of abbreviations for {target_language}: English's is used, as Moses does")
    return tuple(notices)
