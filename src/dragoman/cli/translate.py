"""`dragoman translate`: lines in, as many lines out.

Paper: 6.1
"""

from __future__ import annotations

import json as json_format
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import (
    Alpha,
    BadBytesOption,
    BeamSize,
    Device,
    Engine,
    Json,
    Out,
    SearchPrecisionOption,
    ShortlistOption,
    Threads,
    use_threads,
)
from dragoman.cli.talk import counting, say
from dragoman.cli.units import check_before_work, runs_of_units, scored_lines
from dragoman.errors import ConfigError

DEFAULT_SEED = 1

if TYPE_CHECKING:
    from dragoman.translator import Translation, Translator


def translate(
    model: Annotated[Path, typer.Argument(help="A model, or a run with one in it.")],
    source: Annotated[
        str, typer.Argument(help="Text to translate, a unit a line; - is standard input.")
    ] = "-",
    *,
    out: Out = "-",
    beam_size: BeamSize = None,
    alpha: Alpha = None,
    n_best: Annotated[
        int,
        typer.Option(
            "--n-best", min=1, help="Translations of each unit: UNIT, SCORE and TEXT, tab-separated."
        ),
    ] = 1,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw translations at random instead of searching.")
    ] = False,
    temperature: Annotated[float, typer.Option("--temperature", help="Of --sample.")] = 1.0,
    top_k: Annotated[int, typer.Option("--top-k", min=0, help="Of --sample: 0 draws from all.")] = 0,
    top_p: Annotated[
        float, typer.Option("--top-p", help="Of --sample: share of probability to draw from.")
    ] = 1.0,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of --sample; 1 unless given.", show_default=False)
    ] = None,
    bad_bytes: BadBytesOption = "refuse",
    device: Device = "cpu",
    precision: SearchPrecisionOption = "fp32",
    engine: Annotated[
        Engine,
        typer.Option("--engine", help="exact: step by step by PyTorch, the reference; slow, for comparing."),
    ] = "auto",
    shortlist: ShortlistOption = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Translate a text: N lines in, N lines out, in order.

    On a pipe each line is answered as it comes. A line too long for the model is translated in parts and said so; a blank
    line stays blank. --json gives one object a line: source, text, score, pieces, flags, alternatives.

    Example: dragoman translate run < input.txt > output.txt
    """
    from dragoman.text.lines import write_units
    from dragoman.text.normalize import is_blank
    from dragoman.translator import Translator

    if not sample and (temperature, top_k, top_p, seed) != (1.0, 0, 1.0, None):
        raise ConfigError(
            "--temperature, --top-k, --top-p and --seed are for drawing at random",
            cure="add --sample, or leave them out",
        )
    if sample and beam_size is not None:
        raise ConfigError("--beam-size is for searching, --sample draws", cure="leave one of them out")
    if sample and shortlist is not None:
        raise ConfigError("--shortlist is for searching, --sample draws", cure="leave one of them out")
    check_before_work(source, out, bad_bytes=bad_bytes)
    use_threads(threads)
    translator = Translator.load(
        model, device=device, precision=precision, engine=engine, shortlist=shortlist
    )

    def work(translator: Translator, units: list[str]) -> list[Translation]:
        if sample:
            return translator.sample(
                units,
                seed=DEFAULT_SEED if seed is None else seed,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                alpha=alpha,
                n=n_best,
                first=number,
            )
        return translator.translate(units, beam_size=beam_size, alpha=alpha, n_best=n_best)

    number = empty = 0
    problems: dict[str, int] = {}

    def lines() -> Iterator[str]:
        nonlocal number, empty
        with counting("translate", None, beside=out) as tick:
            for run in runs_of_units(source, bad_bytes=bad_bytes):
                for translation in work(translator, run):
                    number += 1
                    empty += not translation.text and not is_blank(translation.source)
                    for flag in translation.flags:
                        problems[flag] = problems.get(flag, 0) + 1
                        _warn(number, flag, translation)
                    yield from _output(number, translation, n_best=n_best, json=json)
                tick(number)

    write_units(out, lines())
    if empty > number // 10:
        say(
            f"warning: {empty:,} of {number:,} translations are empty: "
            "the model has hardly been trained, or on other text"
        )
    if out != "-":
        say(f"{number:,} lines" + "".join(f", {count} {flag}" for flag, count in problems.items()))


def _output(number: int, translation: Translation, *, n_best: int, json: bool) -> Iterator[str]:
    if json:
        yield json_format.dumps(as_record(translation), ensure_ascii=False)
    elif n_best == 1:
        yield translation.text
    else:
        yield from scored_lines(number, translation, *translation.alternatives)


def as_record(translation: Translation) -> dict[str, object]:
    """A translation as plain values for JSON."""
    return {
        "source": translation.source,
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "pieces": list(translation.pieces),
        "flags": list(translation.flags),
        "parts": translation.parts,
        "alternatives": [
            {
                "text": other.text,
                "score": other.score,
                "log_probability": other.log_probability,
                "pieces": list(other.pieces),
                "flags": ["truncated"] if other.truncated else [],
            }
            for other in translation.alternatives
        ],
    }


_WARNINGS: dict[str, Callable[[int, str], str]] = {
    "split": lambda number, source: (
        f"line {number} is too long for the model and was translated in parts: {source}"
    ),
    "replaced": lambda number, source: f"line {number} holds U+FFFD, where bytes were no text: {source}",
    "truncated": lambda number, source: (
        f"line {number}: the translation was cut at the length limit: {source}"
    ),
}


def _warn(number: int, flag: str, translation: Translation) -> None:
    start = translation.source if len(translation.source) <= 40 else translation.source[:40] + "..."
    say("warning: " + _WARNINGS[flag](number, start))
