"""On a GPU: the same model, the same training, the same translations as on a CPU, within what the number format allows.

Skipped where there is none.
"""

from __future__ import annotations

import pytest
import torch
from tiny_runs import pairs, tiny_recipe
from torch import Tensor

from dragoman.model.config import ModelConfig
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.transformer import Transformer
from dragoman.pipeline import evaluate, train
from dragoman.training.compiled import compile_layers
from dragoman.training.loss import output_loss
from dragoman.translator import Translator

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")

CONFIG = ModelConfig.tiny(vocab_size=90, N=2, P_drop=0.0)


def drawn_ids() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    source, target = (
        torch.randint(4, 90, (6, 20), generator=draw),
        torch.randint(4, 90, (6, 17), generator=draw),
    )
    source[2, 11:], target[4, 5:] = CONFIG.pad_id, CONFIG.pad_id
    return source, target


def on(device: str, dtype: torch.dtype) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients of one batch."""
    model = Transformer(CONFIG, seed=3).to(device, dtype)
    source, target = (ids.to(device) for ids in drawn_ids())
    loss = output_loss(model.hidden(source, target), model.output_weight, target, 0.1, pad_id=CONFIG.pad_id)
    loss.smoothed.backward()
    return loss.smoothed.item(), {n: p.grad.double().cpu() for n, p in model.named_parameters()}


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-9), (torch.float32, 2e-3), (torch.bfloat16, 0.1), (torch.float16, 0.02)],
)
def test_loss_and_gradients_are_those_of_the_cpu(dtype, tolerance):
    wanted, want = on("cpu", torch.float64)
    loss, got = on("cuda", dtype)
    assert loss == pytest.approx(wanted, rel=tolerance)
    for name, gradient in want.items():
        assert (got[name] - gradient).norm() <= tolerance * gradient.norm().clamp(min=1e-6), name


def test_cached_is_uncached():
    model = Transformer(CONFIG, seed=3).cuda().eval()
    source, target = (ids.cuda() for ids in drawn_ids())
    target[:, 0] = 2
    with torch.inference_mode():
        whole = model(source, target)
        decoder = IncrementalDecoder(model, source)
        steps = [decoder(target[:, k : k + 1])[:, 0] for k in range(5)]
    for k, logits in enumerate(steps):
        torch.testing.assert_close(logits, whole[:, k], rtol=1e-3, atol=1e-3)


def test_compiled_layers_give_the_same_gradient():
    model = Transformer(CONFIG, seed=3).cuda()
    source, target = (ids.cuda() for ids in drawn_ids())

    def loss_and_gradients() -> tuple[float, list[Tensor]]:
        model.zero_grad()
        hidden = model.hidden(source, target)
        loss = output_loss(hidden, model.output_weight, target, 0.1, pad_id=CONFIG.pad_id).smoothed
        loss.backward()
        return loss.item(), [p.grad.clone() for p in model.parameters()]

    wanted, want = loss_and_gradients()
    compile_layers(model)
    loss, got = loss_and_gradients()
    assert loss == pytest.approx(wanted, rel=1e-3)
    for gradient, other in zip(got, want, strict=True):
        assert (gradient - other).norm() <= 2e-3 * other.norm().clamp(min=1e-6)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_run_learns_and_translates_on_either_device(small_corpus, tmp_path, precision):
    recipe = tiny_recipe().with_changes(
        ["training.max_steps=200", "optimizer.factor=1.0", f"training.precision={precision}"]
    )
    run = train(small_corpus, tmp_path / "run", recipe=recipe, device="cuda")
    units, references = map(list, zip(*pairs(20, seed=5), strict=True))
    gpu, cpu = (Translator.load(tmp_path / "run", device=device) for device in ("cuda", "cpu"))
    same = [a.text == b.text for a, b in zip(gpu.translate(units), cpu.translate(units), strict=True)]
    assert sum(same) >= 18
    assert run.model is not None
    assert evaluate(gpu, units, references).scores[1].value > 0  # chrF
