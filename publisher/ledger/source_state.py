"""The state of sources between runs: held records, marks of published rows.

While it plans, a run writes the new state of a source as files of any kind into a folder.  The commit of the
run makes these files the state; a discarded run changes no state.  A run that writes no folder for a source
keeps its state; an empty folder is an empty state.  Retention keeps the newest state of each source.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import quote

from publisher.ledger.durable import make_private, sync_folder

STATE = "state"
"""Folder of the states below that of the ledger."""
PUBLISHED_OBJECTS = ""
"""The name in place of a source's for the published states of objects (``object_states``)."""
_LONGEST = 100
"""Maximum characters of a folder's name; longer names of sources are replaced by their digest."""


def folder_of(source: str) -> str:
    """Converts the name of a source to the name of a folder."""
    if source == PUBLISHED_OBJECTS:
        return "%objects"  # a quoted name never has this form
    name = quote(source, safe=" ")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _LONGEST:
        return f"%{hashlib.sha256(source.encode()).hexdigest()}"  # nor this one
    return name


def secure(folder: Path) -> None:
    """Makes all files of a state durable, and readable by their owner only."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o700)
            sync_folder(path)
        else:
            make_private(path)
    folder.chmod(0o700)
    sync_folder(folder)
