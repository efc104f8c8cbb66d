"""Products by either library: the same to the last bits; chosen where faster and as exact; kept when a run goes on."""

from __future__ import annotations

import pytest
import torch
from tiny_runs import make_task, tiny_recipe

from dragoman import remembered
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.native import kernels
from dragoman.training import products as products_module
from dragoman.training import trainer as trainer_module
from dragoman.training.checkpoint import newest_checkpoint
from dragoman.training.events import Said
from dragoman.training.products import (
    AS_TORCH,
    KINDS,
    Products,
    faster_by_onednn,
    named,
    pays,
    shapes_of,
)
from dragoman.training.stopping import StopRequest
from dragoman.training.trainer import Trainer

has_onednn = torch.backends.mkldnn.is_available()
needs_onednn = pytest.mark.skipif(not has_onednn, reason="this PyTorch has no oneDNN")


def every(shapes) -> list[str]:
    return [named(kind, *shape) for shape in shapes for kind in KINDS]


def operands(n: int, d_out: int, d_in: int) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(n + d_out)
    sizes = ((n, d_in), (d_out, d_in), (n, d_out), (d_out,), (n, d_in))
    return tuple(torch.randn(size, generator=draw) for size in sizes)


def all_four(products: Products, x, W, dy, b, dx) -> list[torch.Tensor]:
    added, written = dx.clone(), torch.full_like(W, torch.nan)
    products.add_by_input(added, dy, W)
    products.by_weight(dy, x, written)
    return [
        products.forward(x, W, b),
        products.forward(x, W),
        products.by_input(dy, W),
        added,
        written,
    ]


@needs_onednn
@pytest.mark.parametrize(
    ("n", "d_out", "d_in"), [(1, 7, 5), (64, 36, 50), (320, 256, 128), (65, 53, 3), (128, 1, 1)]
)
def test_both_are_what_they_say(n, d_out, d_in):
    given = operands(n, d_out, d_in)
    x, W, dy, b, dx = (each.double() for each in given)
    want = [x @ W.T + b, x @ W.T, dy @ W, dx + dy @ W, dy.T @ x]
    for products in (AS_TORCH, Products(every([(d_out, d_in)]))):
        for found, exact in zip(all_four(products, *given), want, strict=True):
            assert (found - exact).abs().max() <= 2e-6 * exact.abs().max()


@needs_onednn
def test_parts_of_a_matrix_and_their_gradients_are_where_they_belong():
    """As attention over a source has them: the rows of one matrix, and of its gradient, in two products."""
    x, W, dy, _, _ = operands(64, 24, 16)
    gradient = torch.full_like(W, torch.nan)
    products = Products(every([(8, 16), (16, 16)]))
    for rows in (slice(0, 8), slice(8, 24)):
        torch.testing.assert_close(products.forward(x, W[rows]), x @ W[rows].T)
        products.by_weight(dy[:, rows], x, gradient[rows])
        torch.testing.assert_close(products.by_input(dy[:, rows], W[rows]), dy[:, rows] @ W[rows])
    torch.testing.assert_close(gradient, dy.T @ x)


def test_only_what_is_named_is_onednns(monkeypatch):
    asked = []

    def onednn(x, W, b=None):
        asked.append((tuple(x.shape), tuple(W.shape)))
        return x @ W.T if b is None else x @ W.T + b

    monkeypatch.setattr(products_module, "_onednn", onednn)
    given = operands(4, 6, 3)
    for kind, shapes in {
        "forward": [((4, 3), (6, 3))] * 2,
        "by input": [((4, 6), (3, 6))] * 2,
        "by weight": [((6, 4), (3, 4))],
    }.items():
        asked.clear()
        all_four(Products([named(kind, 6, 3)]), *given)
        assert sorted(asked) == sorted(shapes), kind
        all_four(Products([named(kind, 3, 6)]), *given)
        assert len(asked) == len(shapes), "another shape"
        all_four(Products([named(kind, 6, 3)]), *(each.bfloat16() for each in given))
        assert len(asked) == len(shapes), "another number format"


def test_the_shapes_are_those_of_the_model():
    model = Transformer(ModelConfig.tiny(vocab_size=40, d_model=16, d_ff=20, h=2, d_k=3, d_v=5, N=1), seed=1)
    assert shapes_of(model) == sorted({(40, 16), (22, 16), (16, 10), (6, 16), (16, 16), (20, 16), (16, 20)})


@pytest.mark.skipif(kernels() is None, reason="no C++ compiler here: autograd finds the gradient")
def test_an_update_asks_for_no_other_shape(small_corpus, tmp_path, monkeypatch):
    asked = set()
    plain = Products._asks
    monkeypatch.setattr(
        Products,
        "_asks",
        lambda self, kind, W: (asked.add((kind, *W.shape)), plain(self, kind, W))[1],
    )
    run = trainer(small_corpus, tmp_path, [], steps=1)
    run.run(StopRequest())
    assert asked == {(kind, *shape) for kind in KINDS for shape in shapes_of(run.model)}


@pytest.mark.parametrize(
    ("tokens", "updates", "minutes", "expected"),
    [
        (4_000, 100_000, None, True),
        (4_000, 100, None, False),
        (4_000, 100_000, 1.0, False),  # it will be over before
        (4_000, 100_000, 5.0, True),
        (4_000, 100, 1000.0, False),
    ],
)
def test_it_is_measured_where_a_run_is_long(tokens, updates, minutes, expected):
    assert pays(Transformer(ModelConfig.tiny(vocab_size=40), seed=1), tokens, updates, minutes) is expected


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(remembered, "cache_directory", lambda: tmp_path / "cache")
    return tmp_path / "cache"


SHAPE = (24, 16)
FORWARD, BY_INPUT, BY_WEIGHT = every([SHAPE])


def pretend(monkeypatch, seconds: list[tuple[float, float]]) -> list[float]:
    """The clock of the products of `SHAPE`: oneDNN's seconds and the other's, kind by kind."""
    return pretend_rounds(monkeypatch, [[pair] * products_module.ROUNDS for pair in seconds])


def pretend_rounds(monkeypatch, rounds: list[list[tuple[float, float]]]) -> list[float]:
    """The same, round by round."""
    taken = [each for kind in rounds for pair in kind for each in pair]
    monkeypatch.setattr(products_module, "_seconds", lambda product: (product(), taken.pop(0))[1])
    return taken


@needs_onednn
def test_what_is_clearly_faster_is_chosen(cache, monkeypatch):
    left = pretend(monkeypatch, [(1.0, 1.06), (1.0, 1.03), (2.0, 1.0)])
    assert faster_by_onednn([SHAPE], 32, ("a machine",)) == [FORWARD]
    assert left == []


@needs_onednn
def test_a_busy_neighbor_chooses_nothing(cache, monkeypatch):
    """Few rounds in which either was slow, or quick for once, say nothing."""
    level, many, few = (1.0, 1.0), products_module.ROUNDS // 2 + 1, products_module.ROUNDS // 2
    pretend_rounds(
        monkeypatch,
        [
            [level] * many + [(1.0, 9.0)] * few,  # the other was disturbed
            [level] * many + [(0.5, 1.0)] * few,  # oneDNN quick for once
            [(1.0, 1.2)] * many + [(9.0, 1.2)] * few,  # oneDNN was disturbed: it is faster all the same
        ],
    )
    assert faster_by_onednn([SHAPE], 32, ()) == [BY_WEIGHT]


@needs_onednn
def test_it_is_measured_once_for_each_machine_size_and_number_of_threads(cache, monkeypatch):
    def asked(*arguments) -> bool:
        """Whether it was measured."""
        left = pretend(monkeypatch, [(1.0, 2.0)] * 3)
        assert faster_by_onednn(*arguments) == [FORWARD, BY_INPUT, BY_WEIGHT]
        return left == []

    assert asked([SHAPE], 32, ("a machine",))
    assert not asked([SHAPE], 32, ("a machine",))
    assert asked([SHAPE], 32, ("another",))
    assert asked([SHAPE], 64, ("a machine",))
    torch.set_num_threads(2)
    assert asked([SHAPE], 32, ("a machine",))


@needs_onednn
def test_that_none_is_faster_is_remembered_too(cache, monkeypatch):
    pretend(monkeypatch, [(1.0, 1.0)] * 3)
    assert faster_by_onednn([SHAPE], 32, ("a machine",)) == []
    monkeypatch.setattr(products_module, "_seconds", lambda _: pytest.fail("measured again"))
    assert faster_by_onednn([SHAPE], 32, ("a machine",)) == []


@needs_onednn
@pytest.mark.parametrize("content", [b"forward 1x1", b"\xff", b"by input"])
def test_a_damaged_memory_is_measured_anew(cache, monkeypatch, content):
    pretend(monkeypatch, [(1.0, 2.0)] * 6)
    first = faster_by_onednn([SHAPE], 32, ())
    (place,) = cache.iterdir()
    place.write_bytes(content)
    assert faster_by_onednn([SHAPE], 32, ()) == first


@needs_onednn
def test_what_rounds_its_operands_is_refused_however_fast(cache, monkeypatch):
    """As oneDNN may where a process or a processor lets it compute float32 in bf16."""
    plain = products_module._onednn

    def in_bf16(x, W, b=None):
        return plain(x.bfloat16().float(), W.bfloat16().float(), b)

    monkeypatch.setattr(products_module, "_onednn", in_bf16)
    pretend(monkeypatch, [(1.0, 9.0)] * 3)
    assert faster_by_onednn([SHAPE], 512, ()) == []


def test_a_processor_for_which_it_has_no_product_multiplies_as_torch_does(cache, monkeypatch):
    def refuses(*_):
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr(products_module, "_onednn", refuses)
    assert faster_by_onednn([SHAPE], 32, ()) == []


def test_a_pytorch_without_it_multiplies_as_it_does(cache, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr(products_module, "_seconds", lambda _: pytest.fail("measured"))
    assert faster_by_onednn([SHAPE], 32, ()) == []


def test_the_measurement_itself(cache):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    assert set(faster_by_onednn([SHAPE], 64, ())) <= {FORWARD, BY_INPUT, BY_WEIGHT}
    assert torch.equal(torch.get_rng_state(), before), "it drew from the generator of dropout"


def trainer(corpus, folder, said: list, *, steps: int, resume: bool = False, precision="fp32") -> Trainer:
    recipe = tiny_recipe(f"training.max_steps={steps}", f"training.precision={precision}")
    checkpoint = newest_checkpoint(folder, pytest.fail) if resume else None
    return Trainer(make_task(corpus, folder, recipe), recipe, said.append, resume=checkpoint)


def weights(run: Trainer) -> dict[str, torch.Tensor]:
    return run.optimizer.weights()


@pytest.fixture
def all_by_onednn(monkeypatch) -> list[object]:
    """Every run is long enough, and oneDNN faster in everything; the list grows with each time that is asked."""
    asked: list[object] = []
    monkeypatch.setattr(trainer_module, "pays", lambda *_: True)
    monkeypatch.setattr(
        trainer_module,
        "faster_by_onednn",
        lambda shapes, rows, facts: (asked.append(facts), every(shapes))[1],
    )
    return asked


def test_a_short_run_is_as_torch_does_it(small_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "faster_by_onednn", lambda *_: pytest.fail("measured"))
    run = trainer(small_corpus, tmp_path, said := [], steps=2)
    run.run(StopRequest())
    assert run.place.products == ()
    assert not [event for event in said if isinstance(event, Said)]


@needs_onednn
@pytest.mark.skipif(kernels() is None, reason="no C++ compiler here: autograd finds the gradient")
def test_a_run_by_it_learns_the_same_and_goes_on_as_it_would_have(
    small_corpus, tmp_path, monkeypatch, all_by_onednn
):
    whole = trainer(small_corpus, tmp_path / "whole", said := [], steps=6)
    whole.run(StopRequest())
    names = every(shapes_of(whole.model))
    assert sorted(whole.place.products) == sorted(names)
    (event,) = [event for event in said if isinstance(event, Said)]
    assert event.text.startswith(f"{len(names)} of {len(names)} kinds of matrix products are made by oneDNN")

    trainer(small_corpus, tmp_path / "halves", [], steps=3).run(StopRequest())
    times = len(all_by_onednn)
    again = trainer(small_corpus, tmp_path / "halves", [], steps=6, resume=True)
    again.run(StopRequest())
    assert len(all_by_onednn) == times, "chosen anew"
    assert again.place.products == whole.place.products
    for name, weight in weights(whole).items():
        assert torch.equal(weight, weights(again)[name]), name

    monkeypatch.setattr(trainer_module, "faster_by_onednn", lambda *_: [])
    plain = trainer(small_corpus, tmp_path / "plain", [], steps=6)
    plain.run(StopRequest())
    for name, weight in weights(whole).items():
        torch.testing.assert_close(weight, weights(plain)[name], rtol=1e-3, atol=1e-4)


def test_on_another_machine_it_is_chosen_anew(small_corpus, tmp_path, monkeypatch, all_by_onednn):
    trainer(small_corpus, tmp_path, [], steps=1).run(StopRequest())
    monkeypatch.setattr(trainer_module, "kernels", lambda: "another processor")
    moved = trainer(small_corpus, tmp_path, [], steps=2, resume=True)
    assert moved.place.products is None
    monkeypatch.setattr(trainer_module, "faster_by_onednn", lambda *_: [])
    moved.run(StopRequest())
    assert moved.place.products == ()


def test_a_checkpoint_from_before_there_was_a_choice_goes_on_as_torch_does_it(
    small_corpus, tmp_path, all_by_onednn
):
    trainer(small_corpus, tmp_path, [], steps=1).run(StopRequest())
    checkpoint = newest_checkpoint(tmp_path, pytest.fail)
    old = type(checkpoint)(checkpoint.bundle, checkpoint.place.model_copy(update={"products": None}))
    recipe = tiny_recipe("training.max_steps=2")
    again = Trainer(make_task(small_corpus, tmp_path, recipe), recipe, lambda _: None, resume=old)
    assert again.place.products == ()


@pytest.mark.parametrize("case", ["bf16", "no kernels"])
def test_elsewhere_torch_multiplies(small_corpus, tmp_path, monkeypatch, all_by_onednn, case):
    if case == "no kernels":
        monkeypatch.setattr(trainer_module.explicit, "serves", lambda _model: None)
    run = trainer(small_corpus, tmp_path, [], steps=1, precision="bf16" if case == "bf16" else "fp32")
    run.run(StopRequest())
    assert run.place.products == ()
    assert all_by_onednn == []
