"""The recurrent encoder-decoder that learns to align, which the paper does away with the recurrence of.

Earlier: Bahdanau et al. 2015, arXiv:1409.0473 (3.1, 3.2, appendix A)

Encoder: a gated recurrent network in each direction, h_j both states at j beside each other. Decoder: a gated recurrent
network over the targets, which before each step looks at the source through weights

    e_ij = v_a^T tanh(W_a s_(i-1) + U_a h_j),  alpha_i = softmax(e_i),  c_i = sum_j alpha_ij h_j
    s_i = GRU(s_(i-1), [E y_(i-1); c_i]),  s_0 = tanh(W_s h<-_1)
    t_i = the larger of each two neighbors of U_o s_(i-1) + V_o E y_(i-1) + C_o c_i,  logits = W_o t_i

Otherwise than there: the gated unit is PyTorch's, whose reset gate acts after the product (Chung et al. 2014 has both
forms); dropout on embeddings and on t (Zaremba et al. 2014), since our corpora are small; one matrix for both embeddings;
initial weights by Glorot's rule. Training (Adam, the rate, smoothing, batches) is ours, so that the models are
all that differs.

B batch, S source positions, T target positions, K prefixes a sentence, V vocabulary, d_hidden width of a state.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.errors import ConfigError


@dataclass(frozen=True)
class RecurrentConfig:
    """Sizes of the model.

    Attributes:
        vocab_size: V, of both languages.
        d_model: width of embeddings and of t: what the learning rate's rule and the output map see.
        d_hidden: width of a state of either direction, and of the alignment model.
        P_drop: of dropout.
        pad_id: padding.

    Raises:
        ConfigError: a size is not positive, or d_model is odd: neighbors are paired.
    """

    vocab_size: int
    d_model: int = 256
    d_hidden: int = 256
    P_drop: float = 0.1
    pad_id: int = 0

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "d_hidden"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}", cure="take a positive number")
        if not 0.0 <= self.P_drop < 1.0:
            raise ConfigError(f"P_drop is {self.P_drop}", cure="take a number from 0 to below 1")


@dataclass(frozen=True)
class Encoded:
    """A source, as the decoder sees it.

    Attributes:
        annotations: h.
        keys: U_a h.
        is_token: where there is no padding.
        first_state: s_0.
    """

    annotations: Float[Tensor, "B S 2*d_hidden"]
    keys: Float[Tensor, "B S d_hidden"]
    is_token: Bool[Tensor, "B S"]
    first_state: Float[Tensor, "B d_hidden"]


class RecurrentTranslator(nn.Module):
    """The model; it trains by the same step as `Transformer`, whose names for what a loss needs it has.

    Args:
        config: sizes.
        seed: of the initial weights.
    """

    def __init__(self, config: RecurrentConfig, *, seed: int = 1) -> None:
        super().__init__()
        self.config = config
        d, n = config.d_model, config.d_hidden
        self.embedding = nn.Embedding(config.vocab_size, d)
        self.encoder = nn.GRU(d, n, batch_first=True, bidirectional=True)
        self.first_state = nn.Linear(n, n)
        self.W_a, self.U_a = nn.Linear(n, n, bias=False), nn.Linear(2 * n, n)
        self.v_a = nn.Parameter(torch.empty(n))
        self.cell = nn.GRUCell(d + 2 * n, n)
        self.before_maxout = nn.Linear(n + d + 2 * n, 2 * d)
        self.W_o = nn.Parameter(torch.empty(config.vocab_size, d))
        self._initialize(seed)

    @torch.no_grad()
    def _initialize(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if name in ("embedding.weight", "W_o"):
                parameter.normal_(0.0, self.config.d_model**-0.5, generator=generator)
            elif parameter.dim() == 2:
                bound = (6.0 / sum(parameter.shape)) ** 0.5
                parameter.uniform_(-bound, bound, generator=generator)
            elif name == "v_a":
                parameter.normal_(0.0, len(parameter) ** -0.5, generator=generator)
            else:
                parameter.zero_()

    @property
    def output_weight(self) -> Float[Tensor, "V d_model"]:
        """The matrix of the output map."""
        return self.W_o

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the weights."""
        return self.W_o.dtype

    def embed(self, ids: Int64[Tensor, "*N"]) -> Float[Tensor, "*N d_model"]:
        """Embeddings of about variance 1."""
        x: Tensor = self.embedding(ids) * self.config.d_model**0.5
        return F.dropout(x, self.config.P_drop, self.training)

    def encode(self, source_ids: Int64[Tensor, "B S"]) -> Encoded:
        """Both directions over the source; padding changes nothing."""
        is_token = source_ids != self.config.pad_id
        lengths = is_token.sum(dim=1).cpu()
        packed = pack_padded_sequence(self.embed(source_ids), lengths, batch_first=True, enforce_sorted=False)
        states, last = self.encoder(packed)
        annotations, _ = pad_packed_sequence(states, batch_first=True, total_length=source_ids.shape[1])
        first = torch.tanh(
            self.first_state(last[1])
        )  # of the backward direction, which ends at the first token
        return Encoded(annotations, self.U_a(annotations), is_token, first)

    def alignment(self, state: Float[Tensor, "N d_hidden"], source: Encoded) -> Float[Tensor, "N S"]:
        """alpha: how much each source position counts for the next target."""
        energies = torch.tanh(self.W_a(state)[:, None] + source.keys) @ self.v_a
        return energies.masked_fill(~source.is_token, -torch.inf).softmax(dim=-1)

    def step(
        self, state: Float[Tensor, "N d_hidden"], y: Float[Tensor, "N d_model"], source: Encoded
    ) -> tuple[Float[Tensor, "N d_hidden"], Float[Tensor, "N d_model"]]:
        """One target position: the next state, and t."""
        weights = self.alignment(state, source)
        context = (weights[:, None] @ source.annotations)[:, 0]
        both = self.before_maxout(torch.cat([state, y, context], dim=-1))
        t = both.unflatten(-1, (self.config.d_model, 2)).amax(dim=-1)
        following: Tensor = self.cell(torch.cat([y, context], dim=-1), state)
        return following, F.dropout(t, self.config.P_drop, self.training)

    def hidden(
        self, source_ids: Int64[Tensor, "B S"], target_ids: Int64[Tensor, "B T"]
    ) -> Float[Tensor, "B T d_model"]:
        """t at every position, for targets shifted right by one; as many steps one after another as there are."""
        source, y = self.encode(source_ids), self.embed(target_ids)
        state, found = source.first_state, []
        for position in range(target_ids.shape[1]):
            state, t = self.step(state, y[:, position], source)
            found.append(t)
        return torch.stack(found, dim=1)

    def forward(
        self, source_ids: Int64[Tensor, "B S"], target_ids: Int64[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Logits of the next token at every target position."""
        return F.linear(self.hidden(source_ids, target_ids), self.W_o)


class RecurrentDecoder:
    """The step function of a search (`dragoman.search.step.StepFunction`) for a batch of sources.

    Args:
        model: in evaluation mode.
        source_ids: tokens of each sentence, then padding.
    """

    def __init__(self, model: RecurrentTranslator, source_ids: Int64[Tensor, "B S"]) -> None:
        assert not model.training, "dropout must be off: model.eval()"
        self._model = model
        with torch.inference_mode():
            self._source = model.encode(source_ids)
        self._state_BK = self._source.first_state[:, None]

    @torch.inference_mode()
    def __call__(self, tokens_BK: Int64[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Appends a token to each prefix; logits of the next token."""
        (B, K), source = tokens_BK.shape, self._source
        of_each = Encoded(
            *(
                x.repeat_interleave(K, dim=0)
                for x in (source.annotations, source.keys, source.is_token, source.first_state)
            )
        )
        state, t = self._model.step(
            self._state_BK.flatten(0, 1), self._model.embed(tokens_BK.flatten()), of_each
        )
        self._state_BK = state.view(B, K, -1)
        return F.linear(t, self._model.W_o).view(B, K, -1).float()

    @torch.inference_mode()
    def reorder(self, sentences_B: Int64[Tensor, "B2"], parents_BK: Int64[Tensor, "B2 K2"]) -> None:
        """Drops sentences that are done and rearranges prefixes."""
        source = self._source
        self._source = Encoded(
            *(x[sentences_B] for x in (source.annotations, source.keys, source.is_token, source.first_state))
        )
        rows = sentences_B[:, None].expand_as(parents_BK)
        self._state_BK = self._state_BK[rows, parents_BK]
