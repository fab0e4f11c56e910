"""Finds the table that a run has read, to write the statuses of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.identity import TableOrigin, identity_of
from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError
from publisher.formats.live.find_table import LiveTable, relation_of
from publisher.ledger.manifest import Manifest, SourceEntry


class WrongTableError(FatalError):
    """The job file no longer names the table that a run has read, so no statuses can be written."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A table that a source of the job file names."""

    source: str
    database: DatabaseOptions
    table: str


def find_log(manifest: Manifest, source: int, place: LogPlace | None) -> LogPlace:
    """Finds the table that a source of a run was read from: under its name at that time, or the present one.

    ``place`` is the table that the source of this name reads now.

    Raises:
        WrongTableError: It is another table, or the job file has no such source.
        UnreachableError: A database does not answer.
    """
    entry = manifest.sources[source]
    assert entry.table is not None
    if place is None:
        raise _wrong_table_error(manifest, entry, "no source of the job file has this name")
    for log in dict.fromkeys([replace(place, table=entry.table), place]):
        if _is_same(entry, log):
            return log
    with Database(place.database) as database:
        reason = (
            f"the source now reads table {place.table} of {database.name}, which is another table"
        )
    raise _wrong_table_error(manifest, entry, reason)


def _wrong_table_error(manifest: Manifest, entry: SourceEntry, reason: str) -> WrongTableError:
    """Creates the error of a run that cannot be acknowledged, with advice."""
    return WrongTableError(
        f"run {manifest.run} was sent, but its statuses cannot be written: source {entry.name} read "
        f"table {entry.table} of {entry.database or 'an unrecorded database'}, and {reason}. "
        "Set that table and database in the job file and start again; or run xds-publisher publish "
        "--accept-database once if the table was copied or moved with its rows; or, if it is gone, "
        f"xds-publisher acknowledge --run {manifest.run} --abandon"
    )


def _is_same(entry: SourceEntry, place: LogPlace) -> bool:
    with Database(place.database) as database:
        try:
            relation = relation_of(database, LiveTable(place.table))
        except FatalError:
            return False  # the table is missing or hidden
        stamp = catalogue_of(database).stamp
        now = TableOrigin(identity_of(database, relation, stamp), database.name)
        return TableOrigin(entry.identity, entry.database).is_same(now)
