"""The choices of a run that no number of a recipe holds: what the paper says of each, in the words a probe answers in.

Paper: none (measures what other modules do)
"""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.standing import Finding, Level, Verdict

# What stands in the paper's column where the paper is silent; the braces are for what is expected.
T2T = "left open; tensor2tensor: {}"
OURS = "left open; ours: {}"
SACREBLEU = "left open; the default of sacreBLEU: {}"
WORD_PIECES = "{}, or word-pieces for English-French; no program is named"


@dataclass(frozen=True)
class Choice:
    """One choice.

    Attributes:
        name: what is chosen.
        level: architecture or recipe.
        section: where the paper speaks of it.
        expected: what a probe answers where the choice is the paper's, or ours where the paper is silent.
        silent: where the paper leaves it open, what is said of that; else None.
    """

    name: str
    level: Level
    section: str
    expected: str
    silent: str | None = None

    def finding(self, here: str) -> Finding:
        """What a probe answered, beside what is expected."""
        said = self.expected if self.silent is None else self.silent.format(self.expected)
        agrees: Verdict = "as published" if self.silent is None else "silent"
        verdict: Verdict = agrees if here == self.expected else "departure"
        return Finding(self.name, self.level, self.section, said, here, verdict)


ARCHITECTURE = (
    Choice(
        "sub-layers",
        "architecture",
        "3.1",
        "encoder: self-attention, feed-forward; decoder: self-attention, cross-attention, feed-forward",
    ),
    Choice("norm place", "architecture", "3.1", "after the sum"),
    Choice("norm formula", "architecture", "3.1", "mean 0, deviation 1 over the width"),
    Choice("norm constants", "architecture", "3.1", "epsilon 1e-06, gain and bias", T2T),
    Choice("final norms", "architecture", "3.1", "none"),
    Choice("attention", "architecture", "3.2.1", "softmax(Q K^T / sqrt(d_k)) V"),
    Choice("heads", "architecture", "3.2.2", "h, each with projections of its own"),
    Choice("attention biases", "architecture", "3.2.2", "none", T2T),
    Choice("masks", "architecture", "3.2.3", "targets see earlier ones, sources all tokens"),
    Choice("feed-forward", "architecture", "3.3", "max(0, x W_1 + b_1) W_2 + b_2"),
    Choice("embedding scale", "architecture", "3.4", "sqrt(d_model)"),
    Choice("encoder input", "architecture", "3.4", "embedding + position"),
    Choice("embedding tying", "architecture", "3.4", "one matrix for source, target and output"),
    Choice("output map", "architecture", "3.4", "x E^T without a bias", T2T),
    Choice("position place", "architecture", "3.5", "added to the embeddings"),
    Choice("sinusoid layout", "architecture", "3.5", "sine and cosine in turn"),
    Choice("sinusoid wavelengths", "architecture", "3.5", "2 pi 10000^(2i/d_model)"),
    Choice("dropout places", "architecture", "5.4", "sub-layer outputs, embedding + position"),
    Choice(
        "initializer",
        "architecture",
        "3",
        "Glorot uniform, projections as one; embeddings N(0, 1/d_model); norms 1 and 0",
        T2T,
    ),
    Choice("decoder input", "architecture", "3.1", "the target shifted right by one"),
    Choice("start token", "architecture", "3.1", "BOS, an ordinary row", OURS),
)
RECIPE = (
    Choice("subwords", "recipe", "5.1", "byte-pair encoding", WORD_PIECES),
    Choice("batches", "recipe", "5.1", "similar lengths together, counted in tokens"),
    Choice("optimizer", "recipe", "5.3", "Adam"),
    Choice("rate rule", "recipe", "5.3", "d_model^-0.5 min(step^-0.5, step warmup_steps^-1.5)"),
    Choice("weight decay", "recipe", "5.3", "none", T2T),
    Choice("gradient clipping", "recipe", "5.3", "none", T2T),
    Choice("smoothing form", "recipe", "5.4", "eps_ls over the other V - 1", T2T),
    Choice("mean of the loss", "recipe", "5.4", "over the target tokens of a batch", T2T),
    Choice("averaging", "recipe", "6.1", "plain mean of checkpoints", T2T),
    Choice("length penalty", "recipe", "6.1", "((5 + n) / 6)^alpha"),
    Choice("end of search", "recipe", "6.1", "as soon as no live prefix can win"),
    Choice("BLEU", "recipe", "6.1", "sacreBLEU, case:mixed, tok:13a", SACREBLEU),
)
CHOICES = ARCHITECTURE + RECIPE
