"""What search needs of a model, a step function, and what it gives back, hypotheses.

Paper: 6.1
Silent: whether a hypothesis counts its end mark; it does, as in tensor2tensor: n and log P include EOS.

Shapes: B sentences of the batch, K prefixes ("beams") a sentence, V entries of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int64
from torch import Tensor


@runtime_checkable
class StepFunction(Protocol):
    """A model that is in the middle of decoding B sentences, K prefixes each.

    A search calls it so: `step(BOS)` with K = 1; then, while sentences go on, `reorder(...)` and `step(...)`.
    """

    def __call__(self, tokens_BK: Int64[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Append one token to each prefix and say what may come next.

        Args:
            tokens_BK: the tokens to append; the very first are BOS with K = 1.

        Returns:
            Unnormalized logits (float32, or float64) of each prefix's next token. The search never writes to
            them. -inf is a token of probability zero; NaN, +inf, or a row of nothing but -inf are refused.
        """
        ...

    def reorder(self, sentences_B: Int64[Tensor, " B"], parents_BK: Int64[Tensor, "B K"]) -> None:
        """Drop the sentences that are done, and rearrange the prefixes of the others.

        Args:
            sentences_B: rows of the current batch that stay, ascending, none twice; fewer than now, or all.
            parents_BK: for each of these, the old prefix that new prefix j continues. K may differ from
                before (it does once, from 1 to the beam), one parent may be continued many times, or not at
                all.

        A search leaves this call out where it would change nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output of a search.

    Args:
        tokens: y_1 ... y_n, without BOS; with EOS as the last if finished.
        log_probability: log P(y), natural logarithm, the sum over all tokens (EOS included).
        score: log P(y) / lp(n) (`length.length_penalty`).
        finished: whether y_n is EOS; if not, the length limit cut it.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool

    @property
    def truncated(self) -> bool:
        """Whether the length limit cut it."""
        return not self.finished
