"""What well-known systems do by default, as recipes made of departures.

Paper: none (departures)

Each was read from the files that are named, at the version that is named; what of a system cannot be said here is listed
beside it. Scores of these recipes have not been measured with dragoman.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dragoman.model.config import ModelShape
from dragoman.recipe import (
    BatchSection,
    DepartureSection,
    OptimizerSection,
    Recipe,
    SearchSection,
    SubwordSection,
    TrainingSection,
)
from dragoman.variants.departures import (
    AttentionDropout,
    BlockSinusoids,
    EndStart,
    FeedForwardDropout,
    FinalNorm,
    NormEpsilon,
    OutputBias,
    PreNorm,
    ProjectionBiases,
    TargetSpace,
    UnbiasedNorm,
    ZeroStart,
)
from dragoman.variants.search_rules import LengthLimit, PowerPenalty
from dragoman.variants.training_rules import MovingAverage, SmoothingOverAll, SmoothingWithoutPadding

_OWN_SUBWORDS = "its own subwords, in place of SentencePiece's"
_OWN_INITIAL_VALUES = "its own initial weights"
_OWN_END = "its own end of the search: when it has found as many outputs as the beam is wide"


@dataclass(frozen=True)
class System:
    """What a system does by default.

    Attributes:
        recipe: as near as departures and fields come.
        source: where it was read.
        not_expressed: what it does otherwise still.
    """

    recipe: Recipe
    source: str
    not_expressed: tuple[str, ...]


def _factor(highest_rate: float, *, d_model: int, warmup_steps: int) -> float:
    """What the paper's rate is multiplied by to be this at its highest; to three digits."""
    return float(f"{highest_rate * math.sqrt(d_model * warmup_steps):.3g}")


def _tensor2tensor(version: str, beta_2: float) -> System:
    recipe = Recipe(
        name=f"tensor2tensor-base-{version}",
        description=f"tensor2tensor's transformer_base_{version}",
        subwords=SubwordSection(vocab_size=32_768),
        batch=BatchSection(source_tokens=4_096, target_tokens=4_096, tokens_at_once=4_096),
        optimizer=OptimizerSection(beta_2=beta_2, warmup_steps=8_000, factor=2.0),
        training=TrainingSection(max_steps=300_000, keep_checkpoints=20),
        search=SearchSection(average_checkpoints=8, max_extra=100),
        departures=DepartureSection(
            architecture=(
                PreNorm(),
                AttentionDropout(P_drop=0.1),
                FeedForwardDropout(P_drop=0.1),
                BlockSinusoids(wavelengths="tensor2tensor"),
                ZeroStart(),
                TargetSpace(),
            )
        ),
    )
    return System(
        recipe,
        "github.com/tensorflow/tensor2tensor, bafdc1b6: models/transformer.py, layers/common_attention.py, "
        "utils/decoding.py, README.md",
        (
            _OWN_SUBWORDS,
            "a batch of 4,096 tokens on each of 8 devices, padding counted",
            "each of the four maps of attention drawn by itself",
        ),
    )


def tensor2tensor_base_v2() -> System:
    """`transformer_base_v2`, the second set of the authors' own code: pre-norm and more dropout.

    dragoman train PREPARED --recipe tensor2tensor-base-v2 --out RUN --device cuda
    """
    return _tensor2tensor("v2", 0.98)


def tensor2tensor_base_v3() -> System:
    """`transformer_base_v3`, which is `transformer_base` today: as v2, with another beta_2.

    dragoman train PREPARED --recipe tensor2tensor-base-v3 --out RUN --device cuda
    """
    return _tensor2tensor("v3", 0.997)


def fairseq() -> System:
    """`transformer_wmt_en_de` with all embeddings shared, trained and searched as the examples say."""
    recipe = Recipe(
        name="fairseq-base",
        description="fairseq's transformer_wmt_en_de, as its examples train it",
        subwords=SubwordSection(vocab_size=32_768),
        batch=BatchSection(source_tokens=3_584, target_tokens=3_584, tokens_at_once=3_584),
        optimizer=OptimizerSection(epsilon=1e-8, factor=_factor(0.0005, d_model=512, warmup_steps=4_000)),
        training=TrainingSection(keep_checkpoints=10),
        search=SearchSection(average_checkpoints=10),
        departures=DepartureSection(
            architecture=(
                NormEpsilon(epsilon=1e-5),
                ProjectionBiases(),
                BlockSinusoids(wavelengths="tensor2tensor"),
                EndStart(),
            ),
            search=(PowerPenalty(), LengthLimit(plus=200)),
        ),
    )
    return System(
        recipe,
        "github.com/facebookresearch/fairseq, 3d262bb2: models/transformer/transformer_legacy.py, modules/, "
        "criterions/label_smoothed_cross_entropy.py, sequence_generator.py, examples/scaling_nmt/README.md",
        (
            "positions that begin behind the number of padding",
            "queries, keys and values drawn with 0.7 of Glorot's bound",
            "the rate's rise from 1e-7 and not from 0",
            "BPE as subword-nmt has it, in place of SentencePiece's",
            _OWN_END,
            "smoothing over all V, before the version read here",
        ),
    )


def annotated() -> System:
    """The Annotated Transformer, as its own example trains it."""
    recipe = Recipe(
        name="annotated-base",
        description="the Annotated Transformer, as its example trains it",
        model=ModelShape(shared_embeddings=False, tied_output=False),
        subwords=SubwordSection(joint=False),
        batch=BatchSection(max_length=72),
        optimizer=OptimizerSection(warmup_steps=3_000),
        training=TrainingSection(keep_checkpoints=1),
        search=SearchSection(average_checkpoints=1, beam_size=1),
        departures=DepartureSection(
            architecture=(
                PreNorm(),
                UnbiasedNorm(),
                ProjectionBiases(),
                AttentionDropout(P_drop=0.1),
                FeedForwardDropout(P_drop=0.1),
                OutputBias(),
            ),
            training=(SmoothingWithoutPadding(),),
            search=(LengthLimit(plus=72),),
        ),
    )
    return System(
        recipe,
        "github.com/harvardnlp/annotated-transformer, debc9fd7: the_annotated_transformer.py",
        (
            "words as spaCy cuts them, in place of subwords",
            "batches of 32 sentences of any lengths, ten to an update, of which the means are summed",
            "a rate that counts batches and not updates",
            "embeddings drawn as every other matrix, biases as torch.nn.Linear draws them",
        ),
    )


def marian() -> System:
    """What its task `transformer-base` stands for."""
    recipe = Recipe(
        name="marian-base",
        description="Marian's task transformer-base",
        subwords=SubwordSection(vocab_size=32_000),
        batch=BatchSection(max_length=100),
        optimizer=OptimizerSection(
            warmup_steps=16_000, factor=_factor(0.0003, d_model=512, warmup_steps=16_000)
        ),
        training=TrainingSection(keep_checkpoints=1),
        search=SearchSection(average_checkpoints=1, beam_size=8, alpha=1.0),
        departures=DepartureSection(
            architecture=(
                NormEpsilon(epsilon=1e-9),
                ProjectionBiases(),
                OutputBias(),
                BlockSinusoids(wavelengths="tensor2tensor"),
                ZeroStart(),
            ),
            training=(SmoothingOverAll(), MovingAverage(share=1e-4)),
            search=(PowerPenalty(), LengthLimit(times=3.0)),
        ),
    )
    return System(
        recipe,
        "github.com/marian-nmt/marian-dev, c9f287db: common/aliases.cpp, models/transformer.h, models/decoder.h, "
        "optimizers/exponential_smoothing.cpp, tensors/cpu/tensor_operators.cpp, translator/",
        (
            "batches as large as memory allows",
            "the text cut as the user has cut it, or a unigram model",
            _OWN_INITIAL_VALUES,
            _OWN_END,
        ),
    )


def joeynmt() -> System:
    """The configuration it ships for WMT 17, English to German."""
    recipe = Recipe(
        name="joeynmt-base",
        description="joeynmt's wmt17_ende_sp.yaml",
        subwords=SubwordSection(vocab_size=32_000),
        batch=BatchSection(source_tokens=4_096, target_tokens=4_096, max_length=512, tokens_at_once=4_096),
        optimizer=OptimizerSection(epsilon=1e-8, factor=_factor(0.0002, d_model=512, warmup_steps=4_000)),
        training=TrainingSection(keep_checkpoints=5),
        search=SearchSection(average_checkpoints=1, beam_size=5, alpha=1.0),
        departures=DepartureSection(
            architecture=(
                PreNorm(),
                ProjectionBiases(),
                AttentionDropout(P_drop=0.1),
                FeedForwardDropout(P_drop=0.1),
            ),
            training=(SmoothingWithoutPadding(),),
            search=(LengthLimit(plus=100),),
        ),
    )
    return System(
        recipe,
        "github.com/joeynmt/joeynmt, cdc4d03d: configs/wmt17_ende_sp.yaml, joeynmt/transformer_layers.py, "
        "joeynmt/loss.py, joeynmt/search.py",
        (
            "a unigram model of subwords",
            "embeddings drawn as every other matrix",
            "the best checkpoint by BLEU in place of an average",
            _OWN_END,
        ),
    )


def torch() -> System:
    """`torch.nn.Transformer` as it comes, under `torch.nn.CrossEntropyLoss(label_smoothing=0.1)`."""
    recipe = Recipe(
        name="torch-base",
        description="torch.nn.Transformer and torch.nn.CrossEntropyLoss as they come",
        departures=DepartureSection(
            architecture=(
                FinalNorm(),
                NormEpsilon(epsilon=1e-5),
                ProjectionBiases(),
                AttentionDropout(P_drop=0.1),
                FeedForwardDropout(P_drop=0.1),
            ),
            training=(SmoothingOverAll(),),
        ),
    )
    return System(
        recipe,
        "pytorch.org, 2.x: torch/nn/modules/transformer.py, torch/nn/modules/activation.py, torch/nn/modules/loss.py",
        (
            "it has no embeddings, positions, output map, rate, batches and search: those here are the paper's",
            "each map of feed-forward networks with biases drawn as torch.nn.Linear draws them",
        ),
    )


# By the names of `dragoman fidelity --like`.
SYSTEMS = {
    "fairseq": fairseq,
    "tensor2tensor": tensor2tensor_base_v3,
    "annotated": annotated,
    "marian": marian,
    "joeynmt": joeynmt,
    "torch": torch,
}


def system_recipes() -> list[Recipe]:
    """The recipe of each system, and of tensor2tensor's earlier set."""
    made = [tensor2tensor_base_v2(), *(system() for system in SYSTEMS.values())]
    return [system.recipe for system in made]
