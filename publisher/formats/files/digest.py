"""Digests of inputs: a replay of files with the same digest is the same run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_CHUNK = 4 << 20
_THREADS = 4


def digest_of_file(path: Path) -> str:
    """Computes the SHA-256 of the content, as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of_text(text: str) -> int:
    """Computes a digest of 64 bits, by which a record is recognised."""
    return int.from_bytes(
        hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    )


def digest_of_files(paths: Sequence[Path]) -> str:
    """Computes one digest of the contents and names of files; their directories do not count.

    The whole content counts, because an edit in place may keep the size and time of a file.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        digests = pool.map(digest_of_file, paths)
        lines = sorted(f"{digest} {path.name}" for path, digest in zip(paths, digests, strict=True))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
