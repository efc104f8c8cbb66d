"""Which number format of products translates fastest here with a model of a given size.

Paper: none (infrastructure)
"""

from __future__ import annotations

import time

import torch

from dragoman.model.packed import PackedModel, has_the_papers_parts
from dragoman.model.transformer import Transformer
from dragoman.native import kernels_for
from dragoman.remembered import remembered
from dragoman.search.options import SearchOptions
from dragoman.search.task import SearchTask
from dragoman.text.subwords import Subwords
from dragoman.whole_search import search_all

SENTENCES, LENGTH = 64, 16  # translated for the measurement, each to as many tokens as it has
WORTH = 1.05  # a coarser format must be faster by this to be chosen


def fastest_products(model: Transformer) -> str:
    """ "fp32", "bf16" or "int8": measured on this model, which takes a moment, and remembered in the user's cache.

    Where nothing can be written there it is measured anew each time; where the kernels do not serve it is fp32.
    """
    kernels = kernels_for(model.target_embedding.weight)
    if kernels is None or not has_the_papers_parts(model):
        return "fp32"
    facts = (kernels.digest, model.config.model_dump_json(), torch.get_num_threads())
    formats = kernels.formats
    return remembered("fastest", facts, valid=formats.__contains__, measure=lambda: _measured(model, formats))


def _measured(model: Transformer, formats: list[str]) -> str:
    best, least = "fp32", float("inf")
    for name in formats:  # from the finest to the coarsest
        packed = PackedModel.of(model, name)
        if packed is None:
            continue
        seconds = min(_seconds(packed) for _ in range(3))
        if seconds * WORTH < least:
            best, least = name, seconds
    return best


def _seconds(packed: PackedModel) -> float:
    draw = torch.Generator().manual_seed(1)
    rows = torch.randint(1, packed.model.config.source_rows, (SENTENCES, LENGTH), generator=draw)
    task = SearchTask.of(
        [LENGTH] * SENTENCES,
        options=SearchOptions(min_length=LENGTH, max_extra=0),
        bos_id=Subwords.BOS_ID,
        eos_id=Subwords.EOS_ID,
        forbidden_ids=(),
        device="cpu",
    )
    began = time.perf_counter()
    search_all(packed, rows.tolist(), task)
    return time.perf_counter() - began
