"""Files as they were when a run read them, and whether they still are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file that was read: its identity, and the result of reading it."""

    path: str
    """Resolved: the same for every spelling of the path and through links."""
    bytes: int
    changed: int | None = None
    """Time of the last change of the content in nanoseconds since 1970-01-01 UTC."""
    digest: str | None = None
    """SHA-256 of the content in hex; ``None`` where nobody will ask."""
    inode: int | None = None
    touched: int | None = None
    """Time of the last change of content or attributes; nobody can set it."""
    effect: bool = True
    """Whether a record was published, superseded, held or rejected; else a copy changes nothing."""
    refused: str | None = None
    """Digest of the settings with which all records were rejected; ``None`` where not all were."""

    @classmethod
    def of(cls, path: Path) -> FileEntry:
        """A file as it is now, without digest."""
        resolved = path.resolve()
        stat = resolved.stat()
        return cls(
            str(resolved),
            stat.st_size,
            stat.st_mtime_ns,
            inode=stat.st_ino,
            touched=stat.st_ctime_ns,
        )

    def with_digest(self) -> FileEntry:
        """The same with the digest of what is in the file now."""
        return replace(self, digest=_digest(self))

    def is_unchanged(self, now: FileEntry) -> bool:
        """Whether the file was not written to or replaced meanwhile; its attributes may differ."""
        return (self.bytes, self.changed, self.inode) == (now.bytes, now.changed, now.inode)

    def is_as_published(self, now: FileEntry) -> bool:
        """Whether the file has the same content ``now``; one that was not touched is not looked into."""
        if self.bytes != now.bytes:
            return False
        if self.digest is None or (self.is_unchanged(now) and self.touched == now.touched):
            return True
        return _digest(now) == self.digest


@lru_cache(maxsize=1024)  # who follows asks again at each poll
def _digest(entry: FileEntry) -> str:
    with Path(entry.path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
