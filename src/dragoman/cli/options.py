"""Options that several verbs share, said the same way everywhere.

Paper: none (infrastructure)
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Precision = Literal["fp32", "bf16", "fp16"]
SearchPrecision = Literal["fp32", "bf16", "fp16", "int8", "auto"]
Engine = Literal["auto", "exact"]
BadBytes = Literal["refuse", "replace"]

BadBytesOption = Annotated[
    BadBytes, typer.Option("--bad-bytes", help="Bytes that are not UTF-8: refuse, or replace by U+FFFD.")
]
Out = Annotated[str, typer.Option("--out", "-o", help="Where to write; - is standard output.")]
Device = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:1, mps.")]
PrecisionOption = Annotated[
    Precision, typer.Option("--precision", help="Number format of weights and activations.")
]
SearchPrecisionOption = Annotated[
    SearchPrecision,
    typer.Option(
        "--precision",
        help="Number format of products while translating; auto: the fastest for this model here, measured once.",
    ),
]
ShortlistOption = Annotated[
    Path | None,
    typer.Option(
        "--shortlist", help="File of `dragoman shortlist`: consider only likely subwords, which is faster."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, max=1024, help="CPU threads; all cores unless given.")
]
BeamSize = Annotated[
    int | None,
    typer.Option(
        "--beam-size",
        min=1,
        max=1000,
        help="Beam search of this width; 1 is greedy. As the model's recipe unless given (paper: 4).",
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        "--alpha",
        help="Exponent of the length penalty, ((5 + n) / 6)^alpha unless the model's recipe has another. As that recipe "
        "has it unless given (paper: 0.6).",
    ),
]
TargetLanguage = Annotated[
    str | None,
    typer.Option("--target-language", help="Code such as de, zh, ja: chooses how BLEU cuts words."),
]


def use_threads(threads: int | None) -> None:
    """Sets torch's threads where asked to; says so where the kernels are still to be compiled."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    tell_of_compiling()


def tell_of_compiling() -> None:
    """Says so where the kernels are still to be compiled, for a verb that will use them."""
    from dragoman import native
    from dragoman.cli.talk import say

    if native.will_compile():
        say("compiling kernels for this processor, once: up to a minute or two")
