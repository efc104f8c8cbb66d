"""Directories written whole or not at all: a temporary sibling, every file synced, one rename.

Paper: none (infrastructure)
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from dragoman.errors import DataError


def sync_file(path: Path) -> None:
    """Make the bytes of one file durable."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def sync_directory(path: Path) -> None:
    """Make the names in one directory durable (a no-op where directories cannot be opened)."""
    with suppress(PermissionError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """Make every file under `directory`, then the directories themselves, durable."""
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            sync_file(Path(folder, name))
        sync_directory(Path(folder))


@contextmanager
def only_one(directory: Path) -> Iterator[bool]:
    """Holds a directory as long as the block runs, against others that do the same.

    Nothing is left in it, whatever ends the process.

    Yields:
        Whether it is held: Windows and some file systems have no such locks.

    Raises:
        DataError: another process holds it.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        held = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"another process is at work in {directory}",
                cure="wait until it has ended, or choose another directory",
            ) from None
        except OSError:  # a file system without locks
            held = False
        yield held
    finally:
        os.close(descriptor)


@contextmanager
def whole_directory(final: Path) -> Iterator[Path]:
    """Give a temporary sibling of `final` to write into; rename it to `final` when the block ends well.

    What stood at `final` before (nothing, an empty directory, or a directory the caller has allowed to be
    replaced) is untouched until everything new is on disk, and comes back if the last rename fails. On any
    error, Ctrl-C included, the temporary directory is removed. Whether `final` may be replaced is for the
    caller to check first.

    Args:
        final: the directory to make; a link to a directory is followed, missing parents are made.

    Yields:
        The temporary directory.

    Raises:
        DataError: writing failed (disk full, no permission); nothing is left behind.
    """
    final = final.resolve()
    temporary = final.parent / f".{final.name}.partial-{secrets.token_hex(4)}"
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_over(final)
        temporary.mkdir()
        with only_one(temporary):
            yield temporary
            sync_tree(temporary)
            _exchange(temporary, final)
        sync_directory(final.parent)
    except OSError as error:
        raise _cannot_write(error, final, temporary) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_directory(directory: Path) -> None:
    """Takes its name first, so that no moment shows a part of it under that name; a kill leaves it as `.NAME.old-...`.

    What cannot be removed is left, with the new name or the old one.
    """
    old = directory.with_name(f".{directory.name}.old-{secrets.token_hex(4)}")
    with suppress(OSError):
        directory.rename(old)
        shutil.rmtree(old, ignore_errors=True)


def _remove_left_over(final: Path) -> None:
    """Removes what a killed process left of an earlier try; one that still writes holds its directory."""
    for path in final.parent.glob(f".{escape(final.name)}.partial-*"):
        with suppress(DataError, OSError), only_one(path) as held:
            if held:
                shutil.rmtree(path, ignore_errors=True)


def _exchange(temporary: Path, final: Path) -> None:
    """Put `temporary` in the place of `final`; what stood there is removed only after that."""
    old = temporary.with_name(temporary.name.replace(".partial-", ".old-"))
    had_old = final.exists()
    if had_old:
        final.rename(old)
    try:
        temporary.rename(final)
    except BaseException:
        if had_old:
            old.rename(final)
        raise
    if had_old:
        shutil.rmtree(old, ignore_errors=True)


def _cannot_write(error: OSError, final: Path, temporary: Path) -> DataError:
    reason = error.strerror or str(error)
    place = str(error.filename or final).replace(str(temporary), str(final))
    in_the_way = error.errno in (errno.EEXIST, errno.ENOTDIR)  # on the way to it, not in its place
    return DataError(
        f"cannot write the directory: {'this is a file' if in_the_way else reason}",
        where=place,
        cure=f"{'' if in_the_way else 'free space or '}choose another place; nothing was left behind",
    )
