"""Greedy search, a beam of one: the most probable token until EOS or the limit.

Paper: none (infrastructure)
Silent: which of equal tokens is taken; the lower id.

Shapes: B sentences still searched, T tokens so far, V vocabulary.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.native import kernels_for
from dragoman.search.candidates import (
    DEAD,
    Bans,
    accumulator_type,
    checked_logits,
    log_normalizers,
    refuse_broken,
)
from dragoman.search.step import Hypothesis, StepFunction
from dragoman.search.task import SearchTask, split_positions


def greedy_search(step: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
    """One hypothesis a sentence (none if the bans leave it no next token), in the order of the sentences."""
    found: list[list[Hypothesis]] = [[] for _ in task.limits]
    rows, limits_B, tokens_B1 = list(range(len(found))), task.limits_tensor(), task.first_tokens()
    prefixes_BT = tokens_B1[:, :0]
    totals_B = torch.zeros(len(rows), dtype=accumulator_type(task.device), device=task.device)
    while rows:
        length = prefixes_BT.shape[1] + 1
        logits = checked_logits(step(tokens_B1), tokens_B1)
        if task.bans_change_at(length):
            bans = Bans.of(task.banned_ids(length), vocab_size=logits.shape[-1], device=logits.device)
        tokens_B, log_probabilities_B = best_tokens(logits.squeeze(1), bans)
        totals_B = totals_B + log_probabilities_B
        prefixes_BT = torch.cat([prefixes_BT, tokens_B.unsqueeze(1)], 1)
        is_done = (tokens_B == task.eos_id) | (limits_B == length) | (totals_B == DEAD)
        done, staying = split_positions(is_done.tolist(), device=task.device)
        if len(done):
            for row, hypothesis in zip(
                [rows[k] for k in done.tolist()],
                _outputs(prefixes_BT[done], totals_B[done], task),
                strict=True,
            ):
                found[row] = hypothesis
            rows = [rows[k] for k in staying.tolist()]
            prefixes_BT, totals_B, limits_B = prefixes_BT[staying], totals_B[staying], limits_B[staying]
            if rows:
                step.reorder(staying, torch.zeros_like(staying).unsqueeze(1))
        tokens_B1 = prefixes_BT[:, -1:]
    return found


def best_tokens(logits: Float[Tensor, "B V"], bans: Bans) -> tuple[Int64[Tensor, " B"], Float[Tensor, " B"]]:
    """The best token of each row that is not banned, the lowest id among equals, and its log-probability.

    Raises:
        DragomanError: a row of logits is no distribution.
    """
    if (kernels := kernels_for(logits)) is not None and logits.dtype == torch.float32:
        nothing_yet = torch.zeros(len(logits), 1, dtype=torch.float64)
        values, _, tokens, broken = kernels.best_continuations(
            logits.unsqueeze(1), nothing_yet, bans.banned_V, 1
        )
        refuse_broken(broken)
        return tokens[:, 0], values[:, 0]
    raw = logits.argmax(-1)
    normalizers = log_normalizers(logits, raw)
    refuse_broken(~normalizers.isfinite().unsqueeze(1))
    best = raw
    if bool(bans.banned_V[raw].any()):  # seldom: only then is the vocabulary copied
        best = logits.masked_fill(bans.banned_V, DEAD).argmax(-1)
    values = logits.gather(-1, best.unsqueeze(-1)).squeeze(-1).to(normalizers.dtype) - normalizers
    return best, values.masked_fill(bans.banned_V[best], DEAD)


def _outputs(
    prefixes_BT: Int64[Tensor, "B T"], totals_B: Float[Tensor, " B"], task: SearchTask
) -> list[list[Hypothesis]]:
    penalty = task.options.lp(prefixes_BT.shape[1])
    return [
        [Hypothesis(tuple(tokens), total, total / penalty, finished=tokens[-1] == task.eos_id)]
        if total > DEAD
        else []
        for tokens, total in zip(prefixes_BT.tolist(), totals_B.tolist(), strict=True)
    ]
