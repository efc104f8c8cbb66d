"""Loss and gradient of a model with the functions that a GPU would run: as written, compiled, as written again.

A program of its own, without the checks of shapes, which no graph can be made of. Prints what differs.
"""

from __future__ import annotations

import json
from functools import partial

import torch
from torch import Tensor

from dragoman.model.attention import MultiHeadAttention, attend_fused
from dragoman.model.config import ModelConfig
from dragoman.model.parts import Parts
from dragoman.model.transformer import Transformer
from dragoman.native import library
from dragoman.training import compiled
from dragoman.training.loss import output_loss

CONFIG = ModelConfig.tiny(vocab_size=40, N=2, P_drop=0.0)
AS_ON_A_GPU = Parts(attention=partial(MultiHeadAttention, attend=attend_fused))
LENGTHS = [(9, 7), (12, 5), (20, 21)]  # of sources and targets


def loss_and_gradient(model: Transformer, S: int, T: int) -> tuple[float, Tensor]:
    """Of one random batch."""
    draw = torch.Generator().manual_seed(S)
    source, target = (torch.randint(4, 40, (5, length), generator=draw) for length in (S, T))
    source[1, S // 2 :], target[2, T // 2 :] = CONFIG.pad_id, CONFIG.pad_id
    model.zero_grad()
    loss = output_loss(model.hidden(source, target), model.output_weight, target, 0.1, pad_id=CONFIG.pad_id)
    loss.smoothed.backward()
    return loss.smoothed.item(), torch.cat(
        [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    )


def main() -> None:
    library.kernels = lambda: None  # on a GPU there are none
    model = Transformer(CONFIG, AS_ON_A_GPU, seed=2)
    wanted = [loss_and_gradient(model, *pair) for pair in LENGTHS]
    graphs = []

    def counted(graph, example_inputs):
        graphs.append(graph)
        return graph

    compiled.compile_layers(model, backend=counted)
    got = [loss_and_gradient(model, *pair) for pair in LENGTHS]
    count = len(graphs)
    compiled.as_written(model)
    again = [loss_and_gradient(model, *pair) for pair in LENGTHS]

    def farthest(others: list[tuple[float, Tensor]]) -> float:
        return max(
            max(abs(a - b) / abs(b), float((g - h).norm() / h.norm()))
            for (a, g), (b, h) in zip(others, wanted, strict=True)
        )

    print(
        json.dumps(
            {
                "graphs": count,
                "compiled": farthest(got),
                "undone": farthest(again),
                "graphs_after": len(graphs),
            }
        )
    )


if __name__ == "__main__":
    main()
