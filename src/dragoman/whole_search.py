"""Greedy and beam search as one call of the kernels in C++: source sentences in, their best hypotheses out.

Paper: 6.1

The hypotheses of `search.beam` and `search.greedy` over the step function of `model.incremental_native`. Each thread has
some sentences in hand, at different positions; where one is done, the next takes its place. A sentence's hypotheses do
not depend on the others. The structures here are those of `search.cpp`, field by field.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import threading
from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from jaxtyping import Int64
from torch import Tensor

from dragoman.model.packed import PackedModel
from dragoman.native import check_below
from dragoman.search.candidates import Bans, refuse_broken
from dragoman.search.length import penalty_table
from dragoman.search.step import Hypothesis
from dragoman.search.task import SearchTask

PREFIXES = 48  # that a thread takes a token further together
NONE_BROKEN = -1

_pointer, _int32, _int64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64


class _Rules(ctypes.Structure):
    _fields_ = (
        *((name, _int64) for name in ("beam", "n_best", "min_length", "bos", "eos")),
        ("penalties", _pointer),
        ("longest_bounds", _int64),
        ("banned", _pointer),
        ("banned_early", _pointer),
    )


class _Sentences(ctypes.Structure):
    _fields_ = (
        *((name, _pointer) for name in ("ids", "firsts", "limits")),
        ("count", _int64),
        *((name, _pointer) for name in ("choices", "choice_firsts")),
    )


class _Answers(ctypes.Structure):
    _fields_ = tuple(
        (name, _pointer)
        for name in ("tokens", "firsts", "lengths", "log_probabilities", "scores", "finished")
    )


class _Progress(ctypes.Structure):
    _fields_ = (("stop", _int32), ("broken", _int32), ("no_memory", _int32))


def search_all(
    packed: PackedModel,
    sources: Sequence[Sequence[int]],
    task: SearchTask,
    *,
    most_at_once: int | None = None,
    choices: Sequence[Int64[Tensor, "_"]] | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, best first, as `search.beam.beam_search` gives them.

    A signal is handled while the kernels work: what its handler raises ends them at the next token.

    Args:
        packed: the model.
        sources: ids of each sentence, EOS last, no padding.
        task: how to search.
        most_at_once: sentences in hand at once, of all threads; None: as many as are fast.
        choices: for each sentence the tokens that its output may consist of, ascending, none twice, at least one; P is
            among them alone. None: all.

    Raises:
        ConfigError: a forbidden id is beyond the vocabulary.
        DragomanError: logits that are not finite.
        MemoryError: there is not enough for so wide a beam.
    """
    if not sources:
        return []
    options, count, V = task.options, len(sources), packed.structure.output.columns
    ids = torch.tensor([token for source in sources for token in source])
    check_below(ids, packed.model.config.source_rows)
    limits = torch.tensor(task.limits)
    penalties = penalty_table(
        int(limits.max()) + 1, alpha=options.alpha, device=limits.device, penalty=options.penalty
    )
    banned = _banned(task.banned_ids(options.min_length), V)
    banned_early = _banned(task.banned_ids(options.min_length - 1), V)
    source_firsts = torch.tensor([0, *accumulate(map(len, sources))])
    firsts = options.n_best * (limits.cumsum(0) - limits)
    tokens = torch.empty(int(limits.sum()) * options.n_best, dtype=torch.int64)
    lengths = torch.zeros(count, options.n_best, dtype=torch.int64)
    log_probabilities, scores = (torch.empty(count, options.n_best, dtype=torch.float64) for _ in range(2))
    finished = torch.empty(count, options.n_best, dtype=torch.bool)
    longest = max(int(limits.max()), max(map(len, sources)))
    model, _positions = packed.with_positions(longest)
    choice_ids, choice_firsts = _joined(choices, V)
    threads = torch.get_num_threads()
    places = max(1, PREFIXES // options.beam_size)
    if most_at_once is not None:
        threads = min(threads, most_at_once)
        places = max(1, min(places, most_at_once // threads))
    progress = _Progress(0, NONE_BROKEN, 0)
    call = (
        ctypes.byref(model),
        ctypes.byref(
            _Sentences(
                *(ids.data_ptr(), source_firsts.data_ptr(), limits.data_ptr(), count),
                *(None if choices is None else at.data_ptr() for at in (choice_ids, choice_firsts)),
            )
        ),
        ctypes.byref(
            _Rules(
                *(options.beam_size, options.n_best, options.min_length, task.bos_id, task.eos_id),
                *(penalties.data_ptr(), options.alpha >= 0, banned.data_ptr(), banned_early.data_ptr()),
            )
        ),
        ctypes.byref(
            _Answers(
                *(tokens.data_ptr(), firsts.data_ptr(), lengths.data_ptr()),
                *(log_probabilities.data_ptr(), scores.data_ptr(), finished.data_ptr()),
            )
        ),
        ctypes.byref(progress),
    )
    _in_a_thread(lambda: packed.kernels.search(*call, places, threads), progress)
    if progress.no_memory:
        raise MemoryError("the search wants more memory than there is")
    if progress.broken != NONE_BROKEN:
        refuse_broken(torch.arange(count)[:, None] == progress.broken)
    return _hypotheses(tokens, firsts, limits, lengths, log_probabilities, scores, finished)


def _in_a_thread(work: Callable[[], object], progress: _Progress) -> None:
    """Waits for it in such a way that signals are handled meanwhile.

    Not by `Thread.join`: one that a signal's handler leaves takes the thread for ended (Python 3.11), and a thread that
    still runs when the interpreter ends takes the process down with it.
    """
    ended = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
        finally:
            ended.set()

    try:
        try:
            _thread.start_new_thread(run, ())
        except RuntimeError as error:
            ended.set()
            raise MemoryError("no thread to search in can be started") from error
        ended.wait()
    except BaseException:
        progress.stop = 1
        _wait_whatever_comes(ended)
        raise
    if failures:
        raise failures[0]


def _wait_whatever_comes(ended: threading.Event) -> None:
    """A few steps of the search, at most; further signals have nothing to add."""
    while not ended.is_set():
        with contextlib.suppress(BaseException):
            ended.wait()


def _joined(choices: Sequence[Tensor] | None, V: int) -> tuple[Tensor, Tensor]:
    """All choices one after another, int32, and where each sentence's begin."""
    if choices is None:
        return torch.empty(0, dtype=torch.int32), torch.empty(0, dtype=torch.int64)
    ids = torch.cat(list(choices))
    check_below(ids, V)
    assert all(len(some) > 0 and bool((some.diff() > 0).all()) for some in choices), "ascending, none twice"
    return ids.to(torch.int32), torch.tensor([0, *accumulate(map(len, choices))])


def _banned(ids: Sequence[int], V: int) -> Tensor:
    return Bans.of(ids, vocab_size=V, device=torch.device("cpu")).banned_V


def _hypotheses(
    tokens: Tensor,
    firsts: Tensor,
    limits: Tensor,
    lengths: Tensor,
    log_probabilities: Tensor,
    scores: Tensor,
    finished: Tensor,
) -> list[list[Hypothesis]]:
    found = []
    flat = tokens.tolist()
    columns = (x.tolist() for x in (firsts, limits, lengths, log_probabilities, scores, finished))
    for first, limit, *ranks in zip(*columns, strict=True):
        places = range(first, first + limit * len(ranks[0]), limit)
        found.append(
            [
                Hypothesis(tuple(flat[at : at + length]), log_probability, score, bool(is_finished))
                for at, length, log_probability, score, is_finished in zip(places, *ranks, strict=True)
                if length
            ]
        )
    return found
