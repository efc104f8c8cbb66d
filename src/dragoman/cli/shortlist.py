"""`dragoman shortlist`: which target subwords each source subword is likely to need.

Paper: none (infrastructure)
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.talk import say


def shortlist(
    prepared: Annotated[Path, typer.Argument(help="A prepared corpus.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")],
    likeliest: Annotated[
        int,
        typer.Option("--likeliest", min=1, max=1000, help="Target subwords kept for each source subword."),
    ] = 40,
    most_frequent: Annotated[
        int, typer.Option("--most-frequent", min=0, help="Target subwords that any translation may hold.")
    ] = 200,
) -> None:
    """Learn a lexical shortlist, for translating faster.

    A translation then consists of likely subwords only: those that stood with the source's in the training text, the most
    frequent ones, and the source's own. Some of 1,000 translations change.

    Example: dragoman shortlist prepared --out likely.safetensors; dragoman translate run --shortlist likely.safetensors
    """
    from dragoman.data.prepared import open_prepared
    from dragoman.data.shortlist import learn_shortlist

    corpus = open_prepared(prepared)
    learned = learn_shortlist(corpus, likeliest=likeliest, most_frequent=most_frequent)
    learned.save(out)
    say(
        f"wrote {out}: up to {likeliest} of {corpus.target_subwords.vocab_size:,} subwords for each of the source's"
    )
