"""The finished pool of each sentence: the k best hypotheses that ended in EOS, by score.

Paper: 6.1
Silent: the order of equal scores; the one found earlier, then the one with the higher log P, comes first.

Shapes: B sentences, P places of a pool (the beam size), C continuations, T tokens so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.search.step import Hypothesis

DEAD = float("-inf")


@dataclass(frozen=True)
class Pool:
    """Finished hypotheses, best first; score -inf where a place is empty.

    Args:
        tokens_BPT: their tokens with EOS, then anything.
        lengths_BP: n, EOS included.
        log_probabilities_BP: log P.
        scores_BP: log P / lp(n).
    """

    tokens_BPT: Int64[Tensor, "B P T"]
    lengths_BP: Int64[Tensor, "B P"]
    log_probabilities_BP: Float[Tensor, "B P"]
    scores_BP: Float[Tensor, "B P"]

    @classmethod
    def empty(cls, sentences: int, places: int, *, device: torch.device, dtype: torch.dtype) -> Pool:
        """Pools without a hypothesis."""
        nothing = torch.full((sentences, places), DEAD, dtype=dtype, device=device)
        lengths = torch.zeros((sentences, places), dtype=torch.int64, device=device)
        return cls(lengths.new_zeros((sentences, places, 0)), lengths, nothing, nothing)

    def add(
        self,
        tokens_BCT: Int64[Tensor, "B C T"],
        log_probabilities_BC: Float[Tensor, "B C"],
        *,
        penalty: float,
    ) -> Pool:
        """The pool after hypotheses of T tokens were offered to it; -inf offers nothing.

        Args:
            tokens_BCT: T is one more than the pool's.
            log_probabilities_BC: log P, best first.
            penalty: lp(T).
        """
        places, length = self.scores_BP.shape[1], tokens_BCT.shape[2]
        scores = torch.cat([self.scores_BP, log_probabilities_BC / penalty], 1)
        best, order = scores.sort(dim=1, descending=True, stable=True)
        best, order = best[:, :places], order[:, :places]
        lengths = torch.cat(
            [self.lengths_BP, torch.full_like(order[:, :1], length).expand_as(log_probabilities_BC)], 1
        )
        log_probabilities = torch.cat([self.log_probabilities_BP, log_probabilities_BC], 1)
        older = torch.nn.functional.pad(self.tokens_BPT, (0, length - self.tokens_BPT.shape[2]))
        tokens = picked(torch.cat([older, tokens_BCT], 1), order)
        return Pool(tokens, lengths.gather(1, order), log_probabilities.gather(1, order), best)

    def hypotheses(self, most: int) -> list[list[Hypothesis]]:
        """Up to `most` of the best hypotheses of each sentence."""
        columns = (self.tokens_BPT, self.lengths_BP, self.log_probabilities_BP, self.scores_BP)
        return [
            [
                Hypothesis(tuple(tokens[:length]), log_probability, score, finished=True)
                for tokens, length, log_probability, score in zip(*places, strict=True)
                if score > DEAD
            ]
            for places in zip(*(column[:, :most].tolist() for column in columns), strict=True)
        ]

    def keep(self, sentences: Int64[Tensor, " n"]) -> Pool:
        """The pools of some sentences."""
        return Pool(
            self.tokens_BPT[sentences],
            self.lengths_BP[sentences],
            self.log_probabilities_BP[sentences],
            self.scores_BP[sentences],
        )


def picked(tokens_BKT: Int64[Tensor, "B K T"], index_BJ: Int64[Tensor, "B J"]) -> Int64[Tensor, "B J T"]:
    """Rows of tokens: out[b, j] = tokens[b, index[b, j]]."""
    sentences, width, length = tokens_BKT.shape
    first = torch.arange(sentences, device=index_BJ.device).unsqueeze(1) * width
    rows = tokens_BKT.reshape(sentences * width, length).index_select(0, (index_BJ + first).flatten())
    return rows.view(sentences, index_BJ.shape[1], length)
