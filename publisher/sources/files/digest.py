"""The identity of an input: what makes a replay of the same files the same run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_CHUNK = 4 << 20
_THREADS = 4


def digest_of_file(path: Path) -> str:
    """SHA-256 of the content, as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of_text(text: str) -> int:
    """64 bits of a digest of a text, to know a record again."""
    return int.from_bytes(
        hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    )


def digest_of_files(paths: Sequence[Path]) -> str:
    """One digest of the contents and names of files, wherever they lie.

    The whole content counts: size and time of a file that is edited in place may stay the same.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        digests = pool.map(digest_of_file, paths)
        lines = sorted(f"{digest} {path.name}" for path, digest in zip(paths, digests, strict=True))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
