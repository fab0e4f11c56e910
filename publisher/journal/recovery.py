"""The documents of a recovery run that the sink may have already.

After the loss of a journal, a recovery run plans all waiting records again.  If the sink may
already have one of these records, all documents of its object are sent again with a mark; the documents of
other objects are sent exactly once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from publisher.errors import FatalError
from publisher.journal.durable import read_versioned_file, sync_folder, write_durably
from publisher.journal.manifest import Manifest

if TYPE_CHECKING:
    from publisher.journal.decisions import PositionText
    from publisher.journal.waiting_records import WaitingIds

RECOVERY = "recovery.json"
RECOVERY_FORMAT = 1
_RECOVERING = "recovering"
_REMEDY = "remove it and run `xds-publisher recover -c JOB.toml` again"


@dataclass(frozen=True, slots=True)
class RecoveredDocuments:
    """The documents of a run that the sink may have already, by lane."""

    plan: str
    """Digest of the plan (``Manifest.plan``)."""
    lanes: Mapping[int, frozenset[int]]

    def of_lane(self, lane: int) -> frozenset[int]:
        """The numbers of the documents in a lane."""
        return self.lanes.get(lane, frozenset())

    def count(self) -> int:
        """The number of documents in all lanes."""
        return sum(map(len, self.lanes.values()))

    def write(self, root: Path) -> None:
        """Writes the numbers durably into a journal's folder."""
        lanes = {lane: sorted(numbers) for lane, numbers in self.lanes.items()}
        content = {"format": RECOVERY_FORMAT, "plan": self.plan, "lanes": lanes}
        write_durably(root / RECOVERY, json.dumps(content) + "\n")


def read_recovery(root: Path, manifest: Manifest) -> RecoveredDocuments | None:
    """Reads the documents of a recovery run that the sink may have already; ``None`` for other runs.

    Raises:
        FatalError: The file is damaged, belongs to another plan, or another version of the program wrote it.
    """

    def decode(content: dict[str, Any]) -> RecoveredDocuments:
        lanes = {int(lane): frozenset(numbers) for lane, numbers in content["lanes"].items()}
        return RecoveredDocuments(content["plan"], lanes)

    path = root / RECOVERY
    documents = read_versioned_file(path, RECOVERY_FORMAT, decode, _REMEDY)
    if documents is not None and documents.plan != manifest.plan:
        raise FatalError(f"{path} belongs to another plan of the run: {_REMEDY}")
    return documents


def begin_recovery(root: Path) -> None:
    """Marks a job's journal directory, so that only a recovery may publish."""
    write_durably(root / _RECOVERING, "")


def end_recovery(root: Path) -> None:
    """Removes the mark of ``begin_recovery``."""
    (root / _RECOVERING).unlink(missing_ok=True)
    sync_folder(root)


def is_recovering(root: Path) -> bool:
    """Returns whether a recovery has begun and not ended."""
    return (root / _RECOVERING).exists()


def refuse_interrupted_recovery(root: Path) -> None:
    """Raises ``FatalError`` if a recovery has not ended."""
    if is_recovering(root):
        raise FatalError(
            f"a recovery in {root} was interrupted: run `xds-publisher recover -c JOB.toml` again"
        )


def find_recovered_documents(
    journal: Path,
    manifest: Manifest,
    texts: Sequence[PositionText | None],
    waiting: WaitingIds,
    folder: Path,
) -> RecoveredDocuments:
    """Finds the documents that the sink may have already.

    These are all documents of an object if the sink has one of its records, or if the id of one of its
    records differs between runs.

    ``folder`` is for temporary files."""
    from publisher.journal.waiting_records import find_documents  # noqa: PLC0415 - for recoveries

    lanes = {}
    for lane in range(manifest.lanes):
        if documents := find_documents(journal, lane, texts, waiting, folder):
            lanes[lane] = documents
    return RecoveredDocuments(manifest.plan, lanes)
