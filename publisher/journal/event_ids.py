"""The epochs of a job's sources in event ids, in a file that retention does not remove.

A source gets the next epoch if positions that were published name other records: its table is another
one, its log was made again, emptied or restored, or another file has the same record ids.  The next epoch
is durable before a run with it is committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from publisher.journal.durable import read_versioned_file, write_durably
from publisher.journal.manifest import Manifest
from publisher.model.event_ids import IdOrigin
from publisher.model.plain import restore

_FILE = "event-ids.json"
_FORMAT = 1
_REMEDY = "run `xds-publisher recover -c JOB.toml`, after which all event ids are new"


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

    def after(self, manifest: Manifest, source: int) -> SourceEpoch:
        """This epoch after a run has published records of the source."""
        published = dict(self.published)
        for result in manifest.results:
            for number, part, _, greatest in result.published:
                if number == source:
                    published[part] = max(greatest, published.get(part, greatest))
        return replace(
            self, table=manifest.sources[source].identity or self.table, published=published
        )


def read_epochs(root: Path) -> dict[str, SourceEpoch]:
    """Reads the epochs of a job's sources by their names; sources without an entry are in the first.

    Raises:
        FatalError: The file is damaged, or another version of the program wrote it.
    """

    def decode(content: dict[str, Any]) -> dict[str, SourceEpoch]:
        return {name: restore(SourceEpoch, entry) for name, entry in content["sources"].items()}

    return read_versioned_file(root / _FILE, _FORMAT, decode, _REMEDY) or {}


def write_epochs(root: Path, epochs: Mapping[str, SourceEpoch]) -> None:
    """Writes the epochs durably."""
    write_durably(root / _FILE, _text(epochs))


def epoch_texts_after(root: Path, manifest: Manifest) -> dict[Path, str]:
    """The file and its text after a run has ended; nothing if it stays the same."""
    before = read_epochs(root)
    after = dict(before)
    for number, entry in enumerate(manifest.sources):
        epoch = before.get(entry.name, SourceEpoch())
        if epoch.epoch == entry.origin.epoch:
            after[entry.name] = epoch.after(manifest, number)
    return {} if after == before else {root / _FILE: _text(after)}


def epoch_numbers(root: Path) -> dict[str, int]:
    """The epochs of a job's sources as manifests, tokens and ``run.json`` have them.

    Raises ``FatalError`` as ``read_epochs``."""
    return {name: epoch.epoch for name, epoch in read_epochs(root).items()}


def adopt_epochs(root: Path, numbers: Mapping[str, int]) -> None:
    """Continues with the epochs of a lost journal, where they are later than those of this one."""
    epochs = read_epochs(root)
    later = {
        name: SourceEpoch(number)
        for name, number in numbers.items()
        if number > epochs.get(name, SourceEpoch(0)).epoch
    }
    write_epochs(root, {**epochs, **later})


def origins_of(root: Path, identity: str, sources: Iterable[str]) -> dict[str, IdOrigin]:
    """The origins of event ids in the next run of a job with this identity, by the names of sources.

    Raises ``FatalError`` as ``read_epochs``."""
    epochs = read_epochs(root)
    return {
        name: IdOrigin.of(identity, name, epochs.get(name, SourceEpoch()).epoch) for name in sources
    }


def _text(epochs: Mapping[str, SourceEpoch]) -> str:
    sources = {name: asdict(epoch) for name, epoch in epochs.items()}
    return json.dumps({"format": _FORMAT, "sources": sources}, ensure_ascii=False) + "\n"
