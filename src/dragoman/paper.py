"""The paper as data: its parts by number, and the numbers of its models.

Paper: Vaswani et al. 2017, arXiv:1706.03762

Recipes, tests and reports take the paper's numbers from here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

CITATION = "Vaswani et al. 2017"

SECTIONS = {
    "3": "Model Architecture",
    "3.1": "Encoder and Decoder Stacks",
    "3.2": "Attention",
    "3.2.1": "Scaled Dot-Product Attention",
    "3.2.2": "Multi-Head Attention",
    "3.2.3": "Applications of Attention in our Model",
    "3.3": "Position-wise Feed-Forward Networks",
    "3.4": "Embeddings and Softmax",
    "3.5": "Positional Encoding",
    "4": "Why Self-Attention",
    "5": "Training",
    "5.1": "Training Data and Batching",
    "5.2": "Hardware and Schedule",
    "5.3": "Optimizer",
    "5.4": "Regularization",
    "6": "Results",
    "6.1": "Machine Translation",
    "6.2": "Model Variations",
    "6.3": "English Constituency Parsing",
}
EQUATIONS = {"Eq. 1": "3.2.1", "Eq. 2": "3.3", "Eq. 3": "5.3"}
TABLES = {
    "Table 1": "complexity, sequential operations and path lengths of layer types",
    "Table 2": "BLEU and training cost on newstest2014",
    "Table 3": "variations of the base model",
    "Table 4": "English constituency parsing",
}
FIGURES = {
    "Figure 1": "the Transformer",
    "Figure 2": "scaled dot-product attention and multi-head attention",
    "Figure 3": "attention over a long distance",
    "Figure 4": "attention that resolves a pronoun",
    "Figure 5": "heads that follow the structure of a sentence",
}


@dataclass(frozen=True)
class Row:
    """A row of Table 3; what the table leaves blank is as in the base model.

    Attributes:
        name: "base", "big", or the row's letter with what it changes.
        N, d_model, d_ff, h, d_k, d_v, P_drop, eps_ls: as the table heads its columns.
        train_steps: updates.
        perplexity, bleu: on newstest2013, per word-piece, without averaging of checkpoints.
        parameters: in millions, where the table gives them.
        learned_positions: row (E).
    """

    name: str
    N: int = 6
    d_model: int = 512
    d_ff: int = 2048
    h: int = 8
    d_k: int = 64
    d_v: int = 64
    P_drop: float = 0.1
    eps_ls: float = 0.1
    train_steps: int = 100_000
    perplexity: float = 4.92
    bleu: float = 25.8
    parameters: int | None = None
    learned_positions: bool = False


BASE = Row("base", parameters=65)
BIG = Row(
    "big",
    d_model=1024,
    d_ff=4096,
    h=16,
    P_drop=0.3,
    train_steps=300_000,
    perplexity=4.33,
    bleu=26.4,
    parameters=213,
)
TABLE_3 = (
    BASE,
    Row("A h=1", h=1, d_k=512, d_v=512, perplexity=5.29, bleu=24.9),
    Row("A h=4", h=4, d_k=128, d_v=128, perplexity=5.00, bleu=25.5),
    Row("A h=16", h=16, d_k=32, d_v=32, perplexity=4.91, bleu=25.8),
    Row("A h=32", h=32, d_k=16, d_v=16, perplexity=5.01, bleu=25.4),
    Row("B d_k=16", d_k=16, perplexity=5.16, bleu=25.1, parameters=58),
    Row("B d_k=32", d_k=32, perplexity=5.01, bleu=25.4, parameters=60),
    Row("C N=2", N=2, perplexity=6.11, bleu=23.7, parameters=36),
    Row("C N=4", N=4, perplexity=5.19, bleu=25.3, parameters=50),
    Row("C N=8", N=8, perplexity=4.88, bleu=25.5, parameters=80),
    Row("C d_model=256", d_model=256, d_k=32, d_v=32, perplexity=5.75, bleu=24.5, parameters=28),
    Row("C d_model=1024", d_model=1024, d_k=128, d_v=128, perplexity=4.66, bleu=26.0, parameters=168),
    Row("C d_ff=1024", d_ff=1024, perplexity=5.12, bleu=25.4, parameters=53),
    Row("C d_ff=4096", d_ff=4096, perplexity=4.75, bleu=26.2, parameters=90),
    Row("D P_drop=0.0", P_drop=0.0, perplexity=5.77, bleu=24.6),
    Row("D P_drop=0.2", P_drop=0.2, perplexity=4.95, bleu=25.5),
    Row("D eps_ls=0.0", eps_ls=0.0, perplexity=4.67, bleu=25.3),
    Row("D eps_ls=0.2", eps_ls=0.2, perplexity=5.47, bleu=25.7),
    Row("E learned positions", learned_positions=True, perplexity=4.92, bleu=25.7),
    BIG,
)

SHARED_VOCABULARY_EN_DE = 37_000  # "about 37000 tokens" (5.1)
WORD_PIECES_EN_FR = 32_000  # (5.1)
BATCH_TOKENS = 25_000  # "approximately", source and target each (5.1)
WARMUP_STEPS = 4_000  # (5.3)
BETA_1, BETA_2, EPSILON = 0.9, 0.98, 1e-9  # (5.3)
AVERAGED_BASE, AVERAGED_BIG = 5, 20  # last checkpoints (6.1)
CHECKPOINT_MINUTES = 10  # between those of the base model (6.1)
BEAM_SIZE, ALPHA, MAX_EXTRA = 4, 0.6, 50  # (6.1)
P_DROP_BIG_EN_FR = 0.1  # (6.1)
