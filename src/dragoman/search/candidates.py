"""The best continuations of a sentence's live prefixes, in an exact order, without sorting the vocabulary.

Paper: 6.1
Silent: the order among equals; higher value, then lower parent, then lower token id.

`torch.topk` leaves the order of equals open, and is slow over a whole vocabulary. So: the largest value of
each chunk of tokens first; the count + 1 best chunks hold the count best tokens; take these apart. Only where
the last that is taken equals the first that is not, the sentence is looked through in full.

Log-probabilities are logit - log-sum-exp of the row (all tokens, banned or not), taken in float64 for
candidates only, and summed in float64.

Shapes: B sentences, K prefixes, V vocabulary, F candidates that are looked at, C continuations that are
returned, G chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.errors import ConfigError, DragomanError
from dragoman.native import kernels_for

CHUNK = 64
FEWEST_CHUNKS = 8  # a smaller vocabulary is looked at as a whole
DEAD = float("-inf")


@dataclass(frozen=True)
class Continuations:
    """The best continuations of each sentence, best first; value -inf where there are no more.

    Args:
        values_BC: log P of the prefix with its new token.
        parents_BC: the prefix continued.
        tokens_BC: the new token.
    """

    values_BC: Float[Tensor, "B C"]
    parents_BC: Int64[Tensor, "B C"]
    tokens_BC: Int64[Tensor, "B C"]


@dataclass(frozen=True)
class Bans:
    """The tokens that must not come next, in the forms the search needs.

    Args:
        banned_V: True for a banned token.
        chunks: the chunks with a banned token in them.
    """

    banned_V: Bool[Tensor, " V"]
    chunks: Int64[Tensor, " n"]

    @classmethod
    def of(cls, ids: Sequence[int], *, vocab_size: int, device: torch.device, chunk: int = CHUNK) -> Bans:
        """Bans of the token ids given.

        Raises:
            ConfigError: an id beyond the vocabulary.
        """
        wanted = sorted(set(ids))
        if wanted and wanted[-1] >= vocab_size:
            raise ConfigError(
                f"token id {wanted[-1]} is beyond a vocabulary of {vocab_size}",
                where="forbidden_ids",
                cure="use the ids of the vocabulary the model was trained with",
            )
        banned = torch.zeros(vocab_size, dtype=torch.bool)
        banned[wanted] = True
        chunks = torch.tensor(sorted({k // chunk for k in wanted}), dtype=torch.int64)
        return cls(banned.to(device), chunks.to(device))


def accumulator_type(device: torch.device) -> torch.dtype:
    """float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def checked_logits(logits: Tensor, tokens_BK: Int64[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
    """The logits in float32 (float64 stays), contiguous.

    Raises:
        ConfigError: the step function answered in another shape.
    """
    if logits.ndim != 3 or logits.shape[:2] != tokens_BK.shape:
        raise ConfigError(
            f"the step function gave logits {tuple(logits.shape)} for tokens {tuple(tokens_BK.shape)}",
            where="StepFunction",
            cure="return (B, K, V) for tokens (B, K)",
        )
    return (logits if logits.dtype == torch.float64 else logits.float()).contiguous()


def log_normalizers(logits: Float[Tensor, "*rows V"], best: Int64[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """log sum exp of each row, by way of the probability of its largest logit.

    The fused softmax is over twice as fast as `torch.logsumexp` on a CPU, and sums each row the same way
    whatever rows are beside it.

    Args:
        logits: unnormalized.
        best: the index of the largest logit of each row.
    """
    at_best = best.unsqueeze(-1)
    probabilities = logits.softmax(-1).gather(-1, at_best).squeeze(-1)
    wide = accumulator_type(logits.device)
    return logits.gather(-1, at_best).squeeze(-1).to(wide) - probabilities.to(wide).log()


def refuse_broken(broken_BK: Bool[Tensor, "B K"]) -> None:
    """Raise DragomanError if a live row of logits is no distribution (NaN, +inf, nothing but -inf)."""
    if bool(broken_BK.any()):
        rows = broken_BK.any(1).nonzero().flatten().tolist()
        raise DragomanError(
            "the model's logits are not finite, so nothing can be searched",
            where=f"sentences {rows} of the batch as it is now",
            cure="check the weights for NaN and infinity, or use float32 in place of a 16-bit mode",
        )


def _chunk_tokens(chunks: Int64[Tensor, "*rows n"], chunk: int) -> Int64[Tensor, "*rows m"]:
    """The token ids in these chunks; ids of V and more do not exist and must be masked by the caller."""
    within = torch.arange(chunk, device=chunks.device)
    return (chunks.unsqueeze(-1) * chunk + within).flatten(-2)


def _chunk_maxima(logits: Float[Tensor, "B K V"], chunk: int) -> Float[Tensor, "B K G"]:
    whole = logits.shape[-1] // chunk
    body = logits[..., : whole * chunk].view(*logits.shape[:-1], whole, chunk).amax(-1)
    tail = logits[..., whole * chunk :]
    return torch.cat([body, tail.amax(-1, keepdim=True)], -1) if tail.shape[-1] else body


def _argmax(
    logits: Float[Tensor, "B K V"], maxima: Float[Tensor, "B K G"], chunk: int
) -> Int64[Tensor, "B K"]:
    """The index of each row's largest logit, from the chunk that holds it."""
    tokens = _chunk_tokens(maxima.argmax(-1, keepdim=True), chunk)
    tokens = tokens.clamp(max=logits.shape[-1] - 1)
    at = logits.gather(-1, tokens).argmax(-1, keepdim=True)
    return tokens.gather(-1, at).squeeze(-1)


def _without_banned(
    maxima: Float[Tensor, "B K G"], logits: Float[Tensor, "B K V"], bans: Bans, chunk: int
) -> Float[Tensor, "B K G"]:
    """The chunk maxima, with those chunks done again that have banned tokens."""
    if not len(bans.chunks):
        return maxima
    vocab_size = logits.shape[-1]
    tokens = _chunk_tokens(bans.chunks, chunk)
    inside = tokens.clamp(max=vocab_size - 1)
    masked = logits[..., inside].masked_fill(bans.banned_V[inside] | (tokens >= vocab_size), DEAD)
    maxima = maxima.clone()
    maxima[..., bans.chunks] = masked.view(*maxima.shape[:-1], -1, chunk).amax(-1)
    return maxima


def _values(logits: Tensor, prefix: Tensor, normalizers: Tensor) -> Tensor:
    """log P of continuations; the dead stay dead. Written once, since equals must be rounded alike."""
    continued = prefix + (logits.to(prefix.dtype) - normalizers)
    return torch.where(prefix > DEAD, continued, DEAD)


class _Table:
    """All continuations of a batch, values (B, K * V), of which only what is asked for is computed."""

    def __init__(self, logits: Tensor, prefix_BK: Tensor, normalizers_BK: Tensor, bans: Bans) -> None:
        self.vocab_size = logits.shape[-1]
        self.flat = logits.flatten(1)
        self.prefix = prefix_BK
        self.normalizers = normalizers_BK
        self.banned = bans.banned_V

    def of_rows(self, logits: Float[Tensor, "B K n"]) -> Float[Tensor, "B K n"]:
        """Values of logits, whatever their tokens are."""
        return _values(logits, self.prefix.unsqueeze(-1), self.normalizers.unsqueeze(-1))

    def at(self, parents: Int64[Tensor, "B F"], tokens: Int64[Tensor, "B F"]) -> Float[Tensor, "B F"]:
        """Values of the continuations given; -inf for banned tokens and for ids beyond the vocabulary."""
        inside = tokens.clamp(max=self.vocab_size - 1)
        logits = self.flat.gather(1, parents * self.vocab_size + inside)
        values = _values(logits, self.prefix.gather(1, parents), self.normalizers.gather(1, parents))
        return values.masked_fill(self.banned[inside] | (tokens >= self.vocab_size), DEAD)

    def row(self, sentence: int) -> Float[Tensor, " F"]:
        """All values of one sentence, parent by parent."""
        logits = self.flat[sentence].view(-1, self.vocab_size)
        values = _values(logits, self.prefix[sentence, :, None], self.normalizers[sentence, :, None])
        return values.masked_fill(self.banned, DEAD).flatten()


def _ranked(
    values: Float[Tensor, "B F"], count: int
) -> tuple[Float[Tensor, "B n"], Int64[Tensor, "B n"], Bool[Tensor, " B"]]:
    """The `count` best values and their columns, equals by column; and where equals were left out."""
    top = values.topk(min(count + 1, values.shape[1]))
    columns, order = top.indices[:, :count].sort(dim=1)
    best, again = top.values[:, :count].gather(1, order).sort(dim=1, descending=True, stable=True)
    columns = columns.gather(1, again)
    if top.values.shape[1] <= count:
        return best, columns, torch.zeros(len(values), dtype=torch.bool, device=values.device)
    last, next_one = top.values[:, count - 1], top.values[:, count]
    return best, columns, (last == next_one) & (last > DEAD)


def _candidates(
    table: _Table, maxima: Float[Tensor, "B K G"], count: int, chunk: int
) -> tuple[Int64[Tensor, "B F"], Int64[Tensor, "B F"]]:
    """Parents and tokens of the best count + 1 chunks, by ascending parent, then token."""
    groups = maxima.shape[-1]
    values = table.of_rows(maxima).flatten(1)
    chosen = values.topk(min(count + 1, values.shape[1]), sorted=False).indices.sort(dim=1).values
    tokens = _chunk_tokens(chosen % groups, chunk)
    return (chosen // groups).repeat_interleave(chunk, dim=1), tokens


def _resolve(table: _Table, sentence: int, last: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best of one sentence, equals by column: all that reach the last value, sorted stably."""
    values = table.row(sentence)
    columns = (values >= last).nonzero().squeeze(1)
    best, order = values[columns].sort(descending=True, stable=True)
    return best[:count], columns[order[:count]]


def best_continuations(
    logits: Float[Tensor, "B K V"],
    log_probabilities_BK: Float[Tensor, "B K"],
    *,
    count: int,
    bans: Bans,
    chunk: int = CHUNK,
) -> Continuations:
    """The `count` best continuations of each sentence over all its prefixes, by log P.

    Args:
        logits: of each prefix's next token, contiguous.
        log_probabilities_BK: log P of each prefix; -inf for a dead one, which is never continued.
        count: C, how many.
        bans: tokens left out; they still count in the normalization.
        chunk: as `bans` was made with.

    Raises:
        DragomanError: the logits of a live prefix are no distribution.
    """
    if (kernels := kernels_for(logits)) is not None and logits.dtype == torch.float32:
        values, parents, tokens, broken = kernels.best_continuations(
            logits, log_probabilities_BK, bans.banned_V, count
        )
        refuse_broken(broken)
        return Continuations(values, parents, tokens)
    vocab_size = logits.shape[-1]
    maxima = _chunk_maxima(logits, chunk)
    normalizers = log_normalizers(logits, _argmax(logits, maxima, chunk))
    refuse_broken(~normalizers.isfinite() & (log_probabilities_BK > DEAD))
    table = _Table(logits, log_probabilities_BK, normalizers, bans)
    if vocab_size < FEWEST_CHUNKS * chunk:
        flat = torch.arange(table.flat.shape[1], device=logits.device).expand(len(logits), -1)
        parents, tokens = flat // vocab_size, flat % vocab_size
    else:
        parents, tokens = _candidates(table, _without_banned(maxima, logits, bans, chunk), count, chunk)
    values, columns, is_open = _ranked(table.at(parents, tokens), count)
    parents, tokens = parents.gather(1, columns), tokens.gather(1, columns).clamp(max=vocab_size - 1)
    for sentence in is_open.nonzero().flatten().tolist():
        values[sentence], at = _resolve(table, sentence, values[sentence, -1], count)
        parents[sentence], tokens[sentence] = at // vocab_size, at % vocab_size
    return _padded(Continuations(values, parents, tokens), count)


def _padded(found: Continuations, count: int) -> Continuations:
    """The same with dead continuations added where a small vocabulary has too few."""
    missing = count - found.values_BC.shape[1]
    if missing <= 0:
        return found
    return Continuations(
        torch.nn.functional.pad(found.values_BC, (0, missing), value=DEAD),
        torch.nn.functional.pad(found.parents_BC, (0, missing)),
        torch.nn.functional.pad(found.tokens_BC, (0, missing)),
    )
