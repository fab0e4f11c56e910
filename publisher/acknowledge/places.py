"""Finds the table that a run has read, even if its source was renamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.identity import Verdict, compare, identity_of
from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError
from publisher.journal.manifest import Manifest, SourceEntry
from publisher.sources.live.find_table import LiveTable, relation_of


class WrongTableError(FatalError):
    """The job file no longer names the table that a run has read, so no statuses can be written."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A table that a source of the job file names."""

    source: str
    database: DatabaseOptions
    table: str


@dataclass(frozen=True, slots=True)
class LogTarget:
    """The table to write statuses into."""

    place: LogPlace
    verdict: Verdict
    """``UNKNOWN``: the rows still have to prove that it is the table of the run."""


def find_log(manifest: Manifest, source: int, places: Sequence[LogPlace]) -> LogTarget:
    """Finds the table that a source of a run was read from among those of the job file.

    Looks at the source of the same name first, then at the others: a source may have been renamed.

    Raises:
        WrongTableError: The job file does not have that table.
        UnreachableError: A database does not answer.
    """
    entry = manifest.sources[source]
    unproved: LogTarget | None = None
    for place in _places_in_order(entry, places):
        verdict = _verdict(entry, place)
        if verdict is Verdict.SAME:
            return LogTarget(place, verdict)
        fits = entry.name == place.source or entry.table == place.table
        if verdict is Verdict.UNKNOWN and fits and unproved is None:
            unproved = LogTarget(place, verdict)
    if unproved is not None:
        return unproved
    raise wrong_table_error(manifest, source, _explain(entry, places))


def log_of_same_name(manifest: Manifest, source: int, places: Sequence[LogPlace]) -> LogTarget:
    """Returns the table that the source of the same name reads now, without a check of its identity.

    Raises ``WrongTableError`` if the job file has no such source.
    """
    entry = manifest.sources[source]
    for place in places:
        if place.source == entry.name:
            return LogTarget(place, Verdict.SAME)
    raise wrong_table_error(manifest, source, _explain(entry, places))


def wrong_table_error(manifest: Manifest, source: int, reason: str) -> WrongTableError:
    """Creates the error of a run that cannot be acknowledged, with advice."""
    entry = manifest.sources[source]
    return WrongTableError(
        f"run {manifest.run} was sent, but its statuses cannot be written: source {entry.name} read "
        f"table {entry.table} of {entry.database or 'an unrecorded database'}, and {reason}. "
        "Set that table and database in the job file and start again; or run xds-publisher "
        f"acknowledge --run {manifest.run} with --by-rows if the table was copied or moved with its "
        "rows, or with --abandon if it is gone"
    )


def _places_in_order(entry: SourceEntry, places: Sequence[LogPlace]) -> Iterator[LogPlace]:
    assert entry.table is not None
    of_source = [place for place in places if place.source == entry.name]
    for place in of_source:  # the table that was read, even if the source names another one now
        yield LogPlace(place.source, place.database, entry.table)
    for place in (*of_source, *(place for place in places if place.source != entry.name)):
        if place.table != entry.table or place.source != entry.name:
            yield place


def _verdict(entry: SourceEntry, place: LogPlace) -> Verdict:
    with Database(place.database) as database:
        try:
            relation = relation_of(database, LiveTable(place.table))
        except FatalError:
            return Verdict.OTHER  # the table is missing or hidden
        stamp = catalogue_of(database).stamp
        return compare(entry.identity, identity_of(database, relation, stamp))


def _explain(entry: SourceEntry, places: Sequence[LogPlace]) -> str:
    for place in places:
        if place.source == entry.name:
            with Database(place.database) as database:
                return f"the source now reads table {place.table} of {database.name}, which is another table"
    return "no source of the job file reads that table"
