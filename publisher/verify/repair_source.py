"""Source of a repair: the differences that a verification found, as changes to publish."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.formats.columns.private_tables import write_table
from publisher.formats.contract import PrepareContext, PreparedSource
from publisher.formats.files.file_splits import Split
from publisher.formats.triggerless.differences import DIFFERENCE_SCHEMA
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.source import Triggerless
from publisher.formats.triggerless.splits import DifferenceSplit, FoundDifferences
from publisher.formats.triggerless.state import FOUND, TriggerlessState, write_state
from publisher.formats.triggerless.table_shape import TableShape
from publisher.model.catalogue import Table
from publisher.model.change import EventType
from publisher.model.keys import IdentifierCase
from publisher.verify.compare import FINDINGS, ResultKind
from publisher.verify.compare_table import ComparedTable

BASELINE = frozenset({ResultKind.NEVER_PUBLISHED, ResultKind.EXPIRED})
"""Results of objects that are published only on request."""


@dataclass(frozen=True, slots=True)
class TableToRepair:
    """The differences of one table."""

    shape: TableShape
    files: tuple[str, ...]
    """Files with ``RESULT_SCHEMA`` in the folder of the verification."""


@dataclass(frozen=True, slots=True)
class RepairSource(Triggerless):
    """Publishes the differences of tables; like a comparison, but the differences are known already."""

    folder: Path = Path()
    differences: tuple[TableToRepair, ...] = ()
    described: tuple[Table, ...] = ()
    """Descriptions of the tables, with their children and references."""
    kinds: Collection[ResultKind] = field(default_factory=lambda: FINDINGS)

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``Source.prepare``: copies the differences to publish into the ledger."""
        (context.staged / FOUND).mkdir(parents=True, mode=0o700)
        # a repair leaves no state: the next repair begins with a verification
        write_state(context.staged, TriggerlessState(context.staged, self.options.state))
        splits = [split for table in self.differences for split in self._copy(table, context)]
        return PreparedSource(self, tuple(splits))

    def tables(self) -> tuple[Table, ...]:
        """As ``Source.tables``."""
        return self.described

    def count(self) -> int:
        """Counts the objects to repair."""
        return sum(rows.num_rows for table in self.differences for rows in self._changes(table))

    def _copy(self, table: TableToRepair, context: PrepareContext) -> Iterator[DifferenceSplit]:
        """Copies the differences of a table; yields one split for each file."""
        first = 1
        for number, rows in enumerate(self._changes(table)):
            shape = table.shape
            name = f"{shape.source_name}-{number:05d}.parquet".replace("/", "_")
            write_table(rows, context.staged / FOUND / name)
            found = FoundDifferences(
                shape.source_name,
                shape.schema,
                shape.table,
                context.number,
                (name,),
                first,
                unchanged=0,
                baseline=0,
                read=rows.num_rows,
                is_view=shape.is_view,
                children=shape.child_tables,
            )
            yield Split(str(context.staged / FOUND), rows.nbytes, rows.nbytes, found)
            first += rows.num_rows

    def _changes(self, table: TableToRepair) -> Iterator[pa.RecordBatch]:
        wanted = pa.array([str(kind) for kind in self.kinds], pa.string())
        for name in table.files:
            with pq.ParquetFile(self.folder / name) as file:
                for rows in file.iter_batches(use_threads=False):
                    chosen = rows.filter(pc.is_in(rows.column("result"), wanted))
                    chosen = chosen.filter(_has_change(chosen))
                    if chosen.num_rows:
                        yield chosen.select(DIFFERENCE_SCHEMA.names)


def _has_change(rows: pa.RecordBatch) -> pa.Array:
    """Tests whether a row is a change: attributes that no column has cannot be repaired."""
    names = pc.greater(pc.list_value_length(rows.column("columns")), 0)
    is_replaced = pc.equal(rows.column("event_type"), EventType.REPLACE_FIELD.value)
    return pc.or_(names, pc.invert(is_replaced))


def repair_source(
    tables: Sequence[ComparedTable],
    files: Mapping[str, Sequence[str]],
    folder: Path,
    described: tuple[Table, ...],
    case: IdentifierCase,
    kinds: Collection[ResultKind],
) -> RepairSource:
    """Returns the source for the differences of tables, whose ``files`` are in a folder."""
    differences = tuple(
        TableToRepair(table.shape, tuple(files.get(table.name.text, ()))) for table in tables
    )
    names = tuple(table.shape.source_name for table in tables)
    options = TriggerlessOptions(tables=names, identifier_case=case)
    return RepairSource(
        options,
        folder=folder,
        differences=differences,
        described=described,
        kinds=kinds,
    )


def declare_class(table: Table) -> Table:
    """Declares a class as a job file does: attributes of child tables are no columns."""
    own = {name: kind for name, kind in table.columns.items() if table.child_of(name) is None}
    return replace(table, columns=own)
