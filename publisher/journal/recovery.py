"""The documents of a recovery run that a sink may have already, as its record of them in the journal.

After a journal was lost, a recovery run plans everything again that waits.  An object of which the sink
has a waiting record is sent again completely, marked; all other objects are sent exactly once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from publisher.errors import FatalError
from publisher.journal.decisions import PositionText
from publisher.journal.durable import read_versioned, sync_folder, write_durably
from publisher.journal.manifest import Manifest
from publisher.journal.waiting_records import WaitingIds, documents_found

RECOVERY = "recovery.json"
RECOVERY_FORMAT = 1
_RECOVERING = "recovering"
_REMEDY = "remove it and run `xds-publisher recover -c JOB.toml` again"


@dataclass(frozen=True, slots=True)
class RecoveredDocuments:
    """The documents of a run, by lane, whose objects the sink may have already."""

    plan: str
    """See ``Manifest``."""
    lanes: Mapping[int, frozenset[int]]

    def of_lane(self, lane: int) -> frozenset[int]:
        """The numbers of these documents in a lane."""
        return self.lanes.get(lane, frozenset())

    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.lanes.values()))

    def write(self, root: Path) -> None:
        """Writes it durably into a journal's folder."""
        lanes = {lane: sorted(numbers) for lane, numbers in self.lanes.items()}
        content = {"format": RECOVERY_FORMAT, "plan": self.plan, "lanes": lanes}
        write_durably(root / RECOVERY, json.dumps(content) + "\n")


def read_recovered(root: Path, manifest: Manifest) -> RecoveredDocuments | None:
    """Reads the record of a recovery run; ``None`` where a run is no recovery.

    Raises:
        FatalError: It is damaged, belongs to another plan, or another version of the program wrote it.
    """

    def decode(content: dict[str, Any]) -> RecoveredDocuments:
        lanes = {int(lane): frozenset(numbers) for lane, numbers in content["lanes"].items()}
        return RecoveredDocuments(content["plan"], lanes)

    path = root / RECOVERY
    documents = read_versioned(path, RECOVERY_FORMAT, decode, _REMEDY)
    if documents is not None and documents.plan != manifest.plan:
        raise FatalError(f"{path} belongs to another plan of the run: {_REMEDY}")
    return documents


def begin_recovery(root: Path) -> None:
    """Notes in a job's journal directory that nothing else than a recovery may publish."""
    write_durably(root / _RECOVERING, "")


def end_recovery(root: Path) -> None:
    """Takes the note away."""
    (root / _RECOVERING).unlink(missing_ok=True)
    sync_folder(root)


def is_recovering(root: Path) -> bool:
    """Whether a recovery has begun that has not ended."""
    return (root / _RECOVERING).exists()


def refuse_interrupted_recovery(root: Path) -> None:
    """Raises ``FatalError`` where a recovery has not ended."""
    if is_recovering(root):
        raise FatalError(
            f"a recovery in {root} was interrupted: run `xds-publisher recover -c JOB.toml` again"
        )


def recovered_documents(
    journal: Path,
    manifest: Manifest,
    texts: Sequence[PositionText | None],
    waiting: WaitingIds,
    folder: Path,
) -> RecoveredDocuments:
    """Finds the documents of all objects of which the sink has a record, or whose records cannot be
    found by their ids.  ``folder`` is for files of its own."""
    lanes = {}
    for lane in range(manifest.lanes):
        if documents := documents_found(journal, lane, texts, waiting, folder):
            lanes[lane] = documents
    return RecoveredDocuments(manifest.plan, lanes)
