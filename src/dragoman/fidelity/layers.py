"""Probes of what is inside the stacks: sub-layers, norms, attention, feed-forward networks.

Paper: none (measures what other modules do)

Each takes a model and says what it computes in the words of `choices`; a part that cannot be taken for the paper's is
called by its class. B batch, L positions.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dragoman.fidelity.small import (
    ATTENTIONS,
    NETWORKS,
    RESIDUALS,
    SOURCE,
    TARGET,
    agreed,
    calls,
    exact,
    ids,
    numbers,
    parts_named,
    same,
    shaken,
)
from dragoman.model.transformer import Transformer

OF_A_SAMPLE = "mean 0, deviation 1 of d_model - 1 over the width"
LARGE = 1e4  # so that a norm's epsilon is nothing beside it


def sub_layers(model: Transformer) -> str:
    """Which sub-layers are called, in each layer of each stack (3.1)."""
    model = shaken(model)
    said = []
    for stack, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        inside = {
            child: name.replace("_", "-")
            for layer in layers
            for name, child in layer.named_children()
            if not name.startswith("residual")
        }
        with calls(iter(inside)) as seen:
            model(SOURCE, TARGET)
        order = [inside[module] for module, _, _ in seen]
        once = order[: len(order) // len(layers)]
        said.append(f"{stack}: {', '.join(once if once * len(layers) == order else order)}")
    return "; ".join(said)


def norm_place(model: Transformer) -> str:
    """Where in x + Sublayer(x) the norm is (3.1)."""
    return agreed(_norm_place(residual, model.config.d_model) for residual in _residuals(shaken(model)))


def _residuals(model: Transformer) -> Iterator[Any]:
    return parts_named(model, RESIDUALS)


def _norm_place(residual: Any, d_model: int) -> str:
    """After the sum: sizes are lost, and only the sum counts. Before the sub-layer: it is not given x itself."""
    x, f, d = (LARGE * numbers(1, 5, d_model, seed=seed) for seed in (1, 2, 3))
    given, result = _through(residual, x, f)
    before = "" if same(given, x) else "before the sub-layer"
    if same(result, x + f):
        return before or "none"
    by_sum_alone = same(_through(residual, x + d, f - d)[1], result, 1e-6)
    if by_sum_alone and same(_through(residual, 2 * x, 2 * f)[1], result, 1e-6):
        return " and ".join(filter(None, (before, "after the sum")))
    if same(_through(residual, x, 2 * f)[1], result, 1e-6):
        return " and ".join(filter(None, (before, "after the sub-layer, before the sum")))
    return f"elsewhere ({type(residual).__name__})"


def _through(residual: Any, x: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
    """What the sub-layer is given, and what comes out if it answers f."""
    given = []

    def sublayer(y: Tensor) -> Tensor:
        given.append(y)
        return f

    result: Tensor = residual(x, sublayer)
    return given[0], result


def norm_formula(model: Transformer) -> str:
    """What becomes of mean and deviation, with the initial gain of 1 and bias of 0 (3.1)."""
    return agreed(_norm_formula(residual, model.config.d_model) for residual in _residuals(exact(model)))


def _norm_formula(residual: Any, d_model: int) -> str:
    normed = _normed(residual, LARGE * (numbers(1, 5, d_model) + 2.0))
    if normed is None:
        return "none"
    mean, square = normed.mean(dim=-1), normed.square().mean(dim=-1)
    if same(square, torch.ones_like(square), 1e-6):
        centered = same(mean, torch.zeros_like(mean), 1e-6)
        return "mean 0, deviation 1 over the width" if centered else "root mean square 1 over the width"
    if same(square, torch.full_like(square, 1.0 - 1.0 / d_model), 1e-6):
        return OF_A_SAMPLE
    return f"another ({type(residual).__name__})"


def _normed(residual: Any, x: Tensor) -> Tensor | None:
    """x after the norm: as the sub-layer's input where that is normed, else as its result, beside an input of zeros."""
    given, _ = _through(residual, x, torch.zeros_like(x))
    if not same(given, x):
        return given
    _, result = _through(residual, torch.zeros_like(x), x)
    return None if same(result, x) else result


def norm_constants(model: Transformer) -> str:
    """Epsilon, from how much smaller a small input comes out; and the vectors that are learned (silent)."""
    return agreed(_norm_constants(residual, model.config.d_model) for residual in _residuals(exact(model)))


def _norm_constants(residual: Any, d_model: int) -> str:
    x = 1e-3 * numbers(1, 1, d_model)
    normed = _normed(residual, x)
    if normed is None:
        return "none"
    x, normed = x - x.mean(), (normed - normed.mean()).detach()
    divided = x.square().sum() / normed.square().sum()  # by the square of this
    if _norm_formula(residual, d_model) == OF_A_SAMPLE:
        epsilon, where = float(divided.sqrt() - x.std()), " beside the deviation"
    else:
        epsilon, where = float(divided - x.square().mean()), ""
    learned = [parameter for parameter in residual.parameters() if parameter.ndim == 1]
    vectors = {0: "no gain", 1: "a gain", 2: "gain and bias"}.get(len(learned), f"{len(learned)} vectors")
    return f"epsilon {epsilon:.3g}{where}, {vectors}"


def final_norms(model: Transformer) -> str:
    """Whether anything is between the last layer of a stack and what the stack gives (3.1: nothing)."""
    model = shaken(model)
    with calls(_residuals(model)) as seen:
        memory = model.encode(SOURCE)
        after_encoder = not same(seen[-1][2], memory)
        seen.clear()
        hidden = model.decode_hidden(TARGET, memory)
        # What the output map multiplies may have columns of its own behind.
        after_decoder = not same(seen[-1][2], hidden[..., : model.config.d_model])
    ends = [name for name, more in (("encoder", after_encoder), ("decoder", after_decoder)) if more]
    return f"after the {' and the '.join(ends)}" if ends else "none"


def attention(model: Transformer) -> str:
    """Eq. 1 in each multi-head attention, biases set to nothing (3.2.1)."""
    return agreed(_attention(module, model.config.d_model) for module in _attentions(shaken(model)))


def _attentions(model: Transformer) -> Iterator[Any]:
    return parts_named(model, ATTENTIONS)


def _attention(module: Any, d_model: int) -> str:
    """From the whole module, as 3.2.2 puts it together; or, of one put together otherwise, from its Eq. 1 alone."""
    module = _without_biases(module)
    has_heads, x = _is_concat_of_heads(module, d_model), numbers(1, 4, d_model)
    for said, scale in _scales(module, d_model).items():
        if has_heads and _is_multi_head(module, x, scale):
            return f"softmax(Q K^T{said}) V"
        if (not has_heads or knows_places(module, x)) and _attends(module, scale):
            return f"softmax(Q K^T{said}) V"
    return f"another ({type(module).__name__})"


def _without_biases(module: Any) -> Any:
    module = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim == 1:
                parameter.zero_()
    return module


def _scales(module: Any, d_model: int) -> dict[str, float]:
    d_k = getattr(module, "d_k", d_model)
    return {" / sqrt(d_k)": d_k**-0.5, "": 1.0, " / sqrt(d_model)": d_model**-0.5}


def _is_concat_of_heads(module: Any, d_model: int) -> bool:
    """Whether it has h heads' own W^Q, W^K, W^V, and W^O."""
    if not all(hasattr(module, name) for name in ("matrices", "h", "d_k", "d_v")):
        return False
    h, d_k, d_v = module.h, module.d_k, module.d_v
    expected = [(h * d_k, d_model), (h * d_k, d_model), (h * d_v, d_model), (d_model, h * d_v)]
    return [tuple(matrix.shape) for matrix in module.matrices()] == expected


def _is_multi_head(module: Any, y: Tensor, scale: float) -> bool:
    """Of y over itself, and of fewer positions over y under a mask."""
    x, legal = numbers(1, 3, y.shape[-1], seed=2), torch.ones(1, 1, 3, 4, dtype=torch.bool).tril()
    itself, across = _multi_head(module, y, y, None, scale), _multi_head(module, x, y, legal, scale)
    for mode in (torch.enable_grad, torch.no_grad):  # another form of the same equation computes in each
        with mode():
            if not (same(module(y), itself) and same(module(x, y, legal), across)):
                return False
    return True


def _multi_head(module: Any, x: Tensor, y: Tensor, legal: Tensor | None, scale: float) -> Tensor:
    """Concat(head_1 .. head_h) W^O, head by head, as 3.2.2 has it."""
    W_Q, W_K, W_V, W_O = module.matrices()
    heads = []
    for head in range(module.h):
        in_k = slice(head * module.d_k, (head + 1) * module.d_k)
        in_v = slice(head * module.d_v, (head + 1) * module.d_v)
        heads.append(_equation_1(x @ W_Q[in_k].T, y @ W_K[in_k].T, y @ W_V[in_v].T, legal, scale))
    joined: Tensor = torch.cat(heads, dim=-1) @ W_O.T
    return joined


def _equation_1(Q: Tensor, K: Tensor, V: Tensor, legal: Tensor | None, scale: float) -> Tensor:
    scores = scale * Q @ K.transpose(-2, -1)
    if legal is not None:
        scores = scores.masked_fill(~legal[0], -torch.inf)
    return scores.softmax(dim=-1) @ V


def _attends(module: Any, scale: float) -> bool:
    if not hasattr(module, "attend"):
        return False
    h, groups = module.h, getattr(module, "groups", module.h)  # heads of queries, and of keys and values
    Q = numbers(1, h, 4, module.d_k, seed=1)
    K, V = (numbers(1, groups, 4, width, seed=width) for width in (module.d_k, module.d_v))
    of_each = [x.repeat_interleave(h // groups, dim=1) for x in (K, V)]
    return same(module.attend(Q, K, V, None), _equation_1(Q, of_each[0], of_each[1], None, scale))


def knows_places(attention: Any, x: Tensor) -> bool:
    """Whether the order of the positions of x matters to an attention of x over itself."""
    return not same(attention(x.flip(1)).flip(1), attention(x))


def heads(model: Transformer) -> str:
    """How many heads there are, and whether each has queries, keys and values of its own (3.2.2)."""
    config = model.config
    return agreed(
        "h, each with projections of its own"
        if _is_concat_of_heads(module, config.d_model) and module.h == config.h
        else f"those of {type(module).__name__}"
        for module in _attentions(model)
    )


def attention_biases(model: Transformer) -> str:
    """Vectors among the weights of the projections (silent)."""
    vectors = [p for module in _attentions(model) for p in module.parameters() if p.ndim == 1]
    return "some" if vectors else "none"


def masks(model: Transformer) -> str:
    """What each position sees, by what its output depends on (3.2.3)."""
    model = shaken(model)
    memory, logits = model.encode(SOURCE), model(SOURCE, TARGET)
    last_target = model(SOURCE, ids([*TARGET[0, :-1].tolist(), 12]))
    first_target = model(SOURCE, ids([12, *TARGET[0, 1:].tolist()]))
    last_source = model.encode(ids([*SOURCE[0, :-1].tolist(), 12]))
    padded = model.encode(ids([*SOURCE[0].tolist(), model.config.pad_id]))
    backwards = same(last_target[:, :-1], logits[:, :-1]) and not same(first_target[:, -1], logits[:, -1])
    everywhere = not same(last_source[:, 0], memory[:, 0]) and same(padded[:, : SOURCE.shape[1]], memory)
    targets = "targets see earlier ones" if backwards else "targets see others than earlier ones"
    return f"{targets}, sources {'all tokens' if everywhere else 'others than all tokens'}"


def feed_forward(model: Transformer) -> str:
    """Eq. 2, from the network's own matrices (3.3)."""
    return agreed(
        _feed_forward(network, model.config.d_model) for network in parts_named(shaken(model), NETWORKS)
    )


def _feed_forward(network: Any, d_model: int) -> str:
    x = numbers(2, 3, d_model)
    if all(hasattr(network, name) for name in ("W_1", "b_1", "W_2", "b_2")):
        inner = (x @ network.W_1.T + network.b_1).clamp(min=0.0)
        if same(network(x), inner @ network.W_2.T + network.b_2):
            return "max(0, x W_1 + b_1) W_2 + b_2"
    return f"another ({type(network).__name__})"
