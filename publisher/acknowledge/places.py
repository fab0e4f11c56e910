"""Finds the table that a run has read, even if its source was renamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.identity import TableOrigin, identity_of
from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError
from publisher.ledger.manifest import Manifest, SourceEntry
from publisher.sources.live.find_table import LiveTable, relation_of


class WrongTableError(FatalError):
    """The job file no longer names the table that a run has read, so no statuses can be written."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A table that a source of the job file names."""

    source: str
    database: DatabaseOptions
    table: str


def find_log(manifest: Manifest, source: int, places: Sequence[LogPlace]) -> LogPlace:
    """Finds the table that a source of a run was read from among those of the job file.

    Looks at the source of the same name first, then at the others: a source may have been renamed.

    Raises:
        WrongTableError: The job file does not have that table.
        UnreachableError: A database does not answer.
    """
    entry = manifest.sources[source]
    for place in _places_in_order(entry, places):
        if _is_same(entry, place):
            return place
    raise wrong_table_error(manifest, source, _explain(entry, places))


def log_of_same_name(manifest: Manifest, source: int, places: Sequence[LogPlace]) -> LogPlace:
    """Returns the table that the source of the same name reads now, whatever its database is.

    Raises ``WrongTableError`` if the job file has no such source.
    """
    entry = manifest.sources[source]
    for place in places:
        if place.source == entry.name:
            return place
    raise wrong_table_error(manifest, source, _explain(entry, places))


def wrong_table_error(manifest: Manifest, source: int, reason: str) -> WrongTableError:
    """Creates the error of a run that cannot be acknowledged, with advice."""
    entry = manifest.sources[source]
    return WrongTableError(
        f"run {manifest.run} was sent, but its statuses cannot be written: source {entry.name} read "
        f"table {entry.table} of {entry.database or 'an unrecorded database'}, and {reason}. "
        "Set that table and database in the job file and start again; or run xds-publisher publish "
        "--accept-database once if the table was copied or moved with its rows; or, if it is gone, "
        f"xds-publisher acknowledge --run {manifest.run} --abandon"
    )


def _places_in_order(entry: SourceEntry, places: Sequence[LogPlace]) -> Iterator[LogPlace]:
    assert entry.table is not None
    of_source = [place for place in places if place.source == entry.name]
    for place in of_source:  # the table that was read, even if the source names another one now
        yield LogPlace(place.source, place.database, entry.table)
    for place in (*of_source, *(place for place in places if place.source != entry.name)):
        if place.table != entry.table or place.source != entry.name:
            yield place


def _is_same(entry: SourceEntry, place: LogPlace) -> bool:
    with Database(place.database) as database:
        try:
            relation = relation_of(database, LiveTable(place.table))
        except FatalError:
            return False  # the table is missing or hidden
        stamp = catalogue_of(database).stamp
        now = TableOrigin(identity_of(database, relation, stamp), database.name)
        return TableOrigin(entry.identity, entry.database).is_same(now)


def _explain(entry: SourceEntry, places: Sequence[LogPlace]) -> str:
    for place in places:
        if place.source == entry.name:
            with Database(place.database) as database:
                return f"the source now reads table {place.table} of {database.name}, which is another table"
    return "no source of the job file reads that table"
