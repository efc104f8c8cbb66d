"""Speed of translation with a trained model: ours against CTranslate2 and Hugging Face with the same weights.

Sentences of a test text at their natural lengths, beam 4 (or --beam-size), log P as the score on all sides (alpha and
length penalty 0: each system's formula is another one, and this is what they share). CTranslate2 is given its best
setting: both ways of using the threads are measured, one worker with all and a worker for each. Ours is text in, text
out; the others are given tokens. Hugging Face translates every tenth sentence only.

Also printed: how many translations differ from our exact ones, their BLEU where references are given, and the time of one
sentence at a time.

    python benchmarks/decode_peers.py MODEL TEXT [--references TEXT] [--shortlist FILE]
        [--sentences 1000] [--rounds 3] [--beam-size 4]

Wants `transformers` and `ctranslate2`; parts that are not installed are left out and named.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from measure import Contestant, Measured, interleaved, prepare_process, print_table, threads_of, write_results
from twins import marian_twin, to_ctranslate2, token_names

from dragoman import native
from dragoman.scoring.bleu import bleu
from dragoman.text.lines import read_units
from dragoman.text.subwords import Subwords
from dragoman.translator import Translator

MOST_EXTRA = 50
LONGEST = 512
FEWER = 10  # Hugging Face is given each tenth sentence
BATCH = 64

Translate = Callable[[Sequence[str]], list[str]]


def ours(translator: Translator, beam_size: int) -> Translate:
    return lambda units: [t.text for t in translator.translate(units, beam_size=beam_size, alpha=0.0)]


def hugging_face(translator: Translator, beam_size: int) -> Translate:
    """Batches of sentences of like length, longest first."""
    twin: Any = marian_twin(translator.model, longest=LONGEST)

    @torch.inference_mode()
    def translate(units: Sequence[str]) -> list[str]:
        ids = _ids(translator, units)
        order = sorted(range(len(ids)), key=lambda k: -len(ids[k]))
        found = [""] * len(ids)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            longest = len(ids[rows[0]])
            batch = torch.tensor([ids[k] + [Subwords.PAD_ID] * (longest - len(ids[k])) for k in rows])
            penalty = {} if beam_size == 1 else {"length_penalty": 0.0}
            output = twin.generate(
                input_ids=batch,
                attention_mask=(batch != Subwords.PAD_ID).long(),
                num_beams=beam_size,
                do_sample=False,
                max_new_tokens=longest + MOST_EXTRA,
                **penalty,
            )
            for k, tokens in zip(rows, output.tolist(), strict=True):
                found[k] = _text(translator, tokens)
        return found

    return translate


def ctranslate2(
    translator: Translator, directory: Path, beam_size: int, *, kind: str, workers: int, threads: int
) -> Translate:
    """One of its number formats and ways to use the threads."""
    import ctranslate2 as engine

    model = engine.Translator(
        str(directory),
        device="cpu",
        compute_type=kind,
        inter_threads=workers,
        intra_threads=threads // workers,
    )
    names = token_names(translator.model.config.vocab_size)
    number_of = {name: number for number, name in enumerate(names)}

    def translate(units: Sequence[str]) -> list[str]:
        tokens = [[names[k] for k in ids] for ids in _ids(translator, units)]
        results = model.translate_batch(
            tokens,
            beam_size=beam_size,
            length_penalty=0.0,
            max_batch_size=BATCH,
            max_decoding_length=LONGEST // 2,
        )
        return [_text(translator, [number_of[name] for name in result.hypotheses[0]]) for result in results]

    return translate


def _ids(translator: Translator, units: Sequence[str]) -> list[list[int]]:
    return [[*translator.source_subwords.encode(unit), Subwords.EOS_ID] for unit in units]


def _text(translator: Translator, tokens: Sequence[int]) -> str:
    special = (Subwords.PAD_ID, Subwords.EOS_ID, Subwords.BOS_ID)
    return translator.target_subwords.decode([token for token in tokens if token not in special])


def systems(
    model: Path, folder: Path, beam_size: int, threads: int, shortlist: Path | None
) -> dict[str, Translate]:
    """Everything that can be compared here."""
    exact = Translator.load(model)
    kernels = native.kernels()
    formats: list[Any] = ["fp32", "bf16"] if kernels is None else kernels.formats
    found = {}
    for likely in (None, shortlist) if shortlist is not None else (None,):
        for precision in formats:
            translator = Translator.load(model, precision=precision, shortlist=likely)
            found[f"dragoman {precision}" + (", shortlist" if likely else "")] = ours(translator, beam_size)
    found["transformers fp32"] = hugging_face(exact, beam_size)
    try:
        directory = to_ctranslate2(marian_twin(exact.model, longest=LONGEST), folder / "ctranslate2")
    except ImportError:
        print("ctranslate2 is not installed: left out")
        return found
    for kind in ("float32", "int8"):
        for workers in (1, threads) if threads > 1 else (1,):
            name = f"CTranslate2 {kind}, {workers} x {threads // workers}"
            found[name] = ctranslate2(
                exact, directory, beam_size, kind=kind, workers=workers, threads=threads
            )
    return found


def _with_threads(translate: Translate, threads: int) -> Translate:
    """CTranslate2 sets the threads of the whole process to those of one of its workers."""

    def of_all(units: Sequence[str]) -> list[str]:
        torch.set_num_threads(threads)
        return translate(units)

    return of_all


def throughput(found: dict[str, Translate], units: Sequence[str], rounds: int) -> list[Measured]:
    """Sentences a second, all sides in turn."""
    contestants = []
    for name, translate in found.items():
        given = units[::FEWER] if name.startswith("transformers") else units
        contestants.append(Contestant(name, lambda t=translate, g=given: t(g), len(given)))  # type: ignore[misc]
    baseline = next((name for name in found if name.startswith("CTranslate2")), "transformers fp32")
    return interleaved(contestants, rounds=rounds, baseline=baseline)


def latency(translate: Translate, units: Sequence[str]) -> tuple[float, float]:
    """Milliseconds of one sentence at a time: median and 95th percentile."""
    translate(units[:1])
    seconds = []
    for unit in units:
        began = time.perf_counter()
        translate([unit])
        seconds.append(time.perf_counter() - began)
    seconds.sort()
    return 1e3 * statistics.median(seconds), 1e3 * seconds[int(0.95 * len(seconds))]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("model", type=Path)
    options.add_argument("text", type=Path)
    options.add_argument("--references", type=Path)
    options.add_argument(
        "--tokenize", default=None, help="sacreBLEU's tokenizer; none: text that is cut already"
    )
    options.add_argument("--shortlist", type=Path, help="of `dragoman shortlist`: ours also with it")
    options.add_argument("--sentences", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=None)
    options.add_argument("--beam-size", type=int, default=4)
    given = options.parse_args()
    threads = threads_of(given.threads)
    prepare_process(threads)
    units = list(read_units(given.text))[: given.sentences]
    references = None if given.references is None else list(read_units(given.references))[: given.sentences]
    with tempfile.TemporaryDirectory() as folder:
        made = systems(given.model, Path(folder), given.beam_size, threads, given.shortlist)
        found = {name: _with_threads(translate, threads) for name, translate in made.items()}
        exact = found["dragoman fp32"](units)
        for name, translate in found.items():
            own = exact[::FEWER] if name.startswith("transformers") else exact
            theirs = translate(units[::FEWER] if name.startswith("transformers") else units)
            score = ""
            if references is not None:
                own_references = references[::FEWER] if name.startswith("transformers") else references
                score = f" BLEU {bleu(theirs, own_references, tokenize=given.tokenize).value:.2f};"
            other = sum(a != b for a, b in zip(own, theirs, strict=True))
            middle, late = latency(
                translate, units[:100:2] if name.startswith("transformers") else units[:100]
            )
            print(
                f"{name:28} {other:5} of {len(own)} differ from dragoman fp32;{score} "
                f"one at a time {middle:.1f} ms, 95% within {late:.1f} ms"
            )
        rows = throughput(found, units, given.rounds)
    title = f"beam {given.beam_size}, {len(units)} sentences of {given.text.name}, {threads} threads"
    print_table(title, "sentences", rows)
    write_results("decode_peers", {key: str(value) for key, value in vars(given).items()}, {title: rows})


if __name__ == "__main__":
    main()
