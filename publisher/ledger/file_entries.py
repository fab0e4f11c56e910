"""Files at the time when a run read them, and their comparison with the present files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from publisher.ledger.durable import digest_of


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a run: its identity, and the result of reading it."""

    path: str
    """Resolved path, which is equal for all spellings and links."""
    bytes: int
    changed: int | None = None
    """Time of the last change of the content in nanoseconds since 1970-01-01 UTC."""
    digest: str | None = None
    """SHA-256 of the content in hex; ``None`` if it is never compared."""
    inode: int | None = None
    touched: int | None = None
    """Time of the last change of content or attributes, which users cannot set."""
    effect: bool = True
    """True if a record was published, superseded, held or rejected; otherwise a copy is harmless."""
    refused: str | None = None
    """Digest of the settings with which all records were rejected, or with which the file was left out as a
    whole; otherwise ``None``."""

    @property
    def is_left_out(self) -> bool:
        """Returns whether no record of the file was read, because the file as a whole does not fit."""
        return self.refused is not None and not self.effect

    @classmethod
    def of(cls, path: Path) -> FileEntry:
        """Describes the present file, without digest."""
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
        """Adds the digest of the present content."""
        return replace(self, digest=_digest(self))

    def is_unchanged(self, now: FileEntry) -> bool:
        """Returns whether the file was neither written nor replaced; its attributes may differ."""
        return (self.bytes, self.changed, self.inode) == (now.bytes, now.changed, now.inode)

    def has_content_of(self, now: FileEntry) -> bool:
        """Returns whether the present file ``now`` has the same content; reads it only if it was touched."""
        if self.bytes != now.bytes:
            return False
        if self.digest is None or (self.is_unchanged(now) and self.touched == now.touched):
            return True
        return _digest(now) == self.digest


@lru_cache(maxsize=1024)  # each poll of ``publish --follow`` compares the same files
def _digest(entry: FileEntry) -> str:
    return digest_of(Path(entry.path))
