"""The sizes of a Transformer, in the paper's symbols, checked when they are made.

Paper: 3.1, 3.2.2, 3.3, 3.4, Table 3
Silent: whether N may differ between the stacks (one N, as in every row of Table 3).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dragoman.errors import ConfigError, first_fault

Size = Annotated[int, Field(ge=1, le=1_000_000)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]


class ModelShape(BaseModel):
    """Everything about the model that does not depend on the vocabulary.

    Attributes:
        N: layers in the encoder, and as many in the decoder (3.1).
        d_model: width of the embeddings and of every sub-layer's output (3.1).
        d_ff: inner width of the feed-forward network (3.3).
        h: number of attention heads (3.2.2).
        d_k: width of a head's queries and keys; d_model / h unless given (3.2.2).
        d_v: width of a head's values; d_model / h unless given (3.2.2).
        P_drop: dropout on each sub-layer's output and on embedding + position (5.4).
        shared_embeddings: source and target use one embedding matrix (3.4).
        tied_output: the output map is the target's embedding matrix (3.4).
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    N: Size = 6
    d_model: Size = 512
    d_ff: Size = 2048
    h: Size = 8
    d_k: Size = 0  # 0 stands for d_model / h until the validator has run
    d_v: Size = 0
    P_drop: Probability = 0.1
    shared_embeddings: bool = True
    tied_output: bool = True

    @model_validator(mode="before")
    @classmethod
    def _fill_head_widths(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        fields = cls.model_fields
        d_model = values.get("d_model", fields["d_model"].default)
        h = values.get("h", fields["h"].default)
        filled = dict(values)
        for name in ("d_k", "d_v"):
            if filled.get(name) is None:
                filled.pop(name, None)
            if name in filled or not isinstance(d_model, int) or not isinstance(h, int) or h < 1:
                continue
            if d_model % h:
                raise ValueError(
                    f"d_model {d_model} is not a multiple of h {h}: give {name}, or sizes that divide"
                )
            filled[name] = d_model // h
        return filled

    @model_validator(mode="after")
    def _check(self) -> ModelShape:
        if self.d_model % 2:
            raise ValueError(
                f"d_model {self.d_model} is odd: positions need pairs of sine and cosine (3.5): make it even"
            )
        return self

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _config_error(error, list(type(self).model_fields)) from None


class ModelConfig(ModelShape):
    """A shape with its vocabularies: all that is needed to build a `Transformer`.

    Attributes:
        vocab_size: rows of the target's embedding matrix, and of the source's unless given apart.
        source_vocab_size: rows of the source's own matrix; only without `shared_embeddings`.
        pad_id: the id that stands for no token. Source positions holding it are not attended to.
    """

    vocab_size: Size
    source_vocab_size: Size | None = None
    pad_id: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _check_vocabularies(self) -> ModelConfig:
        if self.shared_embeddings and self.source_vocab_size not in (None, self.vocab_size):
            raise ValueError(
                f"source_vocab_size {self.source_vocab_size} differs from vocab_size {self.vocab_size}, "
                "but shared_embeddings means one matrix for both: set shared_embeddings to false"
            )
        if self.pad_id >= min(self.vocab_size, self.source_rows):
            rows = min(self.vocab_size, self.source_rows)
            raise ValueError(
                f"pad_id {self.pad_id} lies outside the vocabulary of {rows}: give an id below it"
            )
        return self

    @property
    def source_rows(self) -> int:
        """Rows of the matrix that embeds the source."""
        return self.source_vocab_size or self.vocab_size

    @classmethod
    def base(cls, *, vocab_size: int, **changes: Any) -> ModelConfig:
        """The base model of Table 3: N 6, d_model 512, d_ff 2048, h 8, P_drop 0.1."""
        return cls(**{"vocab_size": vocab_size, **changes})

    @classmethod
    def big(cls, *, vocab_size: int, **changes: Any) -> ModelConfig:
        """The big model of Table 3: N 6, d_model 1024, d_ff 4096, h 16, P_drop 0.3."""
        big = {"d_model": 1024, "d_ff": 4096, "h": 16, "P_drop": 0.3}
        return cls(**{**big, "vocab_size": vocab_size, **changes})

    @classmethod
    def tiny(cls, *, vocab_size: int, **changes: Any) -> ModelConfig:
        """A scale of ours for laptops: N 4, d_model 128, d_ff 256, h 4, P_drop 0.1."""
        tiny = {"N": 4, "d_model": 128, "d_ff": 256, "h": 4}
        return cls(**{**tiny, "vocab_size": vocab_size, **changes})

    @classmethod
    def from_shape(
        cls, shape: ModelShape, *, vocab_size: int, source_vocab_size: int | None = None, pad_id: int = 0
    ) -> ModelConfig:
        """A shape of a recipe with the vocabularies of a prepared corpus."""
        source = None if shape.shared_embeddings else source_vocab_size
        return cls(**shape.model_dump(), vocab_size=vocab_size, source_vocab_size=source, pad_id=pad_id)


def _config_error(error: ValidationError, fields: list[str]) -> ConfigError:
    """Turns pydantic's report on its first field into what, where and cure."""
    first = error.errors()[0]
    field, message = first_fault(error, "model")
    unknown = first["type"] == "extra_forbidden"
    message = "there is no such field" if unknown else message
    cure = f"the fields are {', '.join(fields)}" if unknown else "change the value"
    where = f"field {field}, value {first['input']!r}"
    return ConfigError(f"model configuration: {message}", where=where, cure=cure)
