"""The models of one stack: as written out from the text of the paper, as the paper's own stacks, and step by step.

Paper: 3.1, 3.2.3
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from departing import CONFIG, EACH, ONE_STACK, build, build_one_stack
from hypothesis import given, settings
from hypothesis import strategies as st
from paper import reference
from random_models import random_ids
from torch import Tensor, nn

from dragoman.model.cache import GROWTH
from dragoman.model.mask import padding_mask
from dragoman.variants.decoder_only import DecoderOnly, PromptedDecoder
from dragoman.variants.departures import DecoderOnly as OnlyDecoder
from dragoman.variants.departures import EncoderOnly as OnlyEncoder
from dragoman.variants.departures import PreNorm, TargetSpace

V = CONFIG.vocab_size
DECODERS = [name for name, made in ONE_STACK.items() if isinstance(made[0], OnlyDecoder)]
ENCODERS = [name for name in ONE_STACK if name not in DECODERS]
# Everything that departs in a part departs in the decoder alone as well.
WITH_ALL = {
    name: (OnlyDecoder(), *(departure for departure in made if not isinstance(departure, TargetSpace)))
    for name, made in EACH.items()
}


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def written_out(model: nn.Module, ids: list[int], allowed: np.ndarray) -> np.ndarray:
    """Logits of one text by the equations of the paper's text, in NumPy."""
    x = reference.embed(ids, array(model.embedding.weight))
    for layer in model.layers:
        attention, network = layer.self_attention, layer.feed_forward
        W_Q, W_K, W_V, W_O = (array(matrix) for matrix in attention.matrices())
        heads = reference.Heads(
            *([part.T for part in np.split(matrix, attention.h)] for matrix in (W_Q, W_K, W_V)), W_O=W_O.T
        )
        inner = reference.Network(
            array(network.W_1).T, array(network.b_1), array(network.W_2).T, array(network.b_2)
        )
        norms = [
            reference.Norm(array(r.norm.weight), array(r.norm.bias), r.norm.eps)
            for r in (layer.residual_1, layer.residual_2)
        ]
        x = reference.layer_norm(x + reference.multi_head(x, x, heads, allowed), norms[0])
        x = reference.layer_norm(x + reference.feed_forward(x, inner), norms[1])
    return x @ array(model.output_weight).T


@pytest.mark.parametrize("name", ["decoder_only", "encoder_only"])
def test_the_equations_of_the_paper_written_out(name):
    model = build_one_stack(ONE_STACK[name])
    ids = random_ids(V, [6], seed=1)
    everyone = np.ones((6, 6), dtype=bool)
    want = written_out(model, ids[0].tolist(), np.tril(everyone) if name == "decoder_only" else everyone)
    np.testing.assert_allclose(array(model(ids)[0]), want, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_the_encoder_alone_is_the_papers_encoder():
    whole, alone = build(()), build_one_stack((OnlyEncoder(),))
    for theirs, ours in zip(alone.layers, whole.encoder, strict=True):
        theirs.load_state_dict(ours.state_dict())
    alone.embedding.load_state_dict(whole.source_embedding.state_dict())
    ids = random_ids(V, [5, 2, 4], seed=1)
    is_token = padding_mask(ids, 0)[:, 0, 0]
    want = whole.encode(ids)
    torch.testing.assert_close(alone.hidden(ids, ids)[is_token], want[is_token], rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_the_decoder_alone_is_the_papers_decoder_that_gets_nothing_from_its_source():
    """With norms before the sub-layers, attention over the source whose W^O is zero adds nothing at all."""
    whole, alone = build((PreNorm(),)), build_one_stack((OnlyDecoder(), PreNorm()))
    for theirs, ours in zip(alone.layers, whole.decoder, strict=True):
        ours.cross_attention.W_O.zero_()
        theirs.self_attention.load_state_dict(ours.self_attention.state_dict())
        theirs.feed_forward.load_state_dict(ours.feed_forward.state_dict())
        theirs.residual_1.load_state_dict(ours.residual_1.state_dict())
        theirs.residual_2.load_state_dict(ours.residual_3.state_dict())
    alone.embedding.load_state_dict(whole.target_embedding.state_dict())
    alone.stack_end.load_state_dict(whole.decoder_end.state_dict())
    ids, source_ids = random_ids(V, [5, 2, 4], seed=1), random_ids(V, [3, 3, 1], seed=2)
    torch.testing.assert_close(alone(ids), whole(source_ids, ids), rtol=1e-12, atol=1e-12)


def assert_steps_equal(model: DecoderOnly, prompts: Tensor, *, steps: int, seed: int, may_drop: bool) -> None:
    """Step by step, prompts dropping out and continuations changing places, as each whole text by itself."""
    generator = torch.Generator().manual_seed(seed)
    decoder = PromptedDecoder(model, prompts)
    texts = [[row] for row in prompts.tolist()]
    tokens = torch.full((len(prompts), 1), 2)
    for number in range(steps):
        if number:
            texts = [
                [[*text, token] for text, token in zip(some, row, strict=True)]
                for some, row in zip(texts, tokens.tolist(), strict=True)
            ]
        got = decoder(tokens)
        with torch.no_grad():
            want = torch.stack(
                [torch.cat([model(torch.tensor([text]))[:, -1] for text in some]) for some in texts]
            )
        torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-5)
        B, K = tokens.shape
        few = int(torch.randint(1, B + 1, (), generator=generator)) if may_drop else B
        kept = torch.randperm(B, generator=generator)[:few].sort().values
        wide = int(torch.randint(1, 4, (), generator=generator))
        parents = torch.randint(0, K, (few, wide), generator=generator)
        decoder.reorder(kept, parents)
        texts = [[texts[b][p] for p in row] for b, row in zip(kept.tolist(), parents.tolist(), strict=True)]
        tokens = torch.randint(0, V, (few, wide), generator=generator)


@pytest.mark.parametrize("name", sorted(WITH_ALL))
def test_steps_equal_the_whole_with_every_departure(name):
    prompts = torch.cat([torch.full((2, 1), 2), random_ids(V, [3, 3], seed=5)], dim=1)
    assert_steps_equal(build_one_stack(WITH_ALL[name]), prompts, steps=4, seed=1, may_drop=False)


@settings(max_examples=25)
@given(
    name=st.sampled_from(DECODERS),
    prompts=st.integers(1, 3),
    length=st.integers(0, 5),
    seed=st.integers(0, 2**20),
)
def test_prompts_of_any_length_drop_out_and_continuations_change_places(name, prompts, length, seed):
    begins = torch.full((prompts, 1), 2)
    if length:
        begins = torch.cat([begins, random_ids(V, [length] * prompts, seed=seed)], dim=1)
    assert_steps_equal(build_one_stack(ONE_STACK[name], seed=seed), begins, steps=4, seed=seed, may_drop=True)


def test_a_cache_grows_beyond_its_room():
    model = build_one_stack(ONE_STACK["decoder_only of today"])
    prompts = torch.cat([torch.full((1, 1), 2), random_ids(V, [GROWTH], seed=5)], dim=1)
    assert_steps_equal(model, prompts, steps=GROWTH + 3, seed=1, may_drop=False)


@settings(max_examples=40)
@given(
    name=st.sampled_from(sorted(ONE_STACK)),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    more=st.integers(0, 20),
    seed=st.integers(0, 2**20),
)
def test_a_text_among_others_and_padding_gives_what_it_gives_alone(name, lengths, more, seed):
    model = build_one_stack(ONE_STACK[name], seed=seed)
    ids = random_ids(V, lengths, seed=seed)
    got = model(F.pad(ids, (0, more)))
    for b, length in enumerate(lengths):
        alone = model(ids[b : b + 1, :length])
        torch.testing.assert_close(got[b, :length], alone[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", DECODERS)
def test_a_later_token_never_changes_an_earlier_output(name):
    model = build_one_stack(ONE_STACK[name])
    ids = random_ids(V, [6], seed=2)
    want = model(ids)
    for place in range(6):
        other = ids.clone()
        other[0, place] = 1 + other[0, place] % (V - 1)
        got = model(other)
        torch.testing.assert_close(got[0, :place], want[0, :place], rtol=1e-12, atol=1e-12)
        assert ((got[0, place:] - want[0, place:]).abs().amax(dim=-1) > 1e-6).all()


@pytest.mark.parametrize("name", ENCODERS)
def test_every_token_changes_every_output_of_the_encoder(name):
    model = build_one_stack(ONE_STACK[name])
    ids = random_ids(V, [5], seed=2)
    want = model(ids)
    for place in range(5):
        other = ids.clone()
        other[0, place] = 1 + other[0, place] % (V - 1)
        assert ((model(other)[0] - want[0]).abs().amax(dim=-1) > 1e-8).all()


@pytest.mark.parametrize("name", sorted(ONE_STACK))
def test_every_weight_has_a_gradient(name):
    model = build_one_stack(ONE_STACK[name]).train()
    torch.manual_seed(1)
    model(random_ids(V, [5, 3], seed=1)).sin().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert (parameter.grad != 0).any(), key


@pytest.mark.parametrize("name", sorted(ONE_STACK))
def test_hidden_is_what_the_output_map_multiplies_and_the_other_side_is_not_read(name):
    model = build_one_stack(ONE_STACK[name])
    ids, other = random_ids(V, [5, 3], seed=1), random_ids(V, [5, 3], seed=2)
    hidden = model.hidden(other, ids) if name in DECODERS else model.hidden(ids, other)
    torch.testing.assert_close(hidden @ model.output_weight.T, model(ids), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["decoder_only", "encoder_only"])
def test_an_output_map_of_its_own(name):
    config = CONFIG.model_copy(update={"tied_output": False})
    model = build_one_stack(ONE_STACK[name], config)
    assert model.output_weight.data_ptr() != model.embedding.weight.data_ptr()
    assert not torch.equal(
        model(random_ids(V, [4], seed=1)), build_one_stack(ONE_STACK[name])(random_ids(V, [4], seed=1))
    )


def test_dropout_must_be_off_to_go_step_by_step():
    model = build_one_stack(ONE_STACK["decoder_only"]).train()
    with pytest.raises(AssertionError, match="dropout must be off"):
        PromptedDecoder(model, torch.tensor([[2, 5]]))


@pytest.mark.parametrize("name", sorted(ONE_STACK))
def test_the_seed_decides_every_initial_weight_whatever_the_order_of_departures(name):
    config = replace_dropout(0.1)
    first, again = (
        build_one_stack(made, config, seed=5) for made in (ONE_STACK[name], ONE_STACK[name][::-1])
    )
    ids = random_ids(V, [4, 2], seed=1)
    assert torch.equal(first(ids), again(ids))
    assert not torch.equal(first(ids), build_one_stack(ONE_STACK[name], config, seed=6)(ids))


def replace_dropout(P_drop: float):
    return CONFIG.model_copy(update={"P_drop": P_drop})
