"""Finds transactions of which a planned run would publish only a part.

A transaction spans objects and so lanes: a record that one lane rejects, for a character that XML
forbids for instance, does not affect the documents that other lanes have planned.  So the records that
lanes have planned are compared before the ledger is committed, and a run that would tear a transaction
is planned again with that transaction rejected.  If a run has no rejects, no records are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.work import SourceWork, Work
from publisher.ledger.lane_writer import PlannedLane
from publisher.ledger.tables import RECORDS
from publisher.model.change import Outcome, Position, Reason
from publisher.planning.torn_transactions import (
    TRANSACTION,
    Cause,
    RejectedTransactions,
    TransactionKey,
)

_PUBLISHED = [int(Outcome.PUBLISHED), int(Outcome.SUPERSEDED)]
_ORDER = [*Position._fields, "reason", "detail"]
"""Sort order that picks the cause among several rejected records, whatever the lanes and parts."""


def reject_torn(work: Work, lanes: Sequence[PlannedLane]) -> Work | None:
    """Rejects the transactions that the planned lanes would tear; ``None`` without such transactions."""
    torn = {
        number: causes
        for number, source in enumerate(work.sources)
        if (columns := source.source.transaction_columns) and _has_rejects(number, lanes)
        if (causes := _find_causes(number, columns, lanes))
    }
    if not torn:
        return None
    sources = [
        _with_rejects(source, torn[number]) if number in torn else source
        for number, source in enumerate(work.sources)
    ]
    return replace(work, sources=tuple(sources))


def _has_rejects(number: int, lanes: Sequence[PlannedLane]) -> bool:
    return any(
        count.source == number and count.outcome is Outcome.REJECTED
        for lane in lanes
        for count in lane.result.counts
    )


def _with_rejects(source: SourceWork, causes: Mapping[TransactionKey, Cause]) -> SourceWork:
    columns = source.source.transaction_columns
    earlier = {} if source.rejected is None else source.rejected.causes
    return replace(source, rejected=RejectedTransactions(columns, {**causes, **earlier}))


def _find_causes(
    number: int, columns: tuple[str, ...], lanes: Sequence[PlannedLane]
) -> dict[TransactionKey, Cause]:
    """Finds the transactions of a source that have a published record and a rejected one."""

    def read(outcomes: list[int], *more: str, where: pc.Expression) -> Iterator[pa.Table]:
        names = [*dict.fromkeys([*columns, *more])]
        condition = (pc.field("source") == number) & pc.field("outcome").isin(outcomes) & where
        for lane in lanes:
            yield lane.rows.read(RECORDS, names, condition)

    has_transactions = TRANSACTION in columns
    # without transactions only records with a change count
    valid = pc.field(TRANSACTION if has_transactions else "event_type").is_valid()
    rejected = [int(Outcome.REJECTED)]
    with_rejects = _distinct(columns, read(rejected, where=valid))
    published = read(_PUBLISHED, where=valid)
    torn = _distinct(columns, (_among(table, with_rejects, columns) for table in published))
    if not has_transactions:
        several = read([*rejected, *_PUBLISHED], where=valid & (pc.field("ordinal") > 0))
        torn = _among(torn, _distinct(columns, several), columns)
    if not torn.num_rows:
        return {}
    causes: dict[TransactionKey, Cause] = {}
    details = [_among(table, torn, columns) for table in read(rejected, *_ORDER, where=valid)]
    ordered = pa.concat_tables(details).sort_by([(name, "ascending") for name in _ORDER])
    firsts = ordered.group_by(list(columns), use_threads=False)
    for row in firsts.aggregate([(name, "first") for name in _ORDER]).to_pylist():
        position = Position(*(row[f"{name}_first"] for name in Position._fields))
        reason = Reason(row["reason_first"])
        key = tuple(row[name] for name in columns)
        causes[key] = Cause(position, reason, row["detail_first"] or "")
    return causes


def _distinct(columns: tuple[str, ...], tables: Iterator[pa.Table]) -> pa.Table:
    """Finds the distinct transactions in the rows of tables."""
    keys = [table.group_by(list(columns)).aggregate([]) for table in tables]
    return pa.concat_tables(keys).group_by(list(columns)).aggregate([])


def _among(table: pa.Table, transactions: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    """Selects the rows of a table that belong to some transactions."""
    return table.join(transactions, list(columns), join_type="left semi")
