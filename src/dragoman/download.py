"""Fetching a public data set: only when asked to, over https, each file checked against a pinned SHA-256.

Paper: none (infrastructure)
"""

from __future__ import annotations

import hashlib
import http.client
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import DataError
from dragoman.text.lines import replacing

TIMEOUT_SECONDS = 30.0
_BLOCK = 1 << 16
_ELSEWHERE = "or put the files where DRAGOMAN_DATA points to, as multi30k/raw/"


@dataclass(frozen=True)
class RemoteFile:
    """One file: its name, SHA-256, and size in bytes, more than which is never read."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class DataSet:
    """A public data set.

    Attributes:
        address: where the files are; a name is added to it.
        notice: what is fetched, and under which terms; said before anything is.
        files: what to fetch.
    """

    address: str
    notice: str
    files: tuple[RemoteFile, ...]


MULTI30K = DataSet(
    address="https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/",
    notice=(
        "fetching Multi30k English-German (Elliott et al. 2016, arXiv:1605.00459), captions of Flickr30k images with "
        "translations: for research and education; see the terms of Multi30k and Flickr30k before any other use"
    ),
    files=(
        RemoteFile("train.en.gz", "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f", 568929),
        RemoteFile("train.de.gz", "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6", 637044),
        RemoteFile("val.en.gz", "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28", 21650),
        RemoteFile("val.de.gz", "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a", 24681),
        RemoteFile(
            "test_2016_flickr.en.gz",
            "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
            21077,
        ),
        RemoteFile(
            "test_2016_flickr.de.gz",
            "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
            22890,
        ),
    ),
)


def fetch_files(
    data: DataSet, directory: Path, *, say: Callable[[str], None], address: str | None = None
) -> list[Path]:
    """Fetches the files that are not there yet.

    Args:
        data: what to fetch.
        directory: where to put it.
        say: told of each file.
        address: another place that has the same files.

    Returns:
        The files, in the order of the data set; each has its pinned SHA-256.

    Raises:
        DataError: a file cannot be fetched, is too long, or is another one; nothing of it is kept.
    """
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for file in data.files:
        path = directory / file.name
        if not path.is_file() or _sha256(path.read_bytes()) != file.sha256:
            say(f"fetching {file.name}")
            _fetch(file, (address or data.address) + file.name, path)
        paths.append(path)
    return paths


def _fetch(file: RemoteFile, url: str, path: Path) -> None:
    content = _read(url, file)
    if len(content) < file.bytes:
        raise DataError(
            f"{file.name} was cut: {len(content):,} of {file.bytes:,} bytes came",
            where=url,
            cure=f"try again, {_ELSEWHERE}",
        )
    found = _sha256(content)
    if found != file.sha256:
        raise DataError(
            f"{file.name} is not the file that was pinned: its SHA-256 is {found}",
            where=url,
            cure=f"try again later, {_ELSEWHERE}",
        )
    with replacing(path) as stream:
        stream.write(content)


def _read(url: str, file: RemoteFile) -> bytes:
    content = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            while block := answer.read(_BLOCK):
                content += block
                if len(content) > file.bytes:
                    raise DataError(
                        f"{file.name} is longer than the {file.bytes:,} bytes it should have",
                        where=url,
                        cure=f"try again later, {_ELSEWHERE}",
                    )
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DataError(
            f"{file.name} cannot be fetched: {error or type(error).__name__}",
            where=url,
            cure=f"check the connection, {_ELSEWHERE}",
        ) from None
    return bytes(content)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
