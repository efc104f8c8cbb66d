"""Whichever model of one text is in a directory.

Paper: none (infrastructure)
"""

from __future__ import annotations

from pathlib import Path

from dragoman.bundle import bundle_in, open_bundle
from dragoman.errors import ConfigError
from dragoman.language.masked import MaskedLanguageModel
from dragoman.language.model import LanguageModel, Precision
from dragoman.translator import usable_device
from dragoman.variants.departures import DecoderOnly, EncoderOnly


def load(
    path: str | Path, *, device: str, precision: Precision, cure: str
) -> LanguageModel | MaskedLanguageModel:
    """The model there.

    Args:
        path: a directory.
        device, precision: as for either of them.
        cure: what to do with a translator instead.

    Raises:
        CheckpointError: there is no whole model there.
        ConfigError: it translates.
    """
    bundle = open_bundle(bundle_in(Path(path)))
    match bundle.facts.stack:
        case DecoderOnly():
            return LanguageModel.of(bundle, device=usable_device(device), precision=precision)
        case EncoderOnly():
            return MaskedLanguageModel.of(bundle, device=usable_device(device), precision=precision)
        case None:
            raise ConfigError(
                "this model translates: one text alone says nothing of it, and no translation is given",
                where=str(path),
                cure=cure,
            )
