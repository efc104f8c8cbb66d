"""`dragoman generate`: beginnings of texts in, as many texts out.

Later: Radford et al. 2018; Liu et al. 2018, arXiv:1801.10198
"""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import (
    Alpha,
    BadBytesOption,
    Device,
    Json,
    Out,
    PrecisionOption,
    Threads,
    use_threads,
)
from dragoman.cli.talk import counting, say
from dragoman.cli.translate import DEFAULT_SEED
from dragoman.cli.units import check_before_work, runs_of_units, scored_lines
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.language.model import Continuation, LanguageModel


def generate(
    model: Annotated[Path, typer.Argument(help="A language model, or a run with one in it.")],
    prompts: Annotated[
        str, typer.Argument(help="Beginnings of texts, one a line (a blank line: none); - is standard input.")
    ] = "-",
    *,
    out: Out = "-",
    temperature: Annotated[
        float, typer.Option("--temperature", help="Under 1 draws likely words more often.")
    ] = 1.0,
    top_k: Annotated[
        int, typer.Option("--top-k", min=0, help="Draw from so many tokens; 0 draws from all.")
    ] = 0,
    top_p: Annotated[float, typer.Option("--top-p", help="Share of probability to draw from.")] = 1.0,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of the draws; 1 unless given.", show_default=False)
    ] = None,
    beam_size: Annotated[
        int | None,
        typer.Option(
            "--beam-size",
            min=1,
            max=1000,
            help="Search instead of drawing, with a beam of this width; 1 takes the likeliest token each time.",
        ),
    ] = None,
    alpha: Alpha = None,
    n_best: Annotated[
        int,
        typer.Option("--n-best", min=1, help="Texts of each prompt: PROMPT, SCORE and TEXT, tab-separated."),
    ] = 1,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens", min=1, help="Most subwords after a prompt; as the model's lines unless given."
        ),
    ] = None,
    bad_bytes: BadBytesOption = "refuse",
    device: Device = "cpu",
    precision: PrecisionOption = "fp32",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Continue texts with a language model: N lines in, N lines out, in order.

    Texts are drawn at random, the same ones for the same seed, or searched for with --beam-size. --json gives one object
    a line: prompt, text, log_probability, pieces, truncated, alternatives.

    Examples: echo "A man" | dragoman generate run; dragoman generate run prompts.txt --beam-size 4
    """
    from dragoman.language.model import LanguageModel
    from dragoman.text.lines import write_units

    drawing = (temperature, top_k, top_p, seed) != (1.0, 0, 1.0, None)
    if beam_size is not None and drawing:
        raise ConfigError(
            "--temperature, --top-k, --top-p and --seed are for drawing, --beam-size searches",
            cure="leave one or the other out",
        )
    if beam_size is None and alpha is not None:
        raise ConfigError("--alpha is for searching", cure="add --beam-size, or leave it out")
    if beam_size is not None and n_best > beam_size:
        raise ConfigError(
            f"--n-best {n_best} is above --beam-size {beam_size}", cure="a search keeps no more than its beam"
        )
    check_before_work(prompts, out, bad_bytes=bad_bytes)
    use_threads(threads)
    loaded = LanguageModel.load(model, device=device, precision=precision)
    number = truncated = 0

    def work(loaded: LanguageModel, run: list[str]) -> list[Continuation]:
        if beam_size is not None:
            return loaded.generate(
                run, beam_size=beam_size, alpha=alpha, n_best=n_best, max_tokens=max_tokens
            )
        return loaded.sample(
            run,
            seed=DEFAULT_SEED if seed is None else seed,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            n=n_best,
            max_tokens=max_tokens,
            first=number,
        )

    def lines() -> Iterator[str]:
        nonlocal number, truncated
        with counting("generate", None, beside=out) as tick:
            for run in runs_of_units(prompts, bad_bytes=bad_bytes):
                for continuation in work(loaded, run):
                    number += 1
                    truncated += continuation.truncated
                    yield from _output(number, continuation, n_best=n_best, json=json)
                tick(number)

    write_units(out, lines())
    if truncated:
        say(f"note: {truncated:,} of {number:,} texts were cut at the limit of subwords (--max-tokens)")


def _output(number: int, continuation: Continuation, *, n_best: int, json: bool) -> Iterator[str]:
    if json:
        yield json_format.dumps(asdict(continuation), ensure_ascii=False)
    elif n_best == 1:
        yield continuation.text
    else:
        yield from scored_lines(number, continuation, *continuation.alternatives)
