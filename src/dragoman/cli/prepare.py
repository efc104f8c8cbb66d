"""`dragoman prepare`: text files into subwords and shards.

Paper: 5.1
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dragoman.cli.options import Json, Seed
from dragoman.cli.talk import counting, say
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.data.choices import Progress


def prepare(
    source: Annotated[
        str,
        typer.Argument(help="Source text, a sentence a line (.gz, .xz, .zst as well; - is standard input)."),
    ],
    target: Annotated[
        str | None,
        typer.Argument(help="Its translation, line by line. Left out: SOURCE has two tab-separated columns."),
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to make.")],
    one_text: Annotated[
        bool,
        typer.Option(
            "--one-text", help="SOURCE has no translation: a corpus for a language model, a sequence a line."
        ),
    ] = False,
    dev_source: Annotated[
        str | None, typer.Option("--dev-source", help="Source of the dev set; without it one is split off.")
    ] = None,
    dev_target: Annotated[str | None, typer.Option("--dev-target", help="Target of the dev set.")] = None,
    dev_size: Annotated[
        int | None, typer.Option("--dev-size", help="Pairs to split off as the dev set.")
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option(
            "--vocab-size", min=8, help="Subwords to learn; by the size of the corpus unless given."
        ),
    ] = None,
    separate: Annotated[
        bool, typer.Option("--separate", help="A vocabulary for each language instead of one for both.")
    ] = False,
    subwords: Annotated[
        list[str] | None,
        typer.Option(
            "--subwords", help="Use this SentencePiece model; twice: one for the source, one for the target."
        ),
    ] = None,
    source_language: Annotated[
        str | None, typer.Option("--source-language", help="Code; from the file's name unless given.")
    ] = None,
    target_language: Annotated[
        str | None, typer.Option("--target-language", help="Code; from the file's name unless given.")
    ] = None,
    bad_bytes: Annotated[
        Literal["refuse", "skip", "replace"],
        typer.Option("--bad-bytes", help="Pairs with bytes that are not UTF-8."),
    ] = "refuse",
    entities: Annotated[
        Literal["keep", "unescape"],
        typer.Option("--entities", help="HTML entities such as &amp; in the text."),
    ] = "keep",
    seed: Seed = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a directory that prepare wrote.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a parallel corpus, or one text, ready for training.

    Learns subwords, cuts both sides into them and writes them as arrays that training reads without loading them.
    Every pair is kept or left out by line number with the reason.

    Examples: dragoman prepare train.en train.de --out prepared; dragoman prepare train.en --one-text --out prepared
    """
    from dragoman.data.prepare import prepare as run

    if subwords and vocab_size is not None:
        raise ConfigError(
            "--vocab-size is for learning subwords, and --subwords gives them", cure="leave one of them out"
        )
    with counting("prepare", None) as tick:

        def progress(event: Progress) -> None:
            tick(event.done)

        corpus = run(
            source,
            target,
            out=out,
            one_text=one_text,
            dev_source=dev_source,
            dev_target=dev_target,
            dev_size=dev_size,
            vocab_size=vocab_size,
            joint=not separate,
            subwords=_given(subwords),
            source_language=source_language,
            target_language=target_language,
            bad_bytes=bad_bytes,
            entities=entities,
            seed=seed,
            overwrite="replace" if overwrite else "refuse",
            on_progress=progress,
        )
    if json:
        typer.echo(corpus.manifest.model_dump_json())
        return
    say(corpus.report.rstrip("\n"))
    say(f"next: dragoman train {out} --out run")


def _given(subwords: list[str] | None) -> str | tuple[str, str] | None:
    """None, one model for both languages, or one a side."""
    match subwords:
        case None | []:
            return None
        case [both]:
            return both
        case [source, target]:
            return source, target
        case _:
            raise ConfigError(f"--subwords was given {len(subwords)} times", cure="give it once or twice")
