"""Measuring what a machine computes fast."""

from __future__ import annotations

import pytest
import torch

from dragoman import machine
from dragoman.machine import fast_precision, product_rate

CPU = torch.device("cpu")


def test_the_rate_is_operations_a_second(monkeypatch):
    """On a clock that gives each product a millisecond."""
    now = [0.0]

    def product(x: torch.Tensor, weight: torch.Tensor) -> None:
        assert x.dtype == weight.dtype == torch.float32
        now[0] += 1e-3
        products.append(2.0 * x.shape[0] * x.shape[1] * weight.shape[0])

    products: list[float] = []
    monkeypatch.setattr(machine.F, "linear", product)
    monkeypatch.setattr(machine.time, "perf_counter", lambda: now[0])
    assert product_rate(torch.float32, CPU, seconds=0.02) == pytest.approx(products[0] / 1e-3)
    assert 20 <= len(products) <= 25
    products.clear()
    assert product_rate(torch.float32, CPU, seconds=1e-9) == pytest.approx(products[0] / 1e-3)


def test_a_real_measurement():
    assert 1e7 < product_rate(torch.float32, CPU, seconds=0.005) < 1e15


@pytest.mark.parametrize(
    ("bf16", "chosen"), [(0.5, "fp32"), (1.0, "fp32"), (1.2, "fp32"), (1.5, "bf16"), (8.0, "bf16")]
)
def test_bf16_only_where_it_is_clearly_faster(monkeypatch, bf16, chosen):
    rates = {torch.float32: 1.0, torch.bfloat16: bf16}
    monkeypatch.setattr(machine, "product_rate", lambda dtype, _device: rates[dtype])
    assert fast_precision(CPU) == chosen


@pytest.mark.parametrize(
    ("bf16", "fp16", "on_cpu", "on_gpu"),
    [
        (0.2, 8.0, "fp32", "fp16"),  # a GPU from before bf16
        (8.0, 8.5, "bf16", "bf16"),
        (1.0, 1.1, "fp32", "fp32"),
    ],
)
def test_fp16_only_on_a_gpu_without_products_of_bf16(monkeypatch, bf16, fp16, on_cpu, on_gpu):
    rates = {torch.float32: 1.0, torch.bfloat16: bf16, torch.float16: fp16}
    monkeypatch.setattr(machine, "product_rate", lambda dtype, _device: rates[dtype])
    assert fast_precision(CPU) == on_cpu
    assert fast_precision(torch.device("cuda")) == on_gpu


def test_a_machine_without_bf16(monkeypatch):
    def refuse(dtype: torch.dtype, _device: torch.device) -> float:
        raise RuntimeError("not implemented for bfloat16")

    monkeypatch.setattr(machine, "product_rate", refuse)
    assert fast_precision(CPU) == "fp32"
