"""The departures from the paper's model there are: small frozen values, which a recipe can list.

Paper: none (departures)

A departure is a choice and its numbers; `parts.py` makes of it what a `Transformer` is built of. Two that decide the same
thing cannot stand together. Those of training and of search are values of the same kind, in `training_rules.py` and
`search_rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.errors import ConfigError, first_fault
from dragoman.model.config import ModelShape

Level = Literal["architecture", "training", "search"]

POSITIONS = "how positions are told"
NORMS, POST_NORM = "where the norms stand", "LayerNorm(x + Sublayer(x))"
KEYS, KEYS_OF_EACH = "which heads share keys and values", "keys and values of each head's own"
NO_MORE_DROPOUT = "dropout on outputs of sub-layers and on embeddings alone"
TENSOR2TENSOR = "Vaswani et al. 2018"
SINUSOIDS = "sines and cosines of 10000^(2i/d_model), by turns"
STACKS, BOTH_STACKS = "which stacks there are", "an encoder and a decoder"

Chance = Annotated[float, Field(gt=0.0, lt=1.0)]


class Choice(BaseModel):
    """What all departures have: a name, numbers of their own, and what they stand beside in the paper.

    Attributes:
        name: what a recipe calls it.
        level: which of a recipe's lists it is in.
        decides: what it is about; no other departure about the same stands beside it.
        instead_of: the paper's own choice.
        section: where the paper makes it.
        source: where this one is from.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    name: str
    level: ClassVar[Level] = "architecture"
    decides: ClassVar[str]
    instead_of: ClassVar[str]
    section: ClassVar[str]
    source: ClassVar[str]

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise self._config_error(error) from None

    @classmethod
    def _config_error(cls, error: ValidationError) -> ConfigError:
        name = cls.model_fields["name"].default
        field, message = first_fault(error, name)
        kind, given = error.errors()[0]["type"], error.errors()[0]["input"]
        fields = [known for known in cls.model_fields if known != "name"]
        if kind == "extra_forbidden":
            message = f"{name} has no field {field}"
            cure = f"its fields are {', '.join(fields)}" if fields else "it has none"
        elif kind == "missing":
            message, cure = f"{name} wants its {field}", f'give it: {{name = "{name}", {field} = ...}}'
        else:
            message, cure = f"{name}: {field} is {given!r}: {message}", "change the value"
        return ConfigError(f"departure {message}", where=where_of(cls.level), cure=cure)

    @property
    def numbers(self) -> dict[str, Any]:
        """Its fields but for the name."""
        return self.model_dump(exclude={"name"})

    @property
    def source_and_numbers(self) -> str:
        """Where it is from and its numbers, in words."""
        return ", ".join(
            [f"of {self.source}", *(f"{field} {value}" for field, value in self.numbers.items())]
        )

    def __str__(self) -> str:
        said = ", ".join(f"{field}={value}" for field, value in self.numbers.items())
        return f"{self.name}({said})" if said else self.name

    def fault(self, shape: ModelShape, max_length: int) -> str | None:
        """Why it cannot be had with these sizes and sentences so long; None where it can."""
        return None

    def fault_beside(self, other: Choice) -> str | None:
        """Why it cannot be had beside another that decides something else; None where it can."""
        return None


class PreNorm(Choice):
    """Each sub-layer's input is normalized and not its output; a norm ends each stack."""

    name: Literal["pre_norm"] = "pre_norm"
    decides: ClassVar[str] = NORMS
    instead_of: ClassVar[str] = POST_NORM
    section: ClassVar[str] = "3.1"
    source: ClassVar[str] = "Xiong et al. 2020"


class RMSNorm(Choice):
    """Norms divide by the root mean square and do not center."""

    name: Literal["rms_norm"] = "rms_norm"
    decides: ClassVar[str] = "what a norm is"
    instead_of: ClassVar[str] = "LayerNorm"
    section: ClassVar[str] = "3.1"
    source: ClassVar[str] = "Zhang & Sennrich 2019"


class _Gated(Choice):
    """A feed-forward network of two maps, one of them a gate for the other.

    Attributes:
        d_ff: inner width: "kept" as the sizes have it, which costs half as many parameters more, or "two_thirds" of that.
    """

    d_ff: Literal["kept", "two_thirds"]
    decides: ClassVar[str] = "what the feed-forward network is"
    instead_of: ClassVar[str] = "max(0, x W_1 + b_1) W_2 + b_2"
    section: ClassVar[str] = "3.3"
    source: ClassVar[str] = "Shazeer 2020"

    def fault(self, shape: ModelShape, max_length: int) -> str | None:
        if self.d_ff == "two_thirds" and shape.d_ff < 2:
            return f"there is no two thirds of a d_ff of {shape.d_ff}"
        return None


class GLU(_Gated):
    """The gate is a sigmoid."""

    name: Literal["glu"] = "glu"


class GEGLU(_Gated):
    """The gate is GELU."""

    name: Literal["geglu"] = "geglu"


class SwiGLU(_Gated):
    """The gate is Swish, x times its sigmoid."""

    name: Literal["swiglu"] = "swiglu"


class Rope(Choice):
    """Queries and keys are turned by their positions, and nothing is added to the embeddings.

    Attributes:
        base: the slowest pair of coordinates turns by one radian in nearly so many positions.
    """

    name: Literal["rope"] = "rope"
    base: Annotated[float, Field(gt=1.0)] = 10_000.0
    decides: ClassVar[str] = POSITIONS
    instead_of: ClassVar[str] = SINUSOIDS
    section: ClassVar[str] = "3.5"
    source: ClassVar[str] = "Su et al. 2021"

    def fault(self, shape: ModelShape, max_length: int) -> str | None:
        return f"pairs of coordinates are turned, and d_k {shape.d_k} is odd" if shape.d_k % 2 else None


class GroupedQuery(Choice):
    """In the decoder, heads of a group share keys and values.

    Attributes:
        groups: heads of keys and values; a divisor of h.
    """

    name: Literal["grouped_query"] = "grouped_query"
    groups: Annotated[int, Field(ge=1)]
    decides: ClassVar[str] = KEYS
    instead_of: ClassVar[str] = KEYS_OF_EACH
    section: ClassVar[str] = "3.2.2"
    source: ClassVar[str] = "Ainslie et al. 2023"

    def fault(self, shape: ModelShape, max_length: int) -> str | None:
        return f"{self.groups} groups do not divide h {shape.h}" if shape.h % self.groups else None


class MultiQuery(Choice):
    """Everywhere, all heads share one head of keys and one of values."""

    name: Literal["multi_query"] = "multi_query"
    decides: ClassVar[str] = KEYS
    instead_of: ClassVar[str] = KEYS_OF_EACH
    section: ClassVar[str] = "3.2.2"
    source: ClassVar[str] = "Shazeer 2019"


class AttentionDropout(Choice):
    """Dropout on the weights of attention as well.

    Attributes:
        P_drop: its probability.
    """

    name: Literal["attention_dropout"] = "attention_dropout"
    P_drop: Chance = 0.1
    decides: ClassVar[str] = "what is dropped in attention"
    instead_of: ClassVar[str] = NO_MORE_DROPOUT
    section: ClassVar[str] = "3.2.1"
    source: ClassVar[str] = TENSOR2TENSOR


class FeedForwardDropout(Choice):
    """Dropout on the inner values of the feed-forward network as well.

    Attributes:
        P_drop: its probability.
    """

    name: Literal["feed_forward_dropout"] = "feed_forward_dropout"
    P_drop: Chance = 0.1
    decides: ClassVar[str] = "what is dropped in the feed-forward network"
    instead_of: ClassVar[str] = NO_MORE_DROPOUT
    section: ClassVar[str] = "3.3"
    source: ClassVar[str] = TENSOR2TENSOR


class LearnedPositions(Choice):
    """A table of positions that is learned, as row (E) of Table 3 has it.

    Attributes:
        length: its rows; positions beyond have the last one.
    """

    name: Literal["learned_positions"] = "learned_positions"
    length: Annotated[int, Field(ge=1, le=1_000_000)] = 512
    decides: ClassVar[str] = POSITIONS
    instead_of: ClassVar[str] = SINUSOIDS
    section: ClassVar[str] = "3.5"
    source: ClassVar[str] = "Vaswani et al. 2017, Table 3 (E)"

    def fault(self, shape: ModelShape, max_length: int) -> str | None:
        if max_length > self.length:
            return f"sentences of up to {max_length} tokens have more than {self.length} positions"
        return None


class BlockSinusoids(Choice):
    """Sinusoidal positions with all sines before all cosines.

    Attributes:
        wavelengths: "paper", or "tensor2tensor": spread over one step less, so that the longest is 10000 itself.
    """

    name: Literal["block_sinusoids"] = "block_sinusoids"
    wavelengths: Literal["paper", "tensor2tensor"]
    decides: ClassVar[str] = POSITIONS
    instead_of: ClassVar[str] = SINUSOIDS
    section: ClassVar[str] = "3.5"
    source: ClassVar[str] = TENSOR2TENSOR

    def fault(self, shape: ModelShape, max_length: int) -> str | None:
        if self.wavelengths == "tensor2tensor" and shape.d_model < 4:
            return f"a d_model of {shape.d_model} has a single wavelength, which cannot be spread"
        return None


class FinalNorm(Choice):
    """A norm ends each stack, beside those after the sub-layers."""

    name: Literal["final_norm"] = "final_norm"
    decides: ClassVar[str] = NORMS
    instead_of: ClassVar[str] = POST_NORM
    section: ClassVar[str] = "3.1"
    source: ClassVar[str] = "Paszke et al. 2019"


class ProjectionBiases(Choice):
    """The projections of attention have biases."""

    name: Literal["projection_biases"] = "projection_biases"
    decides: ClassVar[str] = "whether projections have biases"
    instead_of: ClassVar[str] = "projections without"
    section: ClassVar[str] = "3.2.2"
    source: ClassVar[str] = "Ott et al. 2019"


class OutputBias(Choice):
    """The logits have a bias."""

    name: Literal["output_bias"] = "output_bias"
    decides: ClassVar[str] = "whether the output map has a bias"
    instead_of: ClassVar[str] = "an output map without"
    section: ClassVar[str] = "3.4"
    source: ClassVar[str] = "Junczys-Dowmunt et al. 2018"


class QueryKeyNorm(Choice):
    """Queries and keys are divided by their lengths, and their products multiplied by a learned factor.

    Attributes:
        length: nearly all sentences are of at most so many tokens; the factor begins at log2(length^2 - length).
    """

    name: Literal["query_key_norm"] = "query_key_norm"
    length: Annotated[int, Field(ge=2, le=1_000_000)] = 100
    decides: ClassVar[str] = "how large products of queries and keys can be"
    instead_of: ClassVar[str] = "Q K^T / sqrt(d_k)"
    section: ClassVar[str] = "3.2.1"
    source: ClassVar[str] = "Henry et al. 2020"


class RelativePositions(Choice):
    """Attention learns what each distance means, and nothing is added to the embeddings.

    Attributes:
        farthest: longer distances count as this one.
    """

    name: Literal["relative_positions"] = "relative_positions"
    farthest: Annotated[int, Field(ge=1, le=100_000)] = 16
    decides: ClassVar[str] = POSITIONS
    instead_of: ClassVar[str] = SINUSOIDS
    section: ClassVar[str] = "3.5"
    source: ClassVar[str] = "Shaw et al. 2018"


class NormEpsilon(Choice):
    """Norms have another epsilon, which is added to the variance.

    Attributes:
        epsilon: 1e-5 in PyTorch and fairseq, 1e-9 in Marian.
    """

    name: Literal["norm_epsilon"] = "norm_epsilon"
    epsilon: Annotated[float, Field(gt=0.0, le=1.0)]
    decides: ClassVar[str] = "what is added to a variance"
    instead_of: ClassVar[str] = "epsilon 1e-06"
    section: ClassVar[str] = "3.1"
    source: ClassVar[str] = "Paszke et al. 2019"


class UnbiasedNorm(Choice):
    """Norms divide by the deviation of a sample, counted by d_model - 1, to which epsilon is added."""

    name: Literal["unbiased_norm"] = "unbiased_norm"
    decides: ClassVar[str] = "what a norm is"
    instead_of: ClassVar[str] = "LayerNorm"
    section: ClassVar[str] = "3.1"
    source: ClassVar[str] = "Rush 2018"


class _Start(Choice):
    """What the decoder is given before its first token."""

    decides: ClassVar[str] = "what the decoder begins with"
    instead_of: ClassVar[str] = "a row of its own, BOS"
    section: ClassVar[str] = "3.1"


class EndStart(_Start):
    """The decoder begins with the row of the end mark."""

    name: Literal["end_start"] = "end_start"
    source: ClassVar[str] = "Ott et al. 2019"


class PaddingStart(_Start):
    """The decoder begins with the row of padding."""

    name: Literal["padding_start"] = "padding_start"
    source: ClassVar[str] = "Wolf et al. 2020"


class ZeroStart(_Start):
    """The decoder begins with a vector of zeros."""

    name: Literal["zero_start"] = "zero_start"
    source: ClassVar[str] = TENSOR2TENSOR


class TargetSpace(Choice):
    """A learned vector is added to each embedded source token; it stood for the language to translate into."""

    name: Literal["target_space"] = "target_space"
    decides: ClassVar[str] = "what is added to embedded sources"
    instead_of: ClassVar[str] = "positions alone"
    section: ClassVar[str] = "3.4"
    source: ClassVar[str] = TENSOR2TENSOR


class _OneStack(Choice):
    """One stack in place of two: there is one text, and the model is of that text."""

    decides: ClassVar[str] = STACKS
    instead_of: ClassVar[str] = BOTH_STACKS
    section: ClassVar[str] = "3.1"

    def fault(self, shape: ModelShape, max_length: int) -> str | None:
        if not shape.shared_embeddings:
            return "there is one text, and shared_embeddings = false asks for embeddings of two"
        return None

    def fault_beside(self, other: Choice) -> str | None:
        return "it is added to what is translated" if isinstance(other, TargetSpace) else None


class DecoderOnly(_OneStack):
    """The decoder without attention over a source: a language model, which says what comes next."""

    name: Literal["decoder_only"] = "decoder_only"
    source: ClassVar[str] = "Liu et al. 2018"


class EncoderOnly(_OneStack):
    """The encoder alone: a masked language model, which says what is hidden.

    Attributes:
        share: of the tokens of a text, chosen to be learned from the others.
    """

    name: Literal["encoder_only"] = "encoder_only"
    share: Chance = 0.15
    source: ClassVar[str] = "Devlin et al. 2018"

    def fault_beside(self, other: Choice) -> str | None:
        if isinstance(other, GroupedQuery):
            return "it groups heads of the decoder, and there is none (multi_query is for all heads)"
        if isinstance(other, _Start):
            return "a decoder begins with it, and there is none"
        return super().fault_beside(other)


Departure = (
    PreNorm
    | RMSNorm
    | GLU
    | GEGLU
    | SwiGLU
    | Rope
    | GroupedQuery
    | MultiQuery
    | AttentionDropout
    | FeedForwardDropout
    | LearnedPositions
    | BlockSinusoids
    | FinalNorm
    | ProjectionBiases
    | OutputBias
    | QueryKeyNorm
    | RelativePositions
    | NormEpsilon
    | UnbiasedNorm
    | EndStart
    | PaddingStart
    | ZeroStart
    | TargetSpace
    | DecoderOnly
    | EncoderOnly
)
KINDS: dict[str, type[Departure]] = {kind.model_fields["name"].default: kind for kind in get_args(Departure)}


def departures_of(value: object) -> tuple[Departure, ...]:
    """Departures of the architecture as a recipe may write them, as values; see `listed`."""
    return listed(value, KINDS, "architecture")


AnyDeparture = TypeVar("AnyDeparture", bound=Choice)


def listed(value: object, kinds: Mapping[str, type[AnyDeparture]], level: Level) -> tuple[AnyDeparture, ...]:
    """Departures as a recipe may write them, as values: names, tables with a name, or departures.

    A text is names with commas between them; one table is a list of one.

    Args:
        value: what stands in the recipe.
        kinds: those that may stand there, by name.
        level: the list they are in.

    Raises:
        ConfigError: there is no departure of that name, or a value of it is not usable.
    """
    match value:
        case None:
            return ()
        case str():
            names = [name.strip() for name in value.split(",") if name.strip()]
            return listed(names, kinds, level)
        case list() | tuple():
            return tuple(_departure_of(entry, kinds, level) for entry in value)
        case _:
            return (_departure_of(value, kinds, level),)


def _departure_of(entry: object, kinds: Mapping[str, type[AnyDeparture]], level: Level) -> AnyDeparture:
    if type(entry) in kinds.values():
        return cast(AnyDeparture, entry)
    match entry:
        case str():
            return _departure_of({"name": entry}, kinds, level)
        case {"name": str(name), **numbers} if name in kinds:
            given: dict[str, Any] = {str(field): number for field, number in numbers.items()}
            return kinds[name](**given)
        case _:
            raise _unknown(entry, kinds, level)


def _unknown(entry: object, kinds: Mapping[str, type[Choice]], level: Level) -> ConfigError:
    entry = entry["name"] if isinstance(entry, dict) and entry.keys() == {"name"} else entry
    elsewhere = " and ".join(where_of(other) for other in get_args(Level) if other != level)
    of_level = "" if level == "architecture" else f" of {level}"
    return ConfigError(
        f"there is no departure{of_level} {entry!r}",
        where=where_of(level),
        cure=f"the departures{of_level} are {', '.join(kinds)}; {elsewhere} have lists of their own",
    )


def where_of(level: Level) -> str:
    """The field of a recipe in which departures of a level are listed."""
    return f"departures.{level}"


def check_departures(departures: Sequence[Departure], shape: ModelShape, max_length: int = 1) -> None:
    """Refuses what makes no sense together, or not with a model of these sizes.

    Args:
        departures: in any order.
        shape: sizes of the model.
        max_length: of the sentences it is trained on, EOS included.

    Raises:
        ConfigError: names the departures and the reason.
    """
    refuse(departures, (departure.fault(shape, max_length) for departure in departures))


def stack_of(departures: Sequence[Departure]) -> DecoderOnly | EncoderOnly | None:
    """The departure that leaves one stack of the two; None where both are there."""
    return next((d for d in departures if isinstance(d, DecoderOnly | EncoderOnly)), None)


def refuse(departures: Sequence[Choice], faults: Iterator[str | None]) -> None:
    """Refuses two that decide the same thing, and the first that has a fault.

    Args:
        departures: of one level, in any order.
        faults: of each of them, why it cannot be had.

    Raises:
        ConfigError: names the departures and the reason.
    """
    alone = (
        f"departure {departure} cannot be had: {fault}"
        for departure, fault in zip(departures, faults, strict=True)
        if fault is not None
    )
    for fault in (*_at_odds(departures), *alone):
        names = ", ".join(map(str, departures))
        cure = "leave one out, or change it"
        raise ConfigError(fault, where=f"{where_of(departures[0].level)} = {names}", cure=cure)


def _at_odds(departures: Sequence[Choice]) -> Iterator[str]:
    for one, other in combinations(departures, 2):
        if one.name == other.name:
            yield f"departure {one.name} is named twice"
        elif one.decides == other.decides:
            yield f"departures {one.name} and {other.name} do not go together: both say {one.decides}"
        for this, that in ((one, other), (other, one)):
            if (fault := this.fault_beside(that)) is not None:
                yield f"departures {this.name} and {that.name} do not go together: {fault}"
