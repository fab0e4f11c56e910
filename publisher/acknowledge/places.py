"""Which table a run is acknowledged in: the one that it has read, whatever its source is called now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from publisher.database import Database, DatabaseOptions
from publisher.database.identity import Verdict, compare, identity_of
from publisher.errors import FatalError
from publisher.journal.manifest import Manifest, SourceEntry
from publisher.sources.live.table_reader import LiveTable, relation_of


class WrongTableError(FatalError):
    """The statuses of a run cannot be written: its table is not where the job file points to."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A table that a source of the job file names."""

    source: str
    database: DatabaseOptions
    table: str


@dataclass(frozen=True, slots=True)
class FoundLog:
    """The table to write statuses into."""

    place: LogPlace
    verdict: Verdict
    """``UNKNOWN``: its rows still have to prove that it is the table."""


def find_log(manifest: Manifest, source: int, places: Sequence[LogPlace]) -> FoundLog:
    """Find the table that a source of a run was read from among those of the job file.

    The source of the same name is asked first, then the others: a source may have another name now.

    Raises:
        WrongTableError: None of them is that table.
        UnreachableError: A database does not answer.
    """
    entry = manifest.sources[source]
    doubtful: FoundLog | None = None
    for place in _candidates(entry, places):
        verdict = _verdict(entry, place)
        if verdict is Verdict.SAME:
            return FoundLog(place, verdict)
        fits = entry.name == place.source or entry.table == place.table
        if verdict is Verdict.UNKNOWN and fits and doubtful is None:
            doubtful = FoundLog(place, verdict)
    if doubtful is not None:
        return doubtful
    raise wrong_table(manifest, source, _why(entry, places))


def named_log(manifest: Manifest, source: int, places: Sequence[LogPlace]) -> FoundLog:
    """The table that the source of the same name reads now, whatever its identity.

    Raises ``WrongTableError`` where the job file has none.
    """
    entry = manifest.sources[source]
    for place in places:
        if place.source == entry.name:
            return FoundLog(place, Verdict.SAME)
    raise wrong_table(manifest, source, _why(entry, places))


def wrong_table(manifest: Manifest, source: int, why: str) -> WrongTableError:
    """The error that says what to do about a run that cannot be acknowledged."""
    entry = manifest.sources[source]
    return WrongTableError(
        f"run {manifest.run} was sent, but its statuses cannot be written: source {entry.name} read "
        f"table {entry.table} of {entry.database or 'a database that was not noted'}, and {why}. "
        "Name that table and database in the job file again and start again; or run xds-publisher "
        f"acknowledge --run {manifest.run} with --by-rows, where the table was copied or moved with "
        "its rows, or with --abandon, where it is gone"
    )


def _candidates(entry: SourceEntry, places: Sequence[LogPlace]) -> Iterator[LogPlace]:
    assert entry.table is not None
    mine = [place for place in places if place.source == entry.name]
    for place in mine:  # the table that was read, where the source names another one now
        yield LogPlace(place.source, place.database, entry.table)
    for place in (*mine, *(place for place in places if place.source != entry.name)):
        if place.table != entry.table or place.source != entry.name:
            yield place


def _verdict(entry: SourceEntry, place: LogPlace) -> Verdict:
    with Database(place.database) as database:
        try:
            relation = relation_of(database, LiveTable(place.table))
        except FatalError:
            return Verdict.OTHER  # it has no such table, or hides it
        return compare(entry.identity, identity_of(database, relation))


def _why(entry: SourceEntry, places: Sequence[LogPlace]) -> str:
    for place in places:
        if place.source == entry.name:
            with Database(place.database) as database:
                return f"table {place.table} of {database.name}, which it names now, is another one"
    return "the job file has no source of this name that reads a table, and no other reads that one"
