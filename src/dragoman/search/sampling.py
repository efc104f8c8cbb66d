"""Sampling: outputs drawn from the model's distribution, tempered or cut off, repeatable from a seed.

Paper: none (infrastructure)

Each draw has its own stream of random numbers, made from (seed, number of the sentence, number of the draw),
one number a token: what is drawn for a sentence does not depend on the batch it is in, or on how many draws
are asked for.

Shapes: B sentences still drawn for, K draws a sentence, T tokens so far, N length limit, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from dragoman.errors import ConfigError
from dragoman.search.candidates import (
    DEAD,
    Bans,
    accumulator_type,
    checked_logits,
    log_normalizers,
    refuse_broken,
)
from dragoman.search.length import Limit, Penalty, length_penalty
from dragoman.search.options import (
    MOST_DRAWS,
    SearchOptions,
    check_alpha,
    check_integer,
    check_number,
)
from dragoman.search.step import Hypothesis, StepFunction
from dragoman.search.task import SearchTask, split_positions


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """How to draw; the defaults draw from the model's own distribution.

    Args:
        seed: the same seed gives the same outputs.
        samples: draws a sentence, at most 10,000; they may be equal.
        temperature: logits are divided by it; under 1 sharpens, above 0.
        top_k: draw from the k most probable tokens only; 0 is all.
        top_p: then from the fewest most probable tokens that hold this share of the tempered probability; 1
            is all.
        alpha: of the length penalty in the score; it has no influence on what is drawn.
        min_length: the fewest tokens of an output, EOS included.
        max_extra: an output has at most S + max_extra tokens, EOS included.
        penalty, limit: as in `SearchOptions`.

    Raises:
        ConfigError: a value is of another type or out of range.
    """

    seed: int
    samples: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    alpha: float = 0.6
    min_length: int = 1
    max_extra: int = 50
    penalty: Penalty = length_penalty
    limit: Limit | None = None

    def __post_init__(self) -> None:
        check_integer("seed", self.seed, least=0)
        check_integer("samples", self.samples, least=1, most=MOST_DRAWS)
        check_integer("top_k", self.top_k, least=0)
        check_integer("min_length", self.min_length, least=1)
        check_integer("max_extra", self.max_extra, least=0)
        check_number("temperature", self.temperature, least=1e-3, most=1e3)
        check_number("top_p", self.top_p, least=1e-6, most=1.0)
        check_alpha(self.alpha)


def sample(
    step: StepFunction,
    *,
    source_lengths: Sequence[int],
    options: SamplingOptions,
    bos_id: int,
    eos_id: int,
    forbidden_ids: Sequence[int] = (),
    sentence_numbers: Sequence[int] | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Outputs drawn token by token.

    Args:
        step: a model that was given the sources and no target yet.
        source_lengths: S of each sentence, EOS included.
        options: how to draw.
        bos_id: what the first step is given.
        eos_id: what ends an output.
        forbidden_ids: tokens never drawn.
        sentence_numbers: the number of each sentence in the whole text, which with the seed decides the
            draws; 0, 1, ... if left out.
        device: where `step` wants its tokens and gives its logits.

    Returns:
        For each sentence, in the order given, its draws in the order drawn, each with log P and score under
        the model's own distribution, without temperature, cuts and bans. A draw that bans leave no next token
        is left out.

    Raises:
        ConfigError: options that do not fit the sentences or the vocabulary.
        DragomanError: logits that are not finite.
    """
    numbers = range(len(source_lengths)) if sentence_numbers is None else sentence_numbers
    if len(numbers) != len(source_lengths):
        raise ConfigError(
            f"{len(numbers)} sentence numbers for {len(source_lengths)} sentences",
            where="sentence_numbers",
            cure="give one number a sentence, or none at all",
        )
    task = SearchTask.of(
        source_lengths,
        options=SearchOptions(
            beam_size=1,
            alpha=options.alpha,
            min_length=options.min_length,
            max_extra=options.max_extra,
            penalty=options.penalty,
            limit=options.limit,
        ),
        bos_id=bos_id,
        eos_id=eos_id,
        forbidden_ids=forbidden_ids,
        device=device,
    )
    with torch.no_grad():
        return _sample(step, task, options, random_numbers(numbers, task.limits, options))


def random_numbers(
    sentence_numbers: Sequence[int], limits: Sequence[int], options: SamplingOptions
) -> Float64[Tensor, "B K N"]:
    """A number from [0, 1) for each token of each draw; unused beyond a sentence's own limit."""
    numbers = np.zeros((len(limits), options.samples, max(limits, default=0)))
    for row, (sentence, limit) in enumerate(zip(sentence_numbers, limits, strict=True)):
        for draw in range(options.samples):
            generator = np.random.Generator(np.random.PCG64([options.seed, sentence, draw]))
            numbers[row, draw, :limit] = generator.random(limit)
    return torch.from_numpy(numbers)


@dataclass(frozen=True)
class _State:
    """The sentences that still have an unfinished draw."""

    rows: list[int]
    limits_B: Int64[Tensor, " B"]
    numbers_BKN: Float[Tensor, "B K N"]
    tokens_BKT: Int64[Tensor, "B K T"]
    totals_BK: Float[Tensor, "B K"]
    lengths_BK: Int64[Tensor, "B K"]
    ended_BK: Bool[Tensor, "B K"]

    @classmethod
    def start(cls, task: SearchTask, numbers_BKN: Float64[Tensor, "B K N"]) -> _State:
        """Empty draws."""
        lengths = torch.zeros(numbers_BKN.shape[:2], dtype=torch.int64, device=task.device)
        dtype = accumulator_type(task.device)
        return cls(
            rows=list(range(len(task.limits))),
            limits_B=task.limits_tensor(),
            numbers_BKN=numbers_BKN.to(task.device, dtype),
            tokens_BKT=lengths.new_zeros((*lengths.shape, 0)),
            totals_BK=lengths.to(dtype),
            lengths_BK=lengths,
            ended_BK=lengths.bool(),
        )

    def continued(
        self, tokens_BK: Int64[Tensor, "B K"], values_BK: Float[Tensor, "B K"], eos_id: int
    ) -> _State:
        """One token further; draws that have ended keep their length and total."""
        tokens_BK = torch.where(self.ended_BK, eos_id, tokens_BK)
        totals = torch.where(self.ended_BK, self.totals_BK, self.totals_BK + values_BK)
        return replace(
            self,
            tokens_BKT=torch.cat([self.tokens_BKT, tokens_BK.unsqueeze(2)], 2),
            totals_BK=totals,
            lengths_BK=self.lengths_BK + (~self.ended_BK).long(),
            ended_BK=self.ended_BK | (tokens_BK == eos_id) | (totals == DEAD),
        )

    def keep(self, sentences: Int64[Tensor, " n"]) -> _State:
        """The state of some sentences."""
        return _State(
            [self.rows[k] for k in sentences.tolist()],
            self.limits_B[sentences],
            self.numbers_BKN[sentences],
            self.tokens_BKT[sentences],
            self.totals_BK[sentences],
            self.lengths_BK[sentences],
            self.ended_BK[sentences],
        )

    def outputs(self, task: SearchTask) -> dict[int, list[Hypothesis]]:
        """By row, the draws."""
        columns = (self.tokens_BKT.tolist(), self.lengths_BK.tolist(), self.totals_BK.tolist())
        return {
            row: [
                _hypothesis(tokens[:length], total, task)
                for tokens, length, total in zip(*draws, strict=True)
                if total > DEAD
            ]
            for row, *draws in zip(self.rows, *columns, strict=True)
        }


def _hypothesis(tokens: list[int], total: float, task: SearchTask) -> Hypothesis:
    score = total / task.options.lp(len(tokens))
    return Hypothesis(tuple(tokens), total, score, finished=tokens[-1] == task.eos_id)


def _sample(
    step: StepFunction, task: SearchTask, options: SamplingOptions, numbers_BKN: Float64[Tensor, "B K N"]
) -> list[list[Hypothesis]]:
    state, tokens_BK = _State.start(task, numbers_BKN), task.first_tokens()
    found: dict[int, list[Hypothesis]] = {}
    while state.rows:
        logits = checked_logits(step(tokens_BK), tokens_BK)
        length = state.tokens_BKT.shape[2] + 1
        if task.bans_change_at(length):
            bans = Bans.of(task.banned_ids(length), vocab_size=logits.shape[-1], device=logits.device)
        drawn, values = draw(
            logits, state.numbers_BKN[:, :, length - 1], live_BK=~state.ended_BK, bans=bans, options=options
        )
        state = state.continued(drawn, values, task.eos_id)
        is_done = state.ended_BK.all(1) | (state.limits_B == length)
        done, staying = split_positions(is_done.tolist(), device=task.device)
        if len(done):
            found.update(state.keep(done).outputs(task))
            state = state.keep(staying)
        if state.rows and (len(done) or length == 1):
            draws = torch.arange(options.samples, device=task.device).expand(len(staying), -1)
            step.reorder(staying, torch.zeros_like(draws) if length == 1 else draws)
        tokens_BK = state.tokens_BKT[:, :, -1]
    return [found[row] for row in range(len(task.limits))]


def draw(
    logits: Float[Tensor, "B J V"],
    numbers_BK: Float[Tensor, "B K"],
    *,
    live_BK: Bool[Tensor, "B K"],
    bans: Bans,
    options: SamplingOptions,
) -> tuple[Int64[Tensor, "B K"], Float[Tensor, "B K"]]:
    """One token of each draw, and its log-probability under the logits as they are; -inf if all are banned.

    Args:
        logits: one row for all draws of a sentence (at the start), or one each.
        numbers_BK: from [0, 1): where in the cumulative distribution to take the token.
        live_BK: draws that go on; rows of the others may be anything.
        bans: tokens of probability zero.
        options: temperature, top_k and top_p, applied in this order.
    """
    normalizers = log_normalizers(logits, logits.argmax(-1))
    refuse_broken(~normalizers.isfinite() & live_BK)
    weights, tokens = _weights(logits.to(normalizers.dtype).masked_fill(bans.banned_V, DEAD), options)
    cumulative = weights.cumsum(-1).expand(*numbers_BK.shape, -1).contiguous()
    total = cumulative[..., -1]
    # Below the total even where the product rounds up to it, so that a token of weight zero is never met.
    wanted = torch.minimum(numbers_BK * total, total.nextafter(torch.zeros_like(total)))
    at = torch.searchsorted(cumulative, wanted.unsqueeze(-1), right=True).clamp(max=weights.shape[-1] - 1)
    drawn = tokens.expand(*numbers_BK.shape, -1).gather(-1, at)
    values = logits.to(normalizers.dtype).expand(*numbers_BK.shape, -1).gather(-1, drawn).squeeze(-1)
    return drawn.squeeze(-1), (values - normalizers).masked_fill(~(total > 0), DEAD)


def _weights(
    logits: Float[Tensor, "B K V"], options: SamplingOptions
) -> tuple[Float[Tensor, "B K n"], Int64[Tensor, "B K n"]]:
    """Unnormalized probabilities of the tokens that may be drawn, and these tokens."""
    tempered = (logits - logits.amax(-1, keepdim=True)) / options.temperature
    if options.top_k == 0 and options.top_p == 1.0:
        tokens = torch.arange(logits.shape[-1], device=logits.device).expand(logits.shape)
        return tempered.exp().nan_to_num(0.0), tokens
    ranked, tokens = tempered.sort(dim=-1, descending=True, stable=True)
    if options.top_k:
        ranked, tokens = ranked[..., : options.top_k], tokens[..., : options.top_k]
    weights = ranked.exp().nan_to_num(0.0)
    before = weights.cumsum(-1) - weights
    return weights.masked_fill(before >= options.top_p * weights.sum(-1, keepdim=True), 0.0), tokens
