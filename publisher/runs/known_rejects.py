"""The rejected records of a job: their order, their transactions, and what they were in their source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from publisher.errors import FatalError, UsageError
from publisher.ledger.manifest import SourceEntry
from publisher.ledger.parts import LedgerPart
from publisher.ledger.retried_records import file_of, reject_id
from publisher.model.change import Outcome, Position
from publisher.planning.torn_transactions import TRANSACTION, TransactionKey
from publisher.runs.recorded_splits import restore_split
from publisher.sources.contract import Source
from publisher.sources.registry import FORMATS

_COLUMNS = ("source", "split", "row", "rank", "event_type", TRANSACTION, *Position._fields)
"""Columns of records: a record's place and kind, and those that may name its transaction."""


@dataclass(frozen=True, slots=True)
class KnownReject:
    """A rejected record of a kept run."""

    source: str
    file: str | None
    """The file that had it; ``None`` for a table."""
    order: tuple[int, int]
    """Its place among all: number of the run, and rank in the run."""
    transaction: TransactionKey | None
    """The transaction that was rejected as a whole; ``None`` if the record belongs to none."""
    is_change: bool
    """True if it was rejected after it was read: the ledger has it as a change, not as it was."""
    part: str
    """The part of its position."""
    high: int
    position: str
    """Its position as users write it."""
    entry: SourceEntry
    split: int
    row: int

    @property
    def group(self) -> tuple[str, TransactionKey] | None:
        """Its transaction among those of all sources."""
        return None if self.transaction is None else (self.source, self.transaction)


def read_known_rejects(parts: Iterable[LedgerPart]) -> dict[str, KnownReject]:
    """Reads the rejected records of ledgers, by their ids.  Raises ``UsageError`` for a masked run."""
    known: dict[str, KnownReject] = {}
    runs: dict[str, int] = {}
    readers: dict[tuple[str, int], Source] = {}
    for part in parts:
        is_rejected = pc.field("outcome") == int(Outcome.REJECTED)
        for entry in part.records(_COLUMNS, is_rejected).to_pylist():
            manifest, number = part.runs[entry["run"]].manifest, entry["source"]
            source, run = manifest.sources[number], manifest.run
            if manifest.is_masked:
                raise UsageError(
                    f"run {run} is masked, so that nothing has its records as they were: export them from "
                    "a replay without --masked"
                )
            if (run, number) not in readers:
                readers[run, number] = FORMATS[source.format].restore(
                    source.options, source.reading
                )
            reader, place = readers[run, number], {**entry, "part": entry["part"] or ""}
            known[reject_id(run, entry["split"], entry["row"])] = KnownReject(
                source=source.name,
                file=file_of(source, entry["split"]),
                order=(runs.setdefault(run, len(runs)), entry["rank"]),
                transaction=_transaction(_transaction_columns(reader), entry),
                is_change=entry["event_type"] is not None,
                part=entry["part"],
                high=entry["high"],
                position=reader.position_text(
                    Position(*(place[name] for name in Position._fields))
                ),
                entry=source,
                split=entry["split"],
                row=entry["row"],
            )
    return known


def _transaction_columns(reader: Source) -> tuple[str, ...]:
    columns = reader.transaction_columns
    return columns if TRANSACTION in columns else ()  # else a record is one by itself


def _transaction(columns: tuple[str, ...], decision: Mapping[str, Any]) -> TransactionKey | None:
    if not columns or decision[TRANSACTION] is None:
        return None
    return tuple(decision[column] for column in columns)


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
    read = source.raw_operations if whole else source.raw_records
    try:
        return read(restore_split(entry, split), rows)
    except (OSError, FatalError):  # the input was moved or changed
        return {}
