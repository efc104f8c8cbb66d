"""ModelConfig: sizes, defaults of the paper, and refusals that say what to do.

Paper: 3.1, 3.2.2, 3.3, 3.4, Table 3
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from random_models import configs

from dragoman.errors import ConfigError
from dragoman.model.config import ModelConfig, ModelShape


def refusal(**values) -> str:
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**{"vocab_size": 100, **values})
    assert caught.value.__cause__ is None, "a report of pydantic's would be shown under ours"
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "names", "cure"),
    [
        ({"N": 0}, "field N, value 0", "greater than or equal to 1"),
        ({"d_ff": -3}, "field d_ff, value -3", "greater than or equal to 1"),
        ({"h": 0}, "field h, value 0", "greater than or equal to 1"),
        ({"d_k": 0}, "field d_k, value 0", "greater than or equal to 1"),
        ({"d_v": 0}, "field d_v, value 0", "greater than or equal to 1"),
        ({"d_model": 0}, "field d_model, value 0", "greater than or equal to 1"),
        ({"vocab_size": 0}, "field vocab_size, value 0", "greater than or equal to 1"),
        ({"N": 10**7}, "field N, value 10000000", "less than or equal to 1000000"),
        ({"P_drop": 1.0}, "field P_drop, value 1.0", "less than 1"),
        ({"P_drop": -0.1}, "field P_drop, value -0.1", "greater than or equal to 0"),
        ({"P_drop": math.nan}, "field P_drop, value nan", "less than 1"),
        ({"pad_id": -1}, "field pad_id, value -1", "greater than or equal to 0"),
        (
            {"dropout": 0.1},
            "field dropout, value 0.1",
            "the fields are N, d_model, d_ff, h, d_k, d_v, P_drop",
        ),
        ({"h": 3}, "d_model 512 is not a multiple of h 3", "give d_k, or sizes that divide"),
        ({"h": 3, "d_k": 7}, "d_model 512 is not a multiple of h 3", "give d_v, or sizes that divide"),
        ({"d_model": 7, "h": 7}, "d_model 7 is odd", "make it even"),
        (
            {"source_vocab_size": 7},
            "source_vocab_size 7 differs from vocab_size 100",
            "shared_embeddings to false",
        ),
        ({"pad_id": 100}, "pad_id 100 lies outside the vocabulary of 100", "give an id below it"),
        (
            {"pad_id": 5, "shared_embeddings": False, "source_vocab_size": 3},
            "pad_id 5 lies outside the vocabulary of 3",
            "give an id below it",
        ),
    ],
    ids=str,
)
def test_a_refusal_names_field_value_and_cure(values, names, cure):
    message = refusal(**values)
    assert names in message
    assert cure in message
    assert "pydantic" not in message


@pytest.mark.parametrize(
    "values",
    [
        {"N": "6"},
        {"N": True},
        {"h": True},
        {"d_model": 512.0},
        {"d_model": "512"},
        {"P_drop": "0.1"},
        {"tied_output": 1},
        {"shared_embeddings": "yes"},
    ],
    ids=str,
)
def test_values_of_another_type_are_refused_and_not_converted(values):
    [(name, value)] = values.items()
    assert f"field {name}, value {value!r}" in refusal(**values)


def test_a_missing_vocabulary_is_named():
    with pytest.raises(ConfigError, match="Field required\n  where: field vocab_size"):
        ModelConfig()


def test_it_is_frozen():
    config = ModelConfig(vocab_size=10)
    with pytest.raises(ValidationError, match="frozen"):
        config.N = 3
    assert config.N == 6
    assert hash(config) == hash(ModelConfig(vocab_size=10))


def test_the_defaults_are_the_base_model():
    assert ModelShape().model_dump() == {
        "N": 6,
        "d_model": 512,
        "d_ff": 2048,
        "h": 8,
        "d_k": 64,
        "d_v": 64,
        "P_drop": 0.1,
        "shared_embeddings": True,
        "tied_output": True,
    }
    assert ModelConfig.base(vocab_size=37000) == ModelConfig(vocab_size=37000)


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (ModelConfig.base, (6, 512, 2048, 8, 64, 64, 0.1)),
        (ModelConfig.big, (6, 1024, 4096, 16, 64, 64, 0.3)),
        (ModelConfig.tiny, (4, 128, 256, 4, 32, 32, 0.1)),
    ],
    ids=["base", "big", "tiny"],
)
def test_named_sizes(make, sizes):
    config = make(vocab_size=50)
    assert (config.N, config.d_model, config.d_ff, config.h, config.d_k, config.d_v, config.P_drop) == sizes
    assert (config.vocab_size, config.source_rows, config.pad_id) == (50, 50, 0)
    assert make(vocab_size=50, N=1, P_drop=0.2).P_drop == 0.2
    assert make(vocab_size=50, h=1).d_k == config.d_model


def test_head_widths_follow_the_others_unless_given():
    assert ModelConfig(vocab_size=9, d_model=96, h=6).d_k == 16
    assert ModelConfig(vocab_size=9, d_model=96, h=6, d_k=None).d_k == 16
    config = ModelConfig(vocab_size=9, d_model=96, h=5, d_k=7, d_v=3)
    assert (config.d_k, config.d_v) == (7, 3)


def test_a_source_of_its_own_has_its_own_rows():
    config = ModelConfig(vocab_size=9, source_vocab_size=20, shared_embeddings=False)
    assert config.source_rows == 20
    assert ModelConfig(vocab_size=9, source_vocab_size=9).source_rows == 9


def test_a_shape_becomes_a_config_with_its_vocabularies():
    shape = ModelShape(N=2, d_model=96, h=5, d_k=7, d_v=3, shared_embeddings=False)
    config = ModelConfig.from_shape(shape, vocab_size=30, source_vocab_size=40, pad_id=2)
    assert config.model_dump() == {
        **shape.model_dump(),
        "vocab_size": 30,
        "source_vocab_size": 40,
        "pad_id": 2,
    }
    shared = ModelConfig.from_shape(ModelShape(), vocab_size=30, source_vocab_size=40)
    assert shared.source_rows == 30


@given(configs())
def test_it_survives_being_written_and_read(config):
    assert ModelConfig(**config.model_dump()) == config
    assert ModelConfig.model_validate_json(config.model_dump_json()) == config


@given(d_model=st.integers(1, 300), h=st.integers(1, 40))
def test_it_is_made_exactly_when_the_sizes_divide_and_positions_have_pairs(d_model, h):
    good = d_model % h == 0 and d_model % 2 == 0
    if good:
        config = ModelConfig(vocab_size=9, d_model=d_model, h=h)
        assert config.d_k * h == config.d_v * h == d_model
    else:
        refusal(d_model=d_model, h=h)
