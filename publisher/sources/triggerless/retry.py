"""Publishes corrected rows of compared tables: each is compared with the row that consumers have.

Nothing else of the tables is read.  The state remembers what was published of a corrected row beside the row
as it was read, like a row whose change was rejected: a comparison that finds the corrected row publishes
nothing, and one that finds the rejected change as before passes over it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from publisher.errors import FatalError, UsageError
from publisher.model.change import EventType, Outcome, Reason
from publisher.model.classes import attribute_of
from publisher.model.names import find_name
from publisher.sources.columns.object_names import RecordFault
from publisher.sources.columns.private_tables import write_table
from publisher.sources.columns.record_batches import as_json, batch_of
from publisher.sources.contract import PrepareContext, PreparedSource
from publisher.sources.files.file_splits import Split
from publisher.sources.retry import CorrectedRecord, RetryFiles, write_private
from publisher.sources.triggerless.carry_over import (
    FOUND,
    KNOWN,
    UNPUBLISHED,
    TriggerlessState,
    write_state,
)
from publisher.sources.triggerless.compare import (
    ComparisonRules,
    KnownRows,
    compare,
    no_known_rows,
)
from publisher.sources.triggerless.corrected_rows import (
    CorrectedRow,
    CorrectedTable,
    join_values,
    read_corrected_row,
)
from publisher.sources.triggerless.differences import (
    DIFFERENCE_SCHEMA,
    Differences,
    TableRows,
)
from publisher.sources.triggerless.hashing import text_hashes
from publisher.sources.triggerless.multi_values import split_values
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.plan_comparison import refuse_other_contents
from publisher.sources.triggerless.source import Triggerless
from publisher.sources.triggerless.splits import DifferenceSplit, FoundDifferences
from publisher.sources.triggerless.state_files import concat_known_rows
from publisher.sources.triggerless.unpublished import (
    keeps_of,
    published_rows,
    replace_rows,
    replace_unpublished,
)

_TO_CORRECT = "correct it in the table: the next comparison publishes it"


def write_retry(
    options: TriggerlessOptions, records: Sequence[CorrectedRecord], folder: Path
) -> RetryFiles:
    """Writes corrected rows and changes, table by table."""
    order = sorted(range(len(records)), key=lambda number: records[number].part)
    lines = [
        as_json({"table": records[n].part, "where": records[n].where, "raw": records[n].raw})
        for n in order
    ]
    path = folder / "rows.jsonl"
    write_private(path, "".join(f"{line}\n" for line in lines).encode())
    numbers = {number: place for place, number in enumerate(order, 1)}
    places = tuple((Path(), numbers[number]) for number in range(len(records)))
    return RetryFiles((path,), places, reader=CorrectedTables(options))


class _Line(NamedTuple):
    table: str
    where: str
    raw: Any


@dataclass(frozen=True, slots=True)
class CorrectedTables(Triggerless):
    """A source of corrected rows of compared tables, whose numbers are those of their differences."""

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``SourceBase.prepare``: compares the rows with those that consumers have.

        Raises:
            UsageError: A row is none of its table, or cannot be compared.
            FatalError: There is no state of its table.
        """
        carry_over = context.carry_over
        before = None if carry_over is None else carry_over.before
        if before is None:
            raise FatalError("corrected rows have no state to be compared with: publish the tables")
        state = TriggerlessState.read(before)
        refuse_other_contents(state, self.options)
        (path,) = context.paths
        with path.open(encoding="utf-8") as file:
            lines = [_Line(**json.loads(line)) for line in file]
        for name in (FOUND, KNOWN):
            (context.staged / name).mkdir(parents=True, mode=0o700)
        tables = state.carry_over(context.staged, {})
        new = replace(state, folder=context.staged, tables=tables, migration=None)
        splits: list[DifferenceSplit] = []
        first = 1
        for name, of_table in groupby(lines, lambda line: line.table):
            members = list(of_table)
            retried = _retry_table(name, members, state, self.options, context, first)
            tables[name] = retried.replace_in(new)
            splits.append(retried.split)
            first += len(members)
        write_state(context.staged, new)
        return PreparedSource(replace(self, staged=context.staged), tuple(splits))


class _RetriedTable(NamedTuple):
    """The corrected rows of a table, as consumers will have them, and the differences."""

    name: str
    keys: frozenset[str]
    rows: KnownRows
    split: DifferenceSplit

    def replace_in(self, state: TriggerlessState) -> Mapping[str, Any]:
        """Adds the rows to the unpublished rows of a new state; returns the table's new entry."""
        entry = state.tables[self.name]
        if not self.keys:
            return entry
        known = entry.get(UNPUBLISHED, {"keys": {}})["keys"]
        keys = {**dict.fromkeys(sorted(self.keys), False), **known}
        return replace_unpublished(state, self.name, self.keys, self.rows, keys, sorted(self.keys))


def _retry_table(
    name: str,
    lines: Sequence[_Line],
    state: TriggerlessState,
    options: TriggerlessOptions,
    context: PrepareContext,
    first: int,
) -> _RetriedTable:
    """Compares the corrected rows of a table, one after the other, and writes the differences."""
    if name not in state.tables:
        raise FatalError(f"the state in {state.folder} has no table {name}: publish the table")
    table = CorrectedTable(name, state.tables[name], context.catalogue, options)
    corrected = [read_corrected_row(line.raw, table, line.where) for line in lines]
    keys = frozenset(row.key for row in corrected if isinstance(row, CorrectedRow))
    columns = table.entry["columns"]
    rows = published_rows(state, name, {key: key for key in keys}, columns, keeps_of(state))
    comparer = _RowComparer(table, rows, {})
    found = [
        _reject(row, line.raw)
        if isinstance(row, RecordFault)
        else comparer.compare(row, line.where)
        for row, line in zip(corrected, lines, strict=True)
    ]
    file = f"{first:05d}-retried.parquet"
    write_table(pa.concat_batches(found), context.staged / FOUND / file, compression="zstd")
    differences = _describe(table, context.number, file, first, len(lines), lines[0].where)
    size = (context.staged / FOUND / file).stat().st_size
    split = Split(str(context.committed / FOUND), size, size, differences)
    return _RetriedTable(name, keys, comparer.rows(), split)


def _describe(
    table: CorrectedTable, generation: int, file: str, first: int, count: int, where: str
) -> FoundDifferences:
    _, target, known = table.find(where)
    attributes = {
        find_name(attribute_of(child, column), table.entry["columns"]): child
        for child, of_child in known.children.items()
        for column in of_child.columns
    }
    return FoundDifferences(
        table.name,
        table.entry["schema"],
        table.entry["table"],
        generation,
        files=(file,),
        first=first,
        unchanged=0,
        baseline=0,
        read=count,
        is_view=target.is_view,
        children={name: child for name, child in attributes.items() if name is not None},
    )


def _reject(fault: RecordFault, raw: Any) -> pa.RecordBatch:
    return batch_of(
        DIFFERENCE_SCHEMA,
        1,
        outcome=Outcome.REJECTED.value,
        reason=str(fault.reason),
        detail=fault.detail,
        raw=as_json(raw),
    )


@dataclass(slots=True)
class _RowComparer:
    """Compares corrected rows of a table with the rows ``before``."""

    table: CorrectedTable
    before: KnownRows
    corrected: dict[str, KnownRows]
    """The rows compared so far by their keys: one, or none if it is deleted."""

    def compare(self, row: CorrectedRow, where: str) -> pa.RecordBatch:
        """Compares a row; returns its difference, or that there is none."""
        known = self.corrected.get(row.key)
        if known is None:
            known = replace_rows(self._no_rows(), self.before, [row.key])
        keys = pa.array([row.key], pa.string())
        hashes = text_hashes(keys)
        differences = Differences(self.table.entry["columns"])
        if row.event is EventType.DELETE_ROW:
            self.corrected[row.key] = self._no_rows()
            differences.add_deleted(known.hashes, known.keys)
            batch = differences.to_batch()
        else:
            result = compare(
                self.table.entry["columns"],
                TableRows(hashes, keys, self._values(row, known, where)),
                known,
                self._rules(row, known),
            )
            self.corrected[row.key] = result.known
            batch = result.differences
        return batch if batch.num_rows else _unchanged(hashes, keys)

    def rows(self) -> KnownRows:
        """The rows compared so far, as consumers will have them."""
        rows = concat_known_rows([self._no_rows(), *self.corrected.values()])
        return replace_rows(self._no_rows(), rows, list(self.corrected))

    def _no_rows(self) -> KnownRows:
        return no_known_rows(self.table.options.state, len(self.table.entry["columns"]))

    def _rules(self, row: CorrectedRow, known: KnownRows) -> ComparisonRules:
        """The rules of the comparison: columns that a correction does not name keep their values."""
        entry = self.table.entry
        missing = set(entry["columns"]) - row.values.keys() - row.changes.keys()
        return ComparisonRules(
            self.table.options.state,
            "replace" if row.event is EventType.REPLACE_FIELD else "add",
            deletes=False,
            multiple=frozenset(entry["multiple"]),
            unknown=frozenset(missing if len(known) else ()),
        )

    def _values(self, row: CorrectedRow, known: KnownRows, where: str) -> list[pa.Array]:
        texts = dict(row.values)
        if row.changes and not len(known):
            raise UsageError(f"{where}: consumers do not have the object: retry its row first")
        if row.changes and self.table.options.state != "values":
            raise UsageError(
                f"{where} has single values of {', '.join(sorted(row.changes))}, and the state keeps only "
                f"hashes of all of them: {_TO_CORRECT}"
            )
        columns = self.table.entry["columns"]
        for name, changed in row.changes.items():
            before = split_values(known.contents[columns.index(name)])[0].as_py() or ()
            kept = [value for value in before if value not in changed.removed]
            texts[name] = join_values([*kept, *changed.added])
        return [pa.array([texts.get(name)], pa.string()) for name in columns]


def _unchanged(hashes: Any, keys: pa.Array) -> pa.RecordBatch:
    return batch_of(
        DIFFERENCE_SCHEMA,
        1,
        hash=pa.array(hashes),
        key=keys,
        outcome=Outcome.IGNORED.value,
        reason=str(Reason.UNCHANGED),
    )
