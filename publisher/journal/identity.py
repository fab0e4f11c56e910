"""The identity of a job: random text that its journal directory gets when it is created.

Manifests, tokens and ``run.json`` contain it.  A sink with progress of another identity was written
from another journal: two jobs share a name, or the journal directory was lost and created again.
"""

from __future__ import annotations

import json
import secrets
from functools import lru_cache
from pathlib import Path
from typing import Any

from publisher.errors import FatalError
from publisher.journal.durable import read_versioned_file, sync_folder, write_durably
from publisher.journal.lock import lock_directory
from publisher.journal.manifest import JOURNAL_FORMAT

_MOVE_AWAY = (
    "move the directory away once its runs are finished, and start again (for Kafka with "
    "`xds-publisher recover -c JOB.toml`)"
)
IDENTITY = "job.json"
"""File with the identity, and with the format version of all files in a job's journal directory."""
_NOT_OURS = frozenset({"lock", "follow.lock", f"{IDENTITY}.new"})
"""Files that may exist in a directory that no job has used yet."""


def open_identity(root: Path) -> str:
    """Reads the identity of a job's journal directory; creates directory and identity if missing.

    Raises:
        FatalError: Another version of the program wrote the directory, or it is damaged.
    """
    with lock_directory(root, wait=True):
        identity = read_identity(root)
        if identity is None:
            identity = secrets.token_hex(16)
            _write_identity(root, identity)
    return identity


def adopt_identity(root: Path, identity: str) -> None:
    """Gives a job's journal directory the identity of the lost one; creates it if it is missing."""
    with lock_directory(root, wait=True):
        if read_identity(root) != identity:
            _write_identity(root, identity)


def _write_identity(root: Path, identity: str) -> None:
    content = {"format": JOURNAL_FORMAT, "identity": identity}
    write_durably(root / IDENTITY, json.dumps(content) + "\n")
    for folder in (root.parent, root.parent.parent):
        sync_folder(folder)


def read_identity(root: Path) -> str | None:
    """Reads the identity of a job's journal directory; ``None`` if no job has used it yet.

    Raises:
        FatalError: Another version of the program wrote the directory, or it is damaged.
    """
    path = root / IDENTITY
    try:
        stat = path.stat()
    except FileNotFoundError:
        if root.is_dir() and {entry.name for entry in root.iterdir()} - _NOT_OURS:
            raise FatalError(
                f"{path} is missing: {root} was written by an earlier version of this program, or "
                f"its files were changed by another program; restore the file, or {_MOVE_AWAY}"
            ) from None
        return None
    return _read(path, (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=8)
def _read(path: Path, version: tuple[int, ...]) -> str | None:  # noqa: ARG001 - part of the key
    """Reads each version of the file once: an instance compares the identity several times in a poll."""
    return read_versioned_file(path, JOURNAL_FORMAT, _decode, _MOVE_AWAY)


def _decode(content: dict[str, Any]) -> str:
    identity = content["identity"]
    if not isinstance(identity, str) or not identity:
        raise ValueError(identity)
    return identity
