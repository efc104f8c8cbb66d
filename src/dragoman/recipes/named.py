"""The recipes that come with dragoman, one function each.

Paper: 5, 5.2, 6.1, Table 3
Each docstring says what to expect, on what, in what time, and the command. Scores that have not been measured
with dragoman are said to be the paper's.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.errors import ConfigError
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
from dragoman.recipes.systems import system_recipes
from dragoman.standing import BASE, BIG, BIG_EN_FR
from dragoman.variants.departures import DecoderOnly, Departure, EncoderOnly

_TINY = ModelShape(N=4, d_model=128, d_ff=256, h=4)
_WIDE = ModelShape(N=3, d_model=256, d_ff=512, h=4)
CHECKPOINTS = 40  # of a run that minutes limit
LEAST_WARMUP = 50


def base() -> Recipe:
    """The paper's base model, as published: 100,000 updates of 25,000 + 25,000 tokens.

    Paper: 27.3 BLEU (its own measure) on newstest2014 en-de after 12 hours on 8 P100; 4.5 million pairs.
    On 2 cores one update takes about a minute: this is a recipe for GPUs.

        dragoman train PREPARED --recipe base --out RUN --device cuda
    """
    return BASE.model_copy(update={"description": "the paper's base model (Table 3)"})


def big() -> Recipe:
    """The paper's big model for English-German: d_model 1024, P_drop 0.3, 300,000 updates, 20 averaged.

    Paper: 28.4 BLEU (its own measure) on newstest2014 en-de after 3.5 days on 8 P100.

        dragoman train PREPARED --recipe big --out RUN --device cuda
    """
    return BIG.model_copy(update={"description": "the paper's big model, English-German (Table 3)"})


def big_en_fr() -> Recipe:
    """The paper's big model for English-French: as big, with P_drop 0.1 and 32,000 subwords (5.4, 5.1).

    Paper: 41.8 BLEU (its own measure; 41.0 in the text of 6.1) on newstest2014 en-fr.

        dragoman train PREPARED --recipe big-en-fr --out RUN --device cuda
    """
    return BIG_EN_FR.model_copy(update={"description": "the paper's big model, English-French (5.4)"})


def small() -> Recipe:
    """For some hundred thousand pairs on one GPU, or overnight on a CPU: N 6, d_model 256, d_ff 1024.

    The paper's rules at a smaller scale; batches of 8,192 tokens a side. Not scored yet: how good it gets depends
    on the corpus.

        dragoman train PREPARED --recipe small --out RUN
    """
    return Recipe(
        name="small",
        description="the paper's rules for some hundred thousand pairs",
        model=ModelShape(N=6, d_model=256, d_ff=1024, h=4),
        subwords=SubwordSection(vocab_size=16_000),
        batch=BatchSection(source_tokens=8_192, target_tokens=8_192, tokens_at_once=8_192),
        training=TrainingSection(max_steps=50_000),
    )


def tiny() -> Recipe:
    """For some ten thousand pairs on a laptop: N 4, d_model 128, d_ff 256, h 4.

    The paper's rules at the smallest scale that is useful; batches of 4,096 tokens a side, the rate rising over
    1,000 updates to twice the paper's.

        dragoman train PREPARED --recipe tiny --out RUN
    """
    return Recipe(
        name="tiny",
        description="the paper's rules for some ten thousand pairs on a laptop",
        model=_TINY,
        subwords=SubwordSection(vocab_size=8_000),
        batch=BatchSection(source_tokens=4_096, target_tokens=4_096, tokens_at_once=4_096),
        optimizer=OptimizerSection(warmup_steps=1_000, factor=2.0),
        training=TrainingSection(max_steps=10_000, checkpoint_minutes=2.0),
    )


def brief() -> Recipe:
    """For so few updates that a deeper model would hardly have begun: two layers, a quarter of the operations of `quick`.

    What a machine without fast bf16 takes in five or ten minutes.

        dragoman train PREPARED --recipe brief --out RUN
    """
    return _of_minutes(
        "brief",
        "few minutes of a slow machine, or few updates on many pairs",
        10.0,
        P_drop=0.1,
        shape=ModelShape(N=2, d_model=128, d_ff=512, h=2),
    )


def quick() -> Recipe:
    """Five minutes of a laptop for some ten thousand pairs: a first impression.

    As `demo`, with less dropout: in so few passes over the text nothing is learned by heart.

        dragoman train PREPARED --recipe quick --out RUN
    """
    return _of_minutes("quick", "five minutes of a laptop for some ten thousand pairs", 5.0, P_drop=0.1)


def demo() -> Recipe:
    """What `dragoman demo` trains on 29,000 captions: wider than tiny and less deep, for ten minutes of a laptop.

    Departs from the paper's recipe in one rule: the rate falls over the last 60% of the run, which is too short for it
    to have fallen by itself.

        dragoman demo
    """
    return _of_minutes("demo", "for 29,000 captions and ten minutes of a laptop", 9.75, P_drop=0.2)


def laptop() -> Recipe:
    """What `dragoman train` takes on a CPU for under 200,000 pairs: half an hour, or as long as it is given.

    As `demo`, with more dropout for more passes over the text.

        dragoman train PREPARED --recipe laptop --out RUN
        dragoman train PREPARED --recipe laptop --out RUN --max-minutes 120
    """
    return _of_minutes("laptop", "half an hour of a laptop for some ten thousand pairs", 30.0, P_drop=0.3)


def with_minutes(recipe: Recipe, minutes: float) -> Recipe:
    """The recipe for so many minutes of training, with enough checkpoints to average however few they are."""
    return recipe.with_changes(
        [f"training.max_minutes={float(minutes)}", f"training.checkpoint_minutes={minutes / CHECKPOINTS}"]
    )


def with_updates(recipe: Recipe, updates: float) -> Recipe:
    """A recipe of minutes where a machine makes about so many updates in them.

    The rate rises over a quarter of them at most, to the height that it has in the recipe.
    """
    rule = recipe.optimizer
    warmup_steps = max(LEAST_WARMUP, int(updates / 4))
    if warmup_steps >= rule.warmup_steps:
        return recipe
    factor = rule.factor * (warmup_steps / rule.warmup_steps) ** 0.5
    return recipe.with_changes([f"optimizer.warmup_steps={warmup_steps}", f"optimizer.factor={factor:.3g}"])


def _of_minutes(
    name: str,
    description: str,
    minutes: float,
    *,
    P_drop: float,
    shape: ModelShape = _WIDE,
) -> Recipe:
    recipe = Recipe(
        name=name,
        description=description,
        model=shape.model_copy(update={"P_drop": P_drop}),
        subwords=SubwordSection(vocab_size=5_000),
        batch=BatchSection(source_tokens=2_048, target_tokens=2_048, tokens_at_once=2_048),
        optimizer=OptimizerSection(warmup_steps=600, cooldown=0.6),
        training=TrainingSection(
            keep_checkpoints=5,
            validate_steps=800,
            validation_sentences=200,
        ),
        search=SearchSection(average_checkpoints=5, alpha=1.3),
    )
    return with_minutes(recipe, minutes)


def demo_grammar() -> Recipe:
    """What `dragoman demo` trains on the embedded grammar where no other data is: no dropout, since it has no noise.

    Departs from the paper's recipe in one rule: the rate falls at the end of the run, which is too short for it to have
    fallen by itself.

        dragoman demo --grammar
    """
    return Recipe(
        name="demo-grammar",
        description="for the embedded grammar and nine minutes of a laptop",
        model=_TINY.model_copy(update={"P_drop": 0.0}),
        subwords=SubwordSection(vocab_size=2_000),
        batch=BatchSection(source_tokens=1_536, target_tokens=1_536, tokens_at_once=1_536),
        optimizer=OptimizerSection(warmup_steps=600, cooldown=0.3),
        training=TrainingSection(
            max_minutes=9.0,
            checkpoint_minutes=0.2,
            keep_checkpoints=5,
            validate_steps=1_000,
            validation_sentences=200,
        ),
    )


def lm() -> Recipe:
    """A language model of one text of some ten thousand lines: the decoder alone, ten minutes of a laptop.

    Departs from the paper's architecture in its one stack, and from its recipe in that the rate falls at the end of the
    run. Nothing is smoothed: perplexity is what such a model is for, and smoothing costs it (Table 3, D).

        dragoman prepare train.en --one-text --out PREPARED
        dragoman train PREPARED --recipe lm --out RUN
    """
    return _of_one_text(
        "lm",
        "a language model (decoder alone) of one text, for ten minutes of a laptop",
        DecoderOnly(),
        P_drop=0.2,
    )


def masked_lm() -> Recipe:
    """A masked language model of one text of some ten thousand lines: the encoder alone, ten minutes of a laptop.

    As `lm`; 30 of 100 tokens are chosen to be learned from all the others, twice as many as in Devlin et al., since so
    short a run learns from few, and less is dropped, since what is hidden is noise enough.

        dragoman prepare train.en --one-text --out PREPARED
        dragoman train PREPARED --recipe masked-lm --out RUN
    """
    return _of_one_text(
        "masked-lm",
        "a masked language model (encoder alone) of one text, for ten minutes of a laptop",
        EncoderOnly(share=0.3),
        P_drop=0.1,
    )


def _of_one_text(name: str, description: str, stack: Departure, *, P_drop: float) -> Recipe:
    recipe = Recipe(
        name=name,
        description=description,
        model=ModelShape(N=4, d_model=256, d_ff=1024, h=4, P_drop=P_drop),
        subwords=SubwordSection(vocab_size=5_000),
        batch=BatchSection(source_tokens=2_048, target_tokens=2_048, tokens_at_once=2_048),
        optimizer=OptimizerSection(warmup_steps=600, cooldown=0.6),
        training=TrainingSection(eps_ls=0.0, keep_checkpoints=5, validate_steps=400, validation_sentences=0),
        search=SearchSection(average_checkpoints=5),
        departures=DepartureSection(architecture=(stack,)),
    )
    return with_minutes(recipe, 10.0)


def all_recipes() -> list[Recipe]:
    """Every recipe that is dragoman's own, in the order they are listed to people."""
    return [
        base(),
        big(),
        big_en_fr(),
        small(),
        tiny(),
        brief(),
        quick(),
        demo(),
        laptop(),
        demo_grammar(),
        lm(),
        masked_lm(),
    ]


def recipe_named(name: str) -> Recipe:
    """The recipe of that name, of ours or of a system's.

    Raises:
        ConfigError: there is none.
    """
    for recipe in (*all_recipes(), *system_recipes()):
        if recipe.name == name:
            return recipe
    known = ", ".join(recipe.name for recipe in (*all_recipes(), *system_recipes()))
    raise ConfigError(f"there is no recipe {name!r}", cure=f"choose from {known}, or give a .toml file")


def read_recipe(name_or_file: str) -> Recipe:
    """A recipe by its name, or from a file where the name ends in .toml.

    Raises:
        ConfigError: there is none, or it is not usable.
    """
    if name_or_file.endswith(".toml"):
        return Recipe.from_file(Path(name_or_file))
    return recipe_named(name_or_file)
