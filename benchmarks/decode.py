"""Speed of translation: `Translator.translate` against decoding without a cache, and against Hugging Face's Marian.

Lengths are pinned, as random weights never end a sentence: every source has 16 subwords with its EOS, every translation
16. "no cache" is our own search over a step function that computes the whole prefix anew at each step. Marian
(where `transformers` is installed) has the same sizes and its own random weights, and `generate` with its cache.
Ours is text in, text out; the other two are given ids.

With --model, also the first sentences of the test text at their natural lengths, by that model, and whether the
translations with and without a cache are the same.

    python benchmarks/decode.py [--model DIRECTORY] [--sentences 96] [--rounds 3] [--threads 2]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import torch
from measure import Contestant, Measured, interleaved, prepare_process, print_table, threads_of, write_results
from torch import Tensor

from dragoman.model.config import ModelConfig
from dragoman.model.mask import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.search.beam import beam_search
from dragoman.search.options import SearchOptions
from dragoman.text.grammar.generate import stream
from dragoman.text.lines import read_units
from dragoman.text.subwords import Subwords
from dragoman.translator import Translator

LENGTH = 16  # tokens of each source and translation, EOS or last token included
VOCABULARY = 8_000
BEAMS = (1, 4)
ALPHA = 0.6


class WholePrefix:
    """A step function without a cache."""

    def __init__(self, model: Transformer, source_ids: Tensor) -> None:
        self._model = model
        with torch.inference_mode():
            self._memory = model.encode(source_ids)
        self._mask = padding_mask(source_ids, model.config.pad_id)
        self._prefixes = torch.empty(len(source_ids), 1, 0, dtype=torch.int64)

    @torch.inference_mode()
    def __call__(self, tokens_BK: Tensor) -> Tensor:
        self._prefixes = torch.cat([self._prefixes, tokens_BK.unsqueeze(-1)], dim=-1)
        B, K, T = self._prefixes.shape
        memory, mask = (x.repeat_interleave(K, dim=0) for x in (self._memory, self._mask))
        logits = self._model.decode(self._prefixes.view(B * K, T), memory, mask)[:, -1]
        return logits.float().view(B, K, -1)

    def reorder(self, sentences_B: Tensor, parents_BK: Tensor) -> None:
        self._prefixes = self._prefixes[sentences_B[:, None], parents_BK]
        self._memory, self._mask = self._memory[sentences_B], self._mask[sentences_B]


def texts() -> list[str]:
    """English of Multi30k where DRAGOMAN_DATA has it, else of the embedded grammar."""
    file = Path(os.environ.get("DRAGOMAN_DATA", "")) / "multi30k" / "raw" / "train.en.gz"
    if os.environ.get("DRAGOMAN_DATA") and file.is_file():
        return list(read_units(file))
    return [pair.source for pair in islice(stream(seed=1), 10_000)]


def random_translator(units: Sequence[str]) -> Translator:
    """Tiny's sizes, weights as training starts with them."""
    subwords = Subwords.train(units, vocab_size=VOCABULARY)
    model = Transformer(ModelConfig.tiny(vocab_size=subwords.vocab_size), seed=1).eval()
    return Translator(model, subwords, subwords)


def without_cache(
    translator: Translator, units: Sequence[str], *, beam_size: int, pinned: bool
) -> list[tuple[int, ...]]:
    """The best hypothesis of each unit; batches as `Translator` makes them, longest first."""
    ids = [[*translator.source_subwords.encode(unit), Subwords.EOS_ID] for unit in units]
    order = sorted(range(len(ids)), key=lambda k: -len(ids[k]))
    options = SearchOptions(
        beam_size=beam_size,
        alpha=ALPHA,
        min_length=LENGTH if pinned else 1,
        max_extra=0 if pinned else 50,
    )
    found: list[tuple[int, ...]] = [()] * len(ids)
    while order:
        rows = order[: max(1, translator.batch_tokens // len(ids[order[0]]))]
        order = order[len(rows) :]
        hypotheses = beam_search(
            WholePrefix(translator.model, _padded([ids[k] for k in rows])),
            source_lengths=[len(ids[k]) for k in rows],
            options=options,
            bos_id=Subwords.BOS_ID,
            eos_id=Subwords.EOS_ID,
            forbidden_ids=translator.target_subwords.forbidden_ids,
        )
        for k, best in zip(rows, hypotheses, strict=True):
            found[k] = best[0].tokens
    return found


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[Subwords.PAD_ID] * (longest - len(row))] for row in rows])


def marian(config: ModelConfig, ids: Tensor, *, beam_size: int) -> Callable[[], object] | None:
    """Hugging Face's Marian of the same sizes, or None where it is not installed."""
    try:
        import transformers
        from twins import marian_config
    except ImportError:
        return None
    torch.manual_seed(1)
    settings = marian_config(config, longest=256, attn_implementation="sdpa")
    model = transformers.MarianMTModel(settings).eval()

    @torch.inference_mode()
    def run() -> object:
        return model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            num_beams=beam_size,
            do_sample=False,
            min_new_tokens=LENGTH,
            max_new_tokens=LENGTH,
            **({} if beam_size == 1 else {"length_penalty": ALPHA}),
        )

    return run


def pinned_contestants(translator: Translator, units: Sequence[str], beam_size: int) -> list[Contestant]:
    """All three on the same sentences, in one batch each."""
    ids = _padded([[*translator.source_subwords.encode(unit), Subwords.EOS_ID] for unit in units])
    assert ids.shape == (len(units), LENGTH)

    def ours() -> object:
        return translator.translate(units, beam_size=beam_size, alpha=ALPHA, min_length=LENGTH, max_extra=0)

    def uncached() -> object:
        return without_cache(translator, units, beam_size=beam_size, pinned=True)

    found = [Contestant("no cache", uncached, len(units)), Contestant("dragoman", ours, len(units))]
    if (run := marian(translator.model.config, ids, beam_size=beam_size)) is not None:
        found.append(Contestant("transformers Marian", run, len(units)))
    return found


def natural(translator: Translator, units: Sequence[str], *, beam_size: int, rounds: int) -> list[Measured]:
    """A given model at natural lengths; says how many translations a cache changes (none should)."""
    cached = [t.pieces for t in translator.translate(units, beam_size=beam_size, alpha=ALPHA)]
    plain = without_cache(translator, units, beam_size=beam_size, pinned=False)
    pieces = translator.target_subwords.pieces
    other = sum(
        tuple(pieces([t for t in tokens if t != Subwords.EOS_ID])) != found
        for tokens, found in zip(plain, cached, strict=True)
    )
    print(f"\ntranslations that differ without a cache: {other} of {len(units)}")
    rows = [
        Contestant(
            "no cache",
            lambda: without_cache(translator, units, beam_size=beam_size, pinned=False),
            len(units),
        ),
        Contestant(
            "dragoman", lambda: translator.translate(units, beam_size=beam_size, alpha=ALPHA), len(units)
        ),
    ]
    return interleaved(rows, rounds=rounds, baseline="no cache")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--model", type=Path, default=None)
    options.add_argument("--sentences", type=int, default=96)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=None)
    given = options.parse_args()
    prepare_process(threads_of(given.threads))
    units = texts()
    translator = random_translator(units) if given.model is None else Translator.load(given.model)
    encode = translator.source_subwords.encode
    fitting = (unit for unit in units if len(encode(unit)) == LENGTH - 1)
    chosen = list(islice(fitting, given.sentences))
    tables: dict[str, list[Measured]] = {}
    for beam_size in BEAMS:
        name = "greedy" if beam_size == 1 else f"beam {beam_size}"
        title = f"{name}, {len(chosen)} sentences, lengths pinned to {LENGTH}"
        rows = pinned_contestants(translator, chosen, beam_size)
        tables[title] = interleaved(rows, rounds=given.rounds, baseline="no cache")
        print_table(title, "sentences", tables[title])
        if given.model is not None:
            title = f"{name}, {given.sentences} sentences, natural lengths"
            whole = [unit for unit in units if len(encode(unit)) < translator.max_source_tokens]
            tables[title] = natural(
                translator, whole[: given.sentences], beam_size=beam_size, rounds=given.rounds
            )
            print_table(title, "sentences", tables[title])
    sizes = translator.model.config.model_dump()
    write_results("decode", {**vars(given), "model": str(given.model), "sizes": sizes}, tables)


if __name__ == "__main__":
    main()
