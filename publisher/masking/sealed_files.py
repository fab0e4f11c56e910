"""Sealed files: files of masked runs that a later task or run must read as they were.

They are encrypted in chunks, each of which is bound to its number, to its file and to the name of the file:
who can write in the journal can neither exchange chunks nor give one file the name of another.  A process
that reads a file decrypts it into memory, never to disk, where it is found under a path like any other file.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, BinaryIO

from publisher.errors import FatalError
from publisher.masking.masker import Masker, Masking

_KIND = b"\x00XDS sealed "
_MAGIC = _KIND + b"2\r\n\x1a"
"""Version 1 did not bind chunks to their file."""
_ID_BYTES = 16
_IS_SEALED = (
    "is sealed with a masking key: use a job with [masking] and the key of the run that wrote it"
)
_CHUNK = 1 << 20
_LENGTH_BYTES = 4
_NUMBER_BYTES = 8


class _SealedFiles:
    """The sealed files that this process has decrypted, and the masking that opens them."""

    def __init__(self) -> None:
        self.masking: Masking | None = None
        self._opened: dict[str, tuple[tuple[int, int, int], int]] = {}
        """Identity and descriptor of each, by path."""

    def find(self, path: str) -> str:
        """Returns the path of the content."""
        stat = Path(path).stat()
        identity = stat.st_ino, stat.st_size, stat.st_mtime_ns
        known = self._opened.pop(path, None)
        if known is not None and known[0] != identity:
            os.close(known[1])
            known = None
        self._opened[path] = known = known or (identity, self._open(path))
        return f"/proc/self/fd/{known[1]}"

    def _open(self, path: str) -> int:
        if self.masking is None:
            raise FatalError(f"{path} {_IS_SEALED}")
        descriptor = os.memfd_create("sealed", os.MFD_CLOEXEC)
        try:
            with (
                Path(path).open("rb") as file,
                os.fdopen(descriptor, "wb", closefd=False) as content,
            ):
                for chunk in _unseal_chunks(file, self.masking.masker, path):
                    content.write(chunk)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def release(self) -> None:
        """Forgets the contents."""
        while self._opened:
            _, (_, descriptor) = self._opened.popitem()
            os.close(descriptor)


_files = _SealedFiles()


def use_masking(masking: Masking | None) -> None:
    """Sets the masking of this process, which seals the files that it creates, and opens others."""
    _files.masking = masking


def release_contents() -> None:
    """Releases the memory of sealed files; what has been opened remains readable."""
    _files.release()


def content_path(path: str | os.PathLike[str]) -> str:
    """Returns the path at which the content of a file can be opened at once: its own, unless it is sealed.

    Raises:
        FatalError: The file is sealed and damaged, or its key is another one.
        OSError: The file cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        is_sealed = os.read(descriptor, len(_KIND)) == _KIND
    finally:
        os.close(descriptor)
    return _files.find(os.fspath(path)) if is_sealed else os.fspath(path)


def content_size(path: str | os.PathLike[str]) -> int:
    """Returns the number of bytes of the content of a file.  Raises as ``content_path`` does."""
    return Path(content_path(path)).stat().st_size


@contextmanager
def create_private(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Creates a file that only its owner can read, which is sealed in a masked run."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if _files.masking is None:
            yield file
            return
        sealed = _SealedWriter(file, _files.masking.masker, Path(path).name)
        with io.BufferedWriter(sealed, _CHUNK) as target:
            yield target


def open_spill() -> IO[bytes]:
    """Opens a file without a name for intermediate values; in a masked run it is in memory."""
    if _files.masking is None:
        return tempfile.TemporaryFile()
    return os.fdopen(os.memfd_create("spill", os.MFD_CLOEXEC), "w+b")


def linked_name(prefix: str, name: str) -> str:
    """Returns another name for a file, which may be sealed under its own."""
    return f"{prefix}{_OWN_NAME}{_own_name(name)}"


def _own_name(name: str) -> str:
    """Returns the name under which a file was sealed."""
    return name.rpartition(_OWN_NAME)[2]


_OWN_NAME = "~"


def conceal(plain: Mapping[str, object]) -> Mapping[str, object]:
    """Returns plain values for comparisons only: in a masked run their hash."""
    if _files.masking is None:
        return plain
    return {"hash": _files.masking.masker.hash(json.dumps(plain))}


def seal_plain(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns plain values for a description that is not sealed: in a masked run as sealed text."""
    if _files.masking is None:
        return plain
    return {_SEALED: _files.masking.masker.seal_text(json.dumps(plain), _PLAIN)}


def unseal_plain(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Restores values that ``seal_plain`` returned.  Raises ``FatalError`` without their key."""
    sealed = stored.get(_SEALED)
    if not isinstance(sealed, str):
        return stored
    if _files.masking is None:
        raise FatalError(f"a state {_IS_SEALED}")
    plain: Mapping[str, Any] = json.loads(_files.masking.masker.unseal_text(sealed, _PLAIN))
    return plain


_SEALED = "sealed"
_PLAIN = b"plain"


class _SealedWriter(io.RawIOBase):
    """Seals everything that is written, chunk by chunk."""

    def __init__(self, file: IO[bytes], masker: Masker, name: str) -> None:
        self._file = file
        self._masker = masker
        self._size = self._number = 0
        octets = os.fsencode(name)
        length = len(octets).to_bytes(_LENGTH_BYTES)
        self._header = _MAGIC + secrets.token_bytes(_ID_BYTES) + length + octets
        file.write(self._header)

    def writable(self) -> bool:
        """See ``io.RawIOBase``."""
        return True

    def tell(self) -> int:
        """See ``io.RawIOBase``."""
        return self._size

    def write(self, octets: Any) -> int:
        """See ``io.RawIOBase``."""
        chunk = bytes(octets[:_CHUNK])
        if chunk:
            self._seal(chunk)
        self._size += len(chunk)
        return len(chunk)

    def close(self) -> None:
        """Ends the file with an empty chunk, without which it is truncated."""
        if not self.closed:
            self._seal(b"")
        super().close()

    def _seal(self, chunk: bytes) -> None:
        sealed = self._masker.seal(chunk, _place(self._header, self._number))
        self._number += 1
        self._file.write(len(sealed).to_bytes(_LENGTH_BYTES) + sealed)


def _place(header: bytes, number: int) -> bytes:
    """The place to which a chunk is bound."""
    return header + number.to_bytes(_NUMBER_BYTES)


def _unseal_chunks(file: IO[bytes], masker: Masker, path: str) -> Iterator[bytes]:
    """Yields the content of a sealed file.

    Raises ``FatalError`` if chunks are missing, damaged, of another place or of another key."""
    header = _read_header(file, path)
    for number in count():
        length = int.from_bytes(file.read(_LENGTH_BYTES))
        try:
            chunk = masker.unseal(file.read(length), _place(header, number))
        except FatalError as error:
            raise FatalError(f"{path}: {error}") from None
        if not chunk:
            return
        yield chunk


def _read_header(file: IO[bytes], path: str) -> bytes:
    """Reads the header of a sealed file.

    Raises ``FatalError`` if it has another version, or is the header of a file with another name."""
    start = file.read(len(_MAGIC) + _ID_BYTES + _LENGTH_BYTES)
    if not start.startswith(_MAGIC):
        raise FatalError(
            f"{path} is sealed by another version of the program: use that version, or start over"
        )
    name = file.read(int.from_bytes(start[-_LENGTH_BYTES:]))
    if _own_name(Path(path).name) != _own_name(os.fsdecode(name)):
        raise FatalError(
            f"{path} is sealed and was written as {os.fsdecode(name)!r}: restore the file of this name"
        )
    return start + name
