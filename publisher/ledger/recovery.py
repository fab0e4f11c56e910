"""The documents of a recovery run that the sink may have already.

After the loss of a ledger, a recovery run plans all waiting records again.  If the sink may
already have one of these records, all documents of its object are sent again with a mark; the documents of
other objects are sent exactly once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from publisher.errors import FatalError
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun

RECOVERY = "recovery"
RECOVERY_FORMAT = 1
_REMEDY = "run `xds-publisher recover -c JOB.toml` again"


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

    def write(self, run: LedgerRun) -> None:
        """Stores the numbers durably with the run."""
        lanes = {lane: sorted(numbers) for lane, numbers in self.lanes.items()}
        content = {"format": RECOVERY_FORMAT, "plan": self.plan, "lanes": lanes}
        run.write_text(RECOVERY, json.dumps(content))


def read_recovery(run: LedgerRun, manifest: Manifest) -> RecoveredDocuments | None:
    """Reads the documents of a recovery run that the sink may have already; ``None`` for other runs.

    Raises:
        FatalError: The file is damaged, belongs to another plan, or another version of the program wrote it.
    """

    def decode(content: dict[str, Any]) -> RecoveredDocuments:
        lanes = {int(lane): frozenset(numbers) for lane, numbers in content["lanes"].items()}
        return RecoveredDocuments(content["plan"], lanes)

    documents = run.decode(RECOVERY, RECOVERY_FORMAT, decode, _REMEDY)
    if documents is not None and documents.plan != manifest.plan:
        raise FatalError(f"the recovery of run {manifest.run} belongs to another plan: {_REMEDY}")
    return documents
