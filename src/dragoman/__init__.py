"""dragoman: the system of "Attention Is All You Need", whole and in real use.

Paper: Vaswani et al. 2017, arXiv:1706.03762

The public names are here; each is loaded when it is first asked for, so that `import dragoman` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.data.prepare import prepare as prepare
    from dragoman.data.prepared import open_prepared as open_prepared
    from dragoman.errors import DragomanError as DragomanError
    from dragoman.language.masked import MaskedLanguageModel as MaskedLanguageModel
    from dragoman.language.model import LanguageModel as LanguageModel
    from dragoman.model.config import ModelConfig as ModelConfig
    from dragoman.model.parts import PAPER as PAPER
    from dragoman.model.parts import Parts as Parts
    from dragoman.model.transformer import Transformer as Transformer
    from dragoman.pipeline import average as average
    from dragoman.pipeline import evaluate as evaluate
    from dragoman.pipeline import train as train
    from dragoman.recipe import Recipe as Recipe
    from dragoman.translator import Translation as Translation
    from dragoman.translator import Translator as Translator

__version__ = "0.1.0"

_HOMES = {
    "DragomanError": "dragoman.errors",
    "LanguageModel": "dragoman.language.model",
    "MaskedLanguageModel": "dragoman.language.masked",
    "ModelConfig": "dragoman.model.config",
    "PAPER": "dragoman.model.parts",
    "Parts": "dragoman.model.parts",
    "Recipe": "dragoman.recipe",
    "Transformer": "dragoman.model.transformer",
    "Translation": "dragoman.translator",
    "Translator": "dragoman.translator",
    "average": "dragoman.pipeline",
    "evaluate": "dragoman.pipeline",
    "open_prepared": "dragoman.data.prepared",
    "prepare": "dragoman.data.prepare",
    "train": "dragoman.pipeline",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
