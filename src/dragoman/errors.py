"""The errors a user can meet: what is wrong, where, and the cure; each with its exit code.

Paper: none (infrastructure)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


# Cures that several errors share.
CHECK_PATH = "check the path and its permissions"
CHECK_ROOM = "check the directory, its permissions and the space left"


class DragomanError(Exception):
    """Something a user did, or a file a user has, cannot be worked with.

    Args:
        what: what is wrong, one sentence, with the value at fault.
        where: the file, line and byte, or the field of a recipe.
        cure: what to do about it; there is always something.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, cure: str) -> None:
        self.what = what
        self.where = where
        self.cure = cure
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        lines.append(f"  cure:  {self.cure}")
        return "\n".join(lines)


class ConfigError(DragomanError):
    """A recipe, an option or an argument is not usable."""

    exit_code = 2


class DataError(DragomanError):
    """A text or a prepared corpus is not usable."""

    exit_code = 3


class CheckpointError(DragomanError):
    """A model bundle or a checkpoint is missing, damaged or of another kind."""

    exit_code = 4


class VocabularyMismatch(CheckpointError):
    """Weights and subwords, or two models, do not belong to the same vocabulary."""


class NonFiniteLoss(DragomanError):
    """Training met a loss or a gradient that is not a number or infinite."""

    exit_code = 5


class MissingDependency(DragomanError):
    """An optional part was asked for whose library is not installed."""

    exit_code = 6


def first_fault(error: ValidationError, whole: str) -> tuple[str, str]:
    """The first field that pydantic refused, and what it should be, in a few words.

    Args:
        error: the report.
        whole: what to call the whole, where no field is at fault.
    """
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or whole
    message = first["msg"].removeprefix("Value error, ")
    return field, message.replace("Input should be", "it should be").replace("Extra inputs are", "it is")
