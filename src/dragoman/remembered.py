"""A choice that was measured on this machine once, kept in the user's cache.

Paper: none (infrastructure)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from dragoman.native.build import cache_directory


def remembered(
    kind: str, facts: tuple[object, ...], *, valid: Callable[[str], bool], measure: Callable[[], str]
) -> str:
    """What was measured under these facts before; measured now, and written down, where it is not known.

    Where nothing can be written it is measured anew each time.

    Args:
        kind: begins the file's name.
        facts: what the choice depends on.
        valid: whether what a file says can be a choice: a damaged one is measured anew.
        measure: finds it.
    """
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    place = cache_directory() / f"{kind}-{digest}"
    known = _read(place)
    if known is not None and valid(known):
        return known
    found = measure()
    _write(place, found)
    return found


def _read(place: Path) -> str | None:
    try:
        return place.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None


def _write(place: Path, found: str) -> None:
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.write_text(found, encoding="ascii")
    except OSError:
        return  # it is measured again next time
