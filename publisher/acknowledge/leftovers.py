"""Rows of live logs that stay N after a run.

A held row waits for its event time, and a rejected row without a usable record_id cannot get a status.  The
next poll reads both again.  A job remembers these rows, so that it neither plans a run for them at every poll
nor reports a reject more than once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.acknowledge.reasons import written_id
from publisher.errors import FatalError
from publisher.journal.durable import read_versioned_file, write_durably
from publisher.journal.lane_result import LaneNames
from publisher.journal.manifest import Journal, Manifest
from publisher.journal.source_state import PUBLISHED_OBJECTS
from publisher.model.change import Outcome, Reason
from publisher.sources.files.digest import digest_of_text

FORMAT = 1
_FILE = "leftovers.json"
_HELD = ("part", "high", "schema", "table", "key", "event_type", "event_time", "columns")
"""Columns that identify a held row."""
_COLUMNS = [*_HELD, "source", "outcome", "reason", "raw"]
_ALL_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Rows of one source that stay N."""

    held: str = ""
    """Digest of the held rows in any order; empty if no row is held."""
    reported: frozenset[int] = frozenset()
    """Digests of the raw records of rejected rows without a usable record id."""


def read_leftovers(root: Path) -> dict[str, Leftovers]:
    """Reads the rows that stay N after the last run of a job, by source.

    Raises:
        FatalError: The file is damaged, or another version of the program wrote it.
    """

    def decode(content: dict[str, Any]) -> dict[str, Leftovers]:
        return {
            name: Leftovers(entry["held"], frozenset(int(n, 16) for n in entry["reported"]))
            for name, entry in content["sources"].items()
        }

    remedy = "remove it: rejected rows that stay N are then reported once more"
    return read_versioned_file(root / _FILE, FORMAT, decode, remedy) or {}


def write_leftovers(root: Path, leftovers: Mapping[str, Leftovers]) -> None:
    """Writes the leftovers durably if they changed."""
    present = {name: rows for name, rows in sorted(leftovers.items()) if rows != Leftovers()}
    if present == read_leftovers(root):
        return
    sources = {
        name: {"held": rows.held, "reported": sorted(f"{n:016x}" for n in rows.reported)}
        for name, rows in present.items()
    }
    write_durably(root / _FILE, json.dumps({"format": FORMAT, "sources": sources}) + "\n")


def leftovers_of(journal: Journal, manifest: Manifest, source: int) -> Leftovers:
    """Finds the rows of one source that stay N after a run, planned or committed.

    Raises:
        FatalError: A file of the journal cannot be read.
    """
    if not _may_stay(manifest, source):
        return Leftovers()
    held, count, reported = 0, 0, set[int]()
    for row in _rows(journal, manifest, source):
        if row["outcome"] == Outcome.HELD:
            held = held + digest_of_text(repr([row[name] for name in _HELD])) & _ALL_BITS
            count += 1
        elif written_id(row["raw"]) is None:
            reported.add(digest_of_text(row["raw"] or ""))
    return Leftovers(f"{count}:{held:016x}" if count else "", frozenset(reported))


def _may_stay(manifest: Manifest, source: int) -> bool:
    return any(
        count.source == source
        and (count.outcome in (Outcome.HELD, Outcome.REJECTED) or count.reason == Reason.REPORTED)
        for result in manifest.results
        for count in result.counts
    )


def _rows(journal: Journal, manifest: Manifest, source: int) -> Iterator[dict[str, Any]]:
    """Reads the rows of a source that are held, or rejected without a record id."""
    for result in manifest.results:
        name = LaneNames(result.lane).decisions
        staged, final = result.folder(journal.staging) / name, journal.root / name
        try:
            file = pq.ParquetFile(final if final.exists() else staged)
            for batch in file.iter_batches(columns=_COLUMNS, use_threads=False):
                yield from batch.filter(_stays_new(batch, source)).to_pylist()
        except (OSError, pa.ArrowInvalid) as error:
            raise FatalError(
                f"{final} of the journal cannot be read ({error}): restore it"
            ) from error


def _stays_new(batch: pa.RecordBatch, source: int) -> pa.Array:
    outcome, of_source = batch["outcome"], pc.equal(batch["source"], source)
    without_id = pc.not_equal(pc.fill_null(batch["part"], ""), "")
    was_reported = pc.fill_null(pc.equal(batch["reason"], str(Reason.REPORTED)), False)
    rejected = pc.or_(pc.equal(outcome, int(Outcome.REJECTED)), was_reported)
    return pc.and_(
        of_source, pc.or_(pc.equal(outcome, int(Outcome.HELD)), pc.and_(without_id, rejected))
    )


def has_nothing_new(
    journal: Journal, manifest: Manifest, live: Collection[str], earlier: Mapping[str, Leftovers]
) -> bool:
    """Returns whether a planned run has read only rows that stayed N after earlier runs.

    ``live`` are the names of the sources whose rows get statuses.
    """
    states = {*manifest.states} - {PUBLISHED_OBJECTS}
    if states or any(result.documents for result in manifest.results):
        return False
    if any(entry.files for entry in manifest.sources):
        return False
    held = set()
    for result in manifest.results:
        for count in result.counts:
            if manifest.sources[count.source].name not in live:
                return False
            if count.outcome == Outcome.HELD:
                held.add(count.source)
            elif count.reason != Reason.REPORTED:
                return False
    return all(
        leftovers_of(journal, manifest, source).held
        == earlier.get(manifest.sources[source].name, Leftovers()).held
        for source in held
    )
