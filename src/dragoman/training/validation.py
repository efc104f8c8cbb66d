"""Loss and perplexity on the dev set.

Paper: Table 3 (perplexity per word-piece on the development set), 6.2
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from dragoman.data.batches import Batch
from dragoman.training.learner import Learner
from dragoman.training.loss import Spread, output_loss, over_the_others


@dataclass(frozen=True)
class DevLoss:
    """Means over the target tokens of the dev set, EOS included, in nats.

    Attributes:
        loss: the smoothed loss.
        nll: the unsmoothed negative log-likelihood.
    """

    loss: float
    nll: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """exp(nll): per subword, not to be compared with per-word perplexities."""
        return math.exp(min(self.nll, 700.0))


@torch.no_grad()
def dev_loss(
    model: Learner, batches: Iterable[Batch], eps_ls: float, spread: Spread = over_the_others
) -> DevLoss:
    """Without dropout; the model is left in evaluation mode."""
    model.eval()
    loss_sum = nll_sum = 0.0
    tokens = 0
    for batch in batches:
        hidden = model.hidden(batch.source_ids, batch.target_input_ids)
        loss = output_loss(
            hidden,
            model.output_weight,
            batch.target_output_ids,
            eps_ls,
            pad_id=model.config.pad_id,
            spread=spread,
        )
        loss_sum += loss.smoothed.item()
        nll_sum += loss.nll.item()
        tokens += loss.tokens
    return DevLoss(loss_sum / tokens, nll_sum / tokens, tokens)
