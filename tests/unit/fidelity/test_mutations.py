"""Ten ways in which well-known code is not the paper: each done to the code, and seen by the report where it is done.

Paper: 3.1, 3.2.1 (Eq. 1), 3.4, 3.5, 5.3, 5.4, 6.1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.data.batches import Batch
from dragoman.fidelity.measure import measure
from dragoman.model import position
from dragoman.model.attention import MultiHeadAttention, attention_weights
from dragoman.model.config import ModelShape
from dragoman.model.dropout import dropout
from dragoman.model.embedding import Embedding
from dragoman.model.parts import PAPER, Parts
from dragoman.model.residual import PostNorm, layer_norm
from dragoman.model.transformer import Transformer
from dragoman.recipes.named import base
from dragoman.search import length, task
from dragoman.training import explicit, loss, step
from dragoman.training.loss import Spread
from dragoman.training.optimizer import FlatAdam
from dragoman.training.products import Products

Patch = pytest.MonkeyPatch


def other_wavelengths(patch: Patch) -> Parts:
    """Timescales spread over d/2 - 1 steps, as tensor2tensor and fairseq have them."""

    def sinusoids(length: int, d_model: int) -> Tensor:
        pos = torch.arange(length, dtype=torch.float64)[:, None]
        angle = pos / 10000.0 ** (torch.arange(d_model // 2, dtype=torch.float64) / (d_model // 2 - 1))
        return torch.stack([angle.sin(), angle.cos()], dim=-1).view(length, d_model)

    patch.setattr(position, "sinusoids", sinusoids)
    return PAPER


def penalty_by_length(patch: Patch) -> Parts:
    """log P / n^alpha, as fairseq, Marian and CTranslate2 have it."""
    patch.setattr(length, "length_penalty", lambda length, alpha: float(length**alpha))
    return PAPER


def smoothing_over_all(patch: Patch) -> Parts:
    """eps_ls spread over all V classes, as torch.nn.CrossEntropyLoss does: the true one keeps 1 - eps + eps / V."""
    ours = loss.loss_and_gradients

    def over_all(hidden: Tensor, weight: Tensor, targets: Tensor, eps_ls: float, **rest: Any) -> Any:
        V = weight.shape[0]
        return ours(hidden, weight, targets, eps_ls * (V - 1) / V, **rest)

    for module in (loss, explicit):
        patch.setattr(module, "loss_and_gradients", over_all)
    return PAPER


def slower_second_moment(patch: Patch) -> Parts:
    """beta_2 .997, as tensor2tensor has it today."""

    def adam(model: Any, dtype: torch.dtype, *, beta_1: float, beta_2: float, epsilon: float) -> FlatAdam:
        return FlatAdam(model, dtype, beta_1=beta_1, beta_2=0.997, epsilon=epsilon)

    patch.setattr(step, "FlatAdam", adam)
    return PAPER


def final_norm(patch: Patch) -> Parts:
    """A norm after each stack, as torch.nn.Transformer adds."""
    for name in ("encode", "decode_hidden"):
        ours = getattr(Transformer, name)

        def normed(self: Transformer, *arguments: Any, ours: Callable[..., Tensor] = ours) -> Tensor:
            x = ours(self, *arguments)
            return layer_norm(x.shape[-1]).to(x)(x)

        patch.setattr(Transformer, name, normed)
    # The gradient that is written out is of the model as it was.
    patch.setattr(explicit, "serves", lambda _model: None)
    return PAPER


def attention_dropout(_patch: Patch) -> Parts:
    """Dropout on the attention weights, as the annotated transformer and others have it."""

    return Parts(attention=DroppedAttention)


def unscaled_embeddings(patch: Patch) -> Parts:
    """Embeddings as they are, not times sqrt(d_model)."""
    ours = Embedding.__init__

    def unscaled(self: Embedding, vocab_size: int, d_model: int) -> None:
        ours(self, vocab_size, d_model)
        self.scale = 1.0

    patch.setattr(Embedding, "__init__", unscaled)
    return PAPER


class DroppedAttention(MultiHeadAttention):
    """Dropout(softmax(Q K^T / sqrt(d_k))) V."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__(shape)
        self.P_drop = shape.P_drop
        del self.attend

    def attend(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        return dropout(attention_weights(Q, K, mask), self.P_drop, self.training) @ V


class PreNorm(PostNorm):
    """x + Dropout(Sublayer(LayerNorm(x)))."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + dropout(sublayer(self.norm(x)), self.P_drop, self.training)


def pre_norm(_patch: Patch) -> Parts:
    """The norm before each sub-layer."""
    return Parts(residual=PreNorm)


def longer_outputs(patch: Patch) -> Parts:
    """Up to 100 tokens over the source, as tensor2tensor has it today."""
    ours = length.length_limits

    def limits(source_lengths: Sequence[int], *, min_length: int, **_rest: Any) -> list[int]:
        return ours(source_lengths, max_extra=100, min_length=min_length)

    patch.setattr(task, "length_limits", limits)
    return PAPER


def mean_of_means(patch: Patch) -> Parts:
    """The mean of a piece's tokens, and then the mean of the pieces: tokens of short pieces count more."""

    def gradient(
        model: Transformer,
        optimizer: FlatAdam,
        batch: Batch,
        *,
        eps_ls: float,
        tokens_at_once: int,
        spread: Spread,
        products: Products,
        factor: float,
    ) -> tuple[float, float]:
        cut = list(step.pieces(batch, tokens_at_once))
        for number, piece in enumerate(cut, start=1):
            smoothed, nll = step._by_autograd(model, optimizer, factor, piece, eps_ls, spread)
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad.mul_(batch.target_tokens / len(cut) / piece.target_tokens)
            optimizer.gather(first=number == 1, last=number == len(cut))
        return smoothed.item(), nll.item()

    patch.setattr(step, "gradient", gradient)
    return PAPER


MUTATIONS = [
    (other_wavelengths, "sinusoid wavelengths", "2 pi 10000^(i/(d_model/2 - 1))"),
    (penalty_by_length, "length penalty", "n^alpha"),
    (smoothing_over_all, "smoothing form", "eps_ls over all V"),
    (slower_second_moment, "optimizer.beta_2", 0.997),
    (final_norm, "final norms", "after the encoder and the decoder"),
    (attention_dropout, "dropout places", "sub-layer outputs, embedding + position, attention"),
    (unscaled_embeddings, "embedding scale", "none"),
    (pre_norm, "norm place", "before the sub-layer"),
    (longer_outputs, "search.max_extra", 100),
    (mean_of_means, "mean of the loss", "of the means of its pieces"),
]


def test_the_code_as_it_is_departs_in_nothing():
    assert measure(base()).departures == ()


@pytest.mark.parametrize(
    ("mutate", "choice", "here"), MUTATIONS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_mutation_is_seen_where_it_is_and_nowhere_else(monkeypatch, mutate, choice, here):
    with monkeypatch.context() as patch:
        found = measure(base(), parts=mutate(patch)).departures
    assert [(finding.choice, finding.here) for finding in found] == [(choice, here)]
    assert measure(base()).departures == ()


def test_the_banner_says_what_the_probes_saw(monkeypatch):
    stands = measure(base(), parts=pre_norm(monkeypatch))
    assert stands.banner("base") == (
        "Vaswani et al. 2017: architecture norm place before the sub-layer (paper after the sum, 3.1), recipe as "
        "published, scale: as published (base)"
    )
    penalty_by_length(monkeypatch)
    assert measure(base()).banner("base") == (
        "Vaswani et al. 2017: architecture as published, recipe length penalty n^alpha (paper ((5 + n) / 6)^alpha, "
        "6.1), scale: as published (base)"
    )


def test_all_ten_together(monkeypatch):
    """Each is found beside the others, whatever part or function it is in."""
    made = [partial(mutate, monkeypatch)() for mutate, _, _ in MUTATIONS]
    parts = Parts(
        residual=next(p.residual for p in made if p.residual is not PostNorm),
        attention=next(p.attention for p in made if p.attention is not MultiHeadAttention),
    )
    found = {finding.choice: finding.here for finding in measure(base(), parts=parts).departures}
    expected = {choice: here for _, choice, here in MUTATIONS}
    assert found.items() >= expected.items()
