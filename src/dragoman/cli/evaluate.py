"""`dragoman evaluate`: BLEU and chrF of a model or of a finished translation; perplexity of a model of one text.

Paper: 6.1
"""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import (
    Alpha,
    BeamSize,
    Device,
    Json,
    SearchPrecision,
    SearchPrecisionOption,
    ShortlistOption,
    TargetLanguage,
    Threads,
    use_threads,
)
from dragoman.cli.talk import counting, say
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.scoring.score import Score


def evaluate(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL SOURCE REFERENCE | TRANSLATION REFERENCE | MODEL TEXT", show_default=False
        ),
    ],
    *,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="With a model: also write its translations there.")
    ] = None,
    beam_size: BeamSize = None,
    alpha: Alpha = None,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper", help="Also the paper's own measure (Moses tokens, compounds split, multi-bleu)."
        ),
    ] = False,
    tokenize: Annotated[
        str | None,
        typer.Option(
            "--tokenize", help="sacreBLEU's tokenizer for a finished translation (none: already cut)."
        ),
    ] = None,
    target_language: TargetLanguage = None,
    device: Device = "cpu",
    precision: SearchPrecisionOption = "fp32",
    shortlist: ShortlistOption = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Score a model on a test set, or score a finished translation.

    Three arguments: MODEL translates SOURCE and the result is compared with REFERENCE. Two: TRANSLATION is compared with
    REFERENCE; or, of a language model, how probable it finds TEXT: perplexity a subword and a word, bits a byte (of a
    masked one: perplexity and share guessed of subwords hidden one at a time). Scores come with their signatures.

    Examples: dragoman evaluate run test.en test.de; dragoman evaluate output.de test.de; dragoman evaluate lm-run test.en
    """
    from dragoman.text.lines import read_units, refuse_standard_input_twice

    if len(arguments) == 2:
        if out is not None:
            raise ConfigError(
                "--out is for the translations of a model", cure="leave it out, or give three arguments"
            )
        if beam_size is not None or alpha is not None:
            raise ConfigError(
                "--beam-size and --alpha are for a model's search",
                cure="leave them out, or give three arguments",
            )
        refuse_standard_input_twice(*arguments)
        if Path(arguments[0]).is_dir():
            if paper or tokenize is not None or target_language is not None or shortlist is not None:
                raise ConfigError(
                    "--paper, --tokenize, --target-language and --shortlist are for translations",
                    cure="leave them out, or to score a translator give three arguments: MODEL SOURCE REFERENCE",
                )
            use_threads(threads)
            _evaluate_text(*arguments, device=device, precision=precision, json=json)
            return
        hypotheses, references = (list(read_units(path)) for path in arguments)
        scores = _scores_of(
            hypotheses, references, arguments, target_language=target_language, tokenize=tokenize, paper=paper
        )
        _print(scores, json=json)
        return
    if len(arguments) != 3:
        raise ConfigError(
            f"two or three arguments are due, not {len(arguments)}",
            cure="give MODEL SOURCE REFERENCE, or TRANSLATION REFERENCE; of a language model MODEL TEXT",
        )
    if tokenize is not None:
        raise ConfigError(
            "--tokenize is for a finished translation", cure="leave it out, or give two arguments"
        )
    use_threads(threads)
    _evaluate_model(
        *arguments,
        out=out,
        beam_size=beam_size,
        alpha=alpha,
        paper=paper,
        target_language=target_language,
        device=device,
        precision=precision,
        shortlist=shortlist,
        json=json,
    )


def _scores_of(
    hypotheses: list[str],
    references: list[str],
    names: Sequence[str],
    *,
    target_language: str | None,
    tokenize: str | None,
    paper: bool,
) -> list[Score]:
    from dragoman.data.language_codes import language_of
    from dragoman.scoring.bleu import bleu
    from dragoman.scoring.chrf import chrf
    from dragoman.scoring.exact_match import exact_match
    from dragoman.scoring.paper_bleu import paper_bleu
    from dragoman.scoring.score import check_segments

    language = target_language or language_of(names[1])
    # The counts are checked once, here, where the files have names.
    check_segments(hypotheses, references, hypothesis_name=names[0], reference_name=names[1])
    scores = [
        bleu(hypotheses, references, target_language=language, tokenize=tokenize),
        chrf(hypotheses, references),
        exact_match(hypotheses, references),
    ]
    if paper:
        scores.append(paper_bleu(hypotheses, references, target_language=language or "en"))
    return scores


def _evaluate_model(
    model: str,
    source: str,
    reference: str,
    *,
    out: str | None,
    beam_size: int | None,
    alpha: float | None,
    paper: bool,
    target_language: str | None,
    device: str,
    precision: SearchPrecision,
    shortlist: Path | None,
    json: bool,
) -> None:
    from dragoman.errors import DataError
    from dragoman.pipeline import evaluate as run
    from dragoman.text.lines import (
        read_units,
        refuse_standard_input_twice,
        refuse_to_overwrite,
        write_units,
    )
    from dragoman.translator import Translator

    refuse_standard_input_twice(source, reference)
    if out == "-":
        raise ConfigError(
            "standard output is where the scores go", where="--out -", cure="write the translations to a file"
        )
    if out is not None and not Path(out).absolute().parent.is_dir():  # not after all the work
        raise DataError(
            "there is no such directory to write to", where=out, cure="make it, or leave --out out"
        )
    if out is not None:
        refuse_to_overwrite(out, source, reference)
    sources, references = list(read_units(source)), list(read_units(reference))
    if len(sources) != len(references):
        raise DataError(
            f"{source} has {len(sources)} lines, {reference} has {len(references)}",
            cure="give one reference for each line",
        )
    translator = Translator.load(model, device=device, precision=precision, shortlist=shortlist)
    with counting("translate", len(sources)) as tick:
        result = run(
            translator,
            sources,
            references,
            beam_size=beam_size,
            alpha=alpha,
            target_language=target_language,
            with_paper_bleu=paper,
            on_batch=tick,
        )
    if out is not None:
        write_units(out, (t.text for t in result.translations))
    if not json:
        say(result.standing)
        if result.truncated:
            say(f"warning: {result.truncated} translations were cut at the length limit")
    _print(result.scores, json=json)


def _evaluate_text(model: str, text: str, *, device: str, precision: SearchPrecision, json: bool) -> None:
    from dragoman.language.evaluation import evaluate_text
    from dragoman.text.lines import read_units

    if precision == "int8" or precision == "auto":
        raise ConfigError(f"--precision {precision} is for translating", cure="take fp32, bf16 or fp16")
    texts = list(read_units(text))
    with counting("score", len(texts)) as tick:
        result = evaluate_text(model, texts, device=device, precision=precision, on_batch=tick)
    if not json:
        say(result.standing)
    _print(result.scores, json=json)


def _print(scores: Sequence[Score], *, json: bool) -> None:
    if json:
        typer.echo(json_format.dumps([score.as_dict() for score in scores], ensure_ascii=False))
        return
    for score in scores:
        for notice in score.notices:
            say(notice)
        typer.echo(score.format())
    say(scores[0].counts())
