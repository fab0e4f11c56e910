"""The epochs of a job's sources in event ids, which retention does not remove.

A source gets the next epoch if positions that were published name other records: its table is another
one, its log was made again, emptied or restored, or another file has the same record ids.  The next epoch
is durable before a run with it is committed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from publisher.ledger import storage
from publisher.ledger.manifest import Manifest
from publisher.model.event_ids import IdOrigin


@dataclass(frozen=True, slots=True)
class SourceEpoch:
    """The epoch of a source."""

    epoch: int = 1
    since: int = 1
    """Number of the first run that may have published in this epoch."""
    table: str | None = None
    """Identity of the table that was read in this epoch (``database.identity``), if it is known."""
    published: dict[str, int] = field(default_factory=dict)
    """The greatest ``high`` of the positions that were published in this epoch, by ``part``."""

    def next(self, run: int) -> SourceEpoch:
        """The next epoch, which begins with the run of this number."""
        return SourceEpoch(self.epoch + 1, run)


@dataclass(frozen=True, slots=True)
class EpochsOfJob:
    """The epochs of the sources of a job, in the ledger of this folder."""

    root: Path

    def read(self) -> dict[str, SourceEpoch]:
        """The epochs by the names of sources; sources without an entry are in the first."""
        rows = storage.query(
            self.root, "SELECT name, epoch, since, table_identity, published FROM source"
        )
        return {
            name: SourceEpoch(epoch, since, table, json.loads(published))
            for name, epoch, since, table, published in rows
        }

    def numbers(self) -> dict[str, int]:
        """The epochs as manifests, tokens and ``run.json`` have them."""
        return {name: epoch.epoch for name, epoch in self.read().items()}

    def write(self, epochs: Mapping[str, SourceEpoch]) -> None:
        """Writes epochs durably."""
        with storage.transaction(self.root) as connection:
            for name, epoch in epochs.items():
                self.ensure(connection, name)
                _update(connection, name, epoch)

    def ensure(self, connection: sqlite3.Connection, name: str) -> None:
        """Adds a source, unless it is known."""
        connection.execute("INSERT OR IGNORE INTO source (name) VALUES (?)", (name,))

    def note_run(self, connection: sqlite3.Connection, manifest: Manifest) -> None:
        """Notes the tables and the greatest positions that a run has published."""
        before = self.read()
        for number, entry in enumerate(manifest.sources):
            epoch = before.get(entry.name, SourceEpoch())
            if epoch.epoch != entry.origin.epoch:
                continue
            published = dict(epoch.published)
            for result in manifest.results:
                for source, part, _, greatest in result.published:
                    if source == number:
                        published[part] = max(greatest, published.get(part, greatest))
            after = SourceEpoch(epoch.epoch, epoch.since, entry.identity or epoch.table, published)
            if after != epoch or entry.name not in before:
                self.ensure(connection, entry.name)
                _update(connection, entry.name, after)

    def adopt(self, numbers: Mapping[str, int]) -> None:
        """Continues with the epochs of a lost ledger, where they are later than those of this one."""
        epochs = self.read()
        self.write(
            {
                name: SourceEpoch(number)
                for name, number in numbers.items()
                if number > epochs.get(name, SourceEpoch(0)).epoch
            }
        )

    def origins(self, identity: str, sources: Iterable[str]) -> dict[str, IdOrigin]:
        """The origins of event ids in the next run of a job with this identity, by the names of sources."""
        epochs = self.read()
        return {
            name: IdOrigin.of(identity, name, epochs.get(name, SourceEpoch()).epoch)
            for name in sources
        }


def _update(connection: sqlite3.Connection, name: str, epoch: SourceEpoch) -> None:
    connection.execute(
        "UPDATE source SET epoch = ?, since = ?, table_identity = ?, published = ? WHERE name = ?",
        (epoch.epoch, epoch.since, epoch.table, json.dumps(epoch.published), name),
    )
