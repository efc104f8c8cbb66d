"""Reading Zstandard files to their real end: several frames in a row, and a cut file is an error.

Paper: none (infrastructure)

The library's own stream reader takes a file that was cut in the middle of a frame for one that ends there,
which would lose lines in silence.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, cast

import zstandard

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_READ_BYTES = 1 << 17


class _ZstdReader(io.RawIOBase):
    """Decompresses frame after frame; owns the compressed stream."""

    def __init__(self, compressed: BinaryIO) -> None:
        super().__init__()
        self._compressed = compressed
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._unread = b""  # compressed bytes after the end of a frame
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._compressed.close()
        super().close()

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._ready:
            if not self._more():
                return 0
        size = min(len(view), len(self._ready))
        view[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _more(self) -> bool:
        """Decompress the next piece; False at a clean end."""
        compressed = self._unread or self._compressed.read(_READ_BYTES)
        self._unread = b""
        if not compressed:
            if self._frame is not None:
                raise EOFError("it ends in the middle of a frame")
            return False
        if self._frame is None:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._ready = memoryview(self._frame.decompress(compressed))
        if self._frame.eof:
            self._unread, self._frame = self._frame.unused_data, None
        return True


def open_zstd(compressed: BinaryIO) -> BinaryIO:
    """The decompressed content of an open Zstandard stream, as a buffered binary stream.

    Raises:
        zstandard.ZstdError: while reading, when the bytes are no Zstandard frame or are damaged.
        EOFError: while reading, when the last frame is cut.
    """
    return cast(BinaryIO, io.BufferedReader(_ZstdReader(compressed), buffer_size=_READ_BYTES))
