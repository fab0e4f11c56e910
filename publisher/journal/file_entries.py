"""Files as they were when a run read them, and whether they still are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file that was read: its bytes, when it was last written to, what was in it."""

    path: str
    bytes: int
    changed: int | None = None
    """Time of the last change in nanoseconds since 1970-01-01 UTC."""
    digest: str | None = None
    """SHA-256 of the content in hex; ``None`` where nobody will ask."""

    @classmethod
    def of(cls, path: Path) -> FileEntry:
        """A file as it is now, without digest."""
        stat = path.stat()
        return cls(str(path), stat.st_size, stat.st_mtime_ns)

    def with_digest(self) -> FileEntry:
        """The same with the digest of what is in the file now."""
        return replace(self, digest=_digest(self))

    def is_as_published(self, now: FileEntry) -> bool:
        """Whether the file has the same content ``now``; one that was not touched is not looked into."""
        if self.bytes != now.bytes:
            return False
        if self.digest is None or self.changed == now.changed:
            return True
        return _digest(now) == self.digest


@lru_cache(maxsize=1024)  # who follows asks again at each poll
def _digest(entry: FileEntry) -> str:
    with Path(entry.path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
