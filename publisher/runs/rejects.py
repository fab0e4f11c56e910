"""The rejected records of a job: their order, their transactions, what they were in their source, and what
became of those that are rejected no longer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow.compute as pc

from publisher.config.settings import SourceSettings
from publisher.dispatch.refusals import refusals_of
from publisher.errors import FatalError, UsageError
from publisher.formats.contract import Source
from publisher.formats.files.digest import digest_of_text
from publisher.formats.registry import FORMATS
from publisher.ledger.manifest import SourceEntry
from publisher.ledger.parts import LedgerPart
from publisher.ledger.retried_records import RetryResult, file_of, read_retries, reject_id
from publisher.model.change import Outcome, Position, Reason
from publisher.planning.torn_transactions import TRANSACTION, TransactionKey
from publisher.runs.recorded_splits import restore_split

Scan = Callable[[], Iterable[LedgerPart]]
"""Reads the parts of a ledger, oldest run first."""

_REJECT = (
    *("source", "split", "row", "rank", "event_type", TRANSACTION, *Position._fields),
    *("reason", "table", "key", "detail", "raw"),
)
"""Columns of records: a record's place and kind, those that may name its transaction, and its content."""
_COLUMNS = ("source", "split", "row", "part", "high", "low", "table", "key", "outcome", "reason")
_READ = (*_COLUMNS, "raw", "document")
_ROWS = 1_000
_UNTOUCHED = {Reason.STATUS, Reason.OUT_OF_RANGE, Reason.DUPLICATE, Reason.REPORTED}
"""Reasons with which a run ignores a record that it does not handle again."""
_REJECTED = int(Outcome.REJECTED)


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A rejected record, or a document that a sink refused, as reports show it.

    ``id`` is ``None`` for a refused document; ``detail`` says what to do."""

    id: str | None
    run: str
    source: str
    position: str
    file: str | None
    reason: str
    object: str | None
    detail: str
    raw: str | None
    format: str
    table: str | None = None
    """The table of a live source."""
    record_id: int | None = None
    """The id of a row of a log, whose status may say what became of it; ``None`` for other records."""


class KnownReject(NamedTuple):
    """A rejected record of a kept run, with its place in the run."""

    record: RejectedRecord
    order: tuple[int, int]
    """Its place among all: number of the run, and rank in the run."""
    transaction: TransactionKey | None
    """The transaction that was rejected as a whole; ``None`` if the record belongs to none."""
    is_change: bool
    """True if it was rejected after it was read: the ledger has it as a change, not as it was."""
    part: str
    """The part of its position."""
    entry: SourceEntry
    split: int
    row: int

    @property
    def group(self) -> tuple[str, TransactionKey] | None:
        """Its transaction among those of all sources."""
        return None if self.transaction is None else (self.record.source, self.transaction)


def read_rejected(
    parts: Iterable[LedgerPart], *, refuses_masked: bool = False
) -> Iterator[KnownReject]:
    """Reads the rejected records of ledgers, each once in a part.

    With ``refuses_masked`` a masked run raises ``UsageError``: its records are not as they were."""
    runs: dict[str, int] = {}
    readers: dict[tuple[str, int], Source] = {}
    for part in parts:
        seen: set[str] = set()
        for entry, run, row in _rows(part, pc.field("outcome") == _REJECTED, _REJECT):
            if refuses_masked and part.runs[row["run"]].manifest.is_masked:
                raise UsageError(
                    f"run {run} is masked, so that nothing has its records as they were: export them from "
                    "a replay without --masked"
                )
            name = reject_id(run, row["split"], row["row"])
            if name in seen:  # a record may give several changes
                continue
            seen.add(name)
            reader = readers.get((run, row["source"]))
            if reader is None:
                reader = FORMATS[entry.format].restore(entry.options, entry.reading)
                readers[run, row["source"]] = reader
            position = Position(*(row[column] for column in Position._fields))
            position = position._replace(part=position.part or "")
            columns = reader.transaction_columns  # without transactions a record is one by itself
            is_of_transaction = TRANSACTION in columns and row[TRANSACTION] is not None
            has_id = FORMATS[entry.format].has_status and not position.part
            record = RejectedRecord(
                id=name,
                run=run,
                source=entry.name,
                position=reader.position_text(position),
                file=file_of(entry, row["split"]),
                reason=row["reason"],
                object=f"{row['key']} of {row['table']}" if row["key"] else None,
                detail=row["detail"] or "",
                raw=row["raw"],
                format=entry.format,
                table=entry.table,
                record_id=position.high if has_id else None,
            )
            yield KnownReject(
                record,
                order=(runs.setdefault(run, len(runs)), row["rank"]),
                transaction=tuple(row[name] for name in columns) if is_of_transaction else None,
                is_change=row["event_type"] is not None,
                part=position.part,
                entry=entry,
                split=row["split"],
                row=row["row"],
            )


def read_known_rejects(parts: Iterable[LedgerPart]) -> dict[str, KnownReject]:
    """Reads the rejected records of ledgers, by their ids.  Raises ``UsageError`` for a masked run."""
    rejects = read_rejected(parts, refuses_masked=True)
    return {reject.record.id: reject for reject in rejects if reject.record.id is not None}


def read_requeued(source: SourceSettings, rejects: Iterable[RejectedRecord]) -> dict[str, str]:
    """Reads the statuses of rejected rows of a live log that are neither E nor F now, by reject id.

    Raises:
        FatalError: The database refuses.
        UnreachableError: The database does not answer.
    """
    rows = {
        record.id: record.record_id
        for record in rejects
        if record.id is not None
        and record.record_id is not None
        and record.source == source.name
        and record.table in (None, source.table)
    }
    if not rows or source.database is None or source.table is None:
        return {}
    from publisher.acknowledge.retry import read_handled_rows  # noqa: PLC0415 - for live logs only

    ids = set(rows.values())
    letters = read_handled_rows(source.database, source.table, source.event_log, ids)
    return {name: letters[number] for name, number in rows.items() if number in letters}


def read_again(rejects: Mapping[str, KnownReject]) -> dict[str, str]:
    """Reads rejected records from their files, by their ids, as JSON text; each split is read once.

    Records of tables, and of files that are gone or have changed, are missing."""
    of_splits: dict[str, dict[int, str]] = {}
    for name, reject in rejects.items():
        of_splits.setdefault(name.rpartition(":")[0], {})[reject.row] = name
    texts: dict[str, str] = {}
    for names in of_splits.values():
        reject = rejects[next(iter(names.values()))]
        found = read_raw(reject.entry, reject.split, frozenset(names), whole=True)
        texts |= {names[row]: text for row, text in found.items()}
    return texts


def read_raw(
    entry: SourceEntry, split: int, rows: frozenset[int], *, whole: bool = False
) -> dict[int, str]:
    """Reads records of a run from their file, by their numbers, as JSON text; none if the file is gone, or
    for a table.

    With ``whole`` a record comes with the others of its change (``Source.raw_operations``)."""
    if entry.table is not None:
        return {}
    source = FORMATS[entry.format].restore(entry.options, entry.reading)
    try:
        if not whole:
            return source.raw_records(restore_split(entry, split), rows)
        first = entry.first_split
        splits = [restore_split(entry, first + number) for number in range(len(entry.splits))]
        return source.raw_operations(splits, split - first, rows)
    except (OSError, FatalError):  # the input was moved or changed
        return {}


@dataclass(frozen=True, slots=True)
class ReadAgain(RetryResult):
    """The result of a later run that has read a rejected record again."""

    def text(self) -> str:
        """Describes the result."""
        reason = f" ({self.reason})" if self.reason else ""
        return f"read again in run {self.run}: {self.outcome}{reason}"


_Record = tuple[str, Any, tuple[object, ...]]
"""A record whatever run reads it: it has a value in a column of records, and others."""


def refused_id(run: str, lane: int, document: int) -> str:
    """Names a document that a sink refused."""
    return f"{run}/{lane}/{document}"


def read_settled_rejects(scan: Scan) -> dict[str, RetryResult]:
    """Reads what became of records that are rejected no longer, by their ids (``reject_id``).

    Documents that a sink refused are settled when later runs have read all of their records
    (``refused_id``)."""
    runs: dict[str, int] = {}
    rejected = _read_rejected(scan(), runs)
    if not rejected:
        return {}
    wanted = {record for _, records in rejected.values() for record in records if record}
    last = _read_last(scan(), runs, wanted)
    settled: dict[str, RetryResult] = {}
    for name, (order, records) in rejected.items():
        later = [last[record] for record in records if record in last]
        if len(later) == len(records) and all(place > order for place, _ in later):
            settled[name] = max(later, key=lambda attempt: attempt[0])[1]
    return settled | read_retries(scan())


def read_corrected_ids(scan: Scan, source: str, table: str) -> set[int]:
    """Reads the record ids of a live table that ``rejects --retry`` has published in a corrected form, and
    that no later run has rejected.  A correction that was rejected again is a record of a file."""
    retries = read_retries(scan())
    if not retries:
        return set()
    settled = read_settled_rejects(scan)
    corrected, open_ids = set(), set()
    for part in scan():
        for entry, run, row in _rows(part, pc.field("outcome") == _REJECTED, _COLUMNS):
            if row["part"] or entry.name != source or entry.table not in (None, table):
                continue
            name = reject_id(run, row["split"], row["row"])
            if name in retries and retries[name].outcome != Outcome.REJECTED.label:
                corrected.add(row["high"])
            elif name not in settled:
                open_ids.add(row["high"])
    return corrected - open_ids


def _read_rejected(
    parts: Iterable[LedgerPart], runs: dict[str, int]
) -> Mapping[str, tuple[int, list[_Record | None]]]:
    """Reads rejected records and refused documents: the places of their runs, and their records.

    Adds the runs to ``runs``."""
    rejected: dict[str, tuple[int, list[_Record | None]]] = {}
    for part in parts:
        refused = refusals_of(part.runs)
        for run in part.runs:
            runs.setdefault(run.manifest.run, len(runs))
        condition = pc.field("outcome") == _REJECTED
        if refused:
            condition |= pc.field("document").isin(sorted({place[2] for place in refused}))
        for entry, run_name, row in _rows(part, condition, _READ):
            if row["outcome"] == _REJECTED:
                name = reject_id(run_name, row["split"], row["row"])
            elif (row["run"], row["lane"], row["document"]) in refused:
                name = refused_id(run_name, row["lane"], row["document"])
            else:
                continue
            rejected.setdefault(name, (runs[run_name], []))[1].append(_record(entry, row))
    return rejected


def _read_last(
    parts: Iterable[LedgerPart], runs: dict[str, int], wanted: Collection[_Record]
) -> dict[_Record | None, tuple[int, ReadAgain]]:
    """Finds the last run that has handled each of the wanted records: its place, and the outcome."""
    condition = pc.field("outcome") == _REJECTED
    for column in ("high", "key"):
        values = {value for name, value, _ in wanted if name == column}
        if values:
            condition |= pc.field(column).isin(sorted(values))
    last: dict[_Record | None, tuple[int, ReadAgain]] = {}
    for part in parts:
        for entry, run, row in _rows(part, condition, _READ):
            record = _record(entry, row)
            if record in wanted and row["reason"] not in _UNTOUCHED:
                result = ReadAgain(run, Outcome(row["outcome"]).label, row["reason"])
                last[record] = runs.setdefault(run, len(runs)), result
    return last


def _rows(
    part: LedgerPart, condition: pc.Expression, columns: Sequence[str]
) -> Iterator[tuple[SourceEntry, str, dict[str, Any]]]:
    """Yields the records of a part that meet a condition, with their sources and runs."""
    for batch in part.records(columns, condition).to_batches(_ROWS):
        for row in batch.to_pylist():
            manifest = part.runs[row["run"]].manifest
            yield manifest.sources[row["source"]], manifest.run, row


def _record(entry: SourceEntry, row: Mapping[str, Any]) -> _Record | None:
    """Returns what identifies a record in all runs; ``None`` if nothing does.

    A compared row has no lasting position, but a key.  A position in a file only identifies a record with the
    same content, because the next file may have the same name."""
    part = row["part"] or ""
    place: tuple[object, ...] = entry.name, part, row["low"], row["high"]
    if FORMATS[entry.format].compares:
        place = entry.name, part, row["table"]
        if row["key"] is not None:
            return "key", row["key"], place
    elif not part:
        return "high", row["high"], place
    if row["raw"] is None or row["outcome"] != _REJECTED:
        return None
    return "raw", digest_of_text(row["raw"]), place
