"""The source of compared tables, in files or in a database."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError, UsageError
from publisher.formats.columns.key_lanes import key_lanes
from publisher.formats.columns.record_batches import (
    Place,
    as_json,
    batch,
    lists_like,
    record_lanes,
    tally,
)
from publisher.formats.contract import (
    ComparingSource,
    Context,
    PendingContext,
    PrepareContext,
    PreparedSource,
    SourceInput,
)
from publisher.formats.files import file_splits
from publisher.formats.files.file_splits import Split
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.live.table_split import TableSplit
from publisher.formats.migration import Migration
from publisher.formats.table_queue.reading import sample_files
from publisher.formats.triggerless import input_files
from publisher.formats.triggerless.comparison import TableInput
from publisher.formats.triggerless.live_tables import (
    live_inputs,
    live_shapes,
    refuse_other_databases,
)
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.pending_tables import choose_tables, comparison_notes
from publisher.formats.triggerless.plan_comparison import comparison_of, finish_comparison
from publisher.formats.triggerless.splits import DifferenceSplit, FoundDifferences
from publisher.formats.triggerless.state import (
    TriggerlessState,
    identity_of,
    keep_unpublished,
    remove_replaced_rows,
)
from publisher.formats.triggerless.tasks import run_comparison
from publisher.model.catalogue import Catalogue
from publisher.model.change import Outcome, Position
from publisher.model.lanes import table_hash

_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Triggerless(ComparingSource):
    """Tables compared with a state.

    The comparison is a part of the preparation; afterwards splits hold the differences.
    """

    options: TriggerlessOptions = field(default_factory=TriggerlessOptions)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    format: str = "triggerless"
    first_files: Mapping[str, str] = field(default_factory=dict)
    """The first file of each compared table, as it was named."""
    hinted: int | None = None
    """See ``TriggerlessState``."""
    migration: Migration | None = None
    """Rows to publish as new; ``None`` publishes the differences."""
    spare_files: tuple[Path, ...] = ()
    """Files of tables that are not to be compared; classes may need those of child tables."""

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """Lists the files of the tables; their kinds are recognised by their names."""
        return file_splits.files(paths, may_be_none=may_be_none)

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[Split[None]]:  # noqa: ARG002
        """One split per table, before the comparison."""
        splits = []
        for files in input_files.group_by_table(self.files(paths), self.options).values():
            size = sum(path.stat().st_size for path in files)
            splits.append(Split(str(files[0]), size, size, None))
        return splits

    @property
    def joins_keys(self) -> bool:
        """As ``Source.joins_keys``."""
        return self.options.joins_keys

    @property
    def earlier_files(self) -> tuple[str, ...]:
        """As ``ComparingSource.earlier_files``."""
        return self.options.before

    @property
    def hint_files(self) -> tuple[str, ...]:
        """As ``ComparingSource.hint_files``."""
        return self.options.samples

    def table_names(self, paths: Sequence[Path]) -> tuple[str, ...]:
        """As ``ComparingSource.table_names``; omits tables without a file."""
        if not paths:
            return self.options.tables
        by_table = input_files.files_by_table(paths, self.options)
        return tuple(name for name, files in by_table.items() if files)

    def only(self, paths: Sequence[Path], tables: Collection[str]) -> SourceInput:
        """As ``ComparingSource.only``."""
        chosen_paths: tuple[Path, ...] = ()
        source = self
        if paths:
            by_table = input_files.files_by_table(paths, self.options, may_be_none=True)
            chosen = [path for name in by_table if name in tables for path in by_table[name]]
            spare = [path for name in by_table if name not in tables for path in by_table[name]]
            chosen_paths = tuple(chosen)
            source = replace(source, spare_files=tuple(spare))
        table_names = tuple(tables) if self.options.tables else ()
        source = replace(source, options=replace(self.options, tables=table_names))
        return SourceInput(source, chosen_paths, bool(chosen_paths or table_names))

    def pending(self, context: PendingContext) -> SourceInput:
        """As ``Source.pending``: the tables that may have changed since their last comparison.

        Files that are unchanged since the last comparison contain no changes."""
        folder = context.state()
        state = TriggerlessState.read(folder) if folder is not None else TriggerlessState.empty()
        options = self.options
        may_differ, until = choose_tables(options, state, context.samples, context.clock)
        source = replace(self, hinted=until)
        if not context.paths:
            return source.only((), [name for name in options.tables if may_differ(name)])
        by_table = input_files.files_by_table(context.paths, options, may_be_none=True)
        table_names = [
            name
            for name, files in by_table.items()
            if files and may_differ(name) and not state.has_compared(name, identity_of(files))
        ]
        return source.only(context.paths, table_names)

    def with_migration(self, migration: Migration) -> Triggerless:
        """As ``ComparingSource.with_migration``."""
        return replace(self, migration=migration)

    def has_migrated(self, state: Path, migration: Migration) -> bool:
        """As ``ComparingSource.has_migrated``."""
        return TriggerlessState.read(state).migration == migration.plain()

    def count_known_tables(self, state: Path) -> int:
        """As ``ComparingSource.count_known_tables``."""
        return len(TriggerlessState.read(state).tables)

    def keep_unpublished(
        self, state: Path, before: Path | None, rejected: Iterable[tuple[Any, frozenset[int]]]
    ) -> None:
        """As ``ComparingSource.keep_unpublished``."""
        keep_unpublished(state, before, [(split.payload, rows) for split, rows in rejected])

    def finish(self, state: Path, replaced: Iterable[Path], name: str) -> list[str]:
        """As ``Source.finish``: removes the rows of replaced states, not their differences."""
        notes = comparison_notes(state, name)
        remove_replaced_rows(replaced)
        return notes

    def describe_tables(
        self,
        paths: Sequence[Path],
        catalogue: Catalogue,
        database: DatabaseOptions | None,
        state: Path | None,
        name: str,
    ) -> str:
        """As ``ComparingSource.describe_tables``."""
        options = self.options
        if options.samples:
            sample_files(options.samples, may_be_none=True)
        if paths:
            by_table = input_files.files_by_table(paths, options)
            files = [path for of_table in by_table.values() for path in of_table]
            inputs = input_files.file_inputs(by_table, {}, catalogue, options, self.snapshot)
            count, size = len(list(inputs)), sum(path.stat().st_size for path in files)
            return f"{count} table(s) in {len(files)} file(s), {size:,} bytes"
        assert database is not None  # the settings require it
        with Database(database) as connected:
            shapes = live_shapes(connected, options, catalogue)
            if state is not None:
                known = TriggerlessState.read(state).tables
                refuse_other_databases(connected, options, known, name)
            return f"{len(shapes)} table(s) of {connected.name} can be compared"

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``Source.prepare``: compares the tables of the files, or of the database."""
        options = self.options
        if context.sample is not None and not context.paths:
            options = replace(options, startup_option="all")
        with ExitStack() as stack:
            tables = self._inputs(context, options, stack)
            comparison = comparison_of(tables, options, self.migration, context)
            results = run_comparison(comparison, context.tasks)
        splits = finish_comparison(
            comparison, results, options, self.migration, self.hinted, context
        )
        paths = self.files(context.paths) if context.paths else ()
        by_name = input_files.group_by_table(paths, options)
        first_files = {name: str(files[0]) for name, files in by_name.items() if files}
        source = replace(self, first_files=first_files)
        return PreparedSource(source, splits, comparison.notes)

    def _inputs(
        self, context: PrepareContext, options: TriggerlessOptions, stack: ExitStack
    ) -> list[TableInput]:
        """Prepares the tables of the files or of the database; of files for a sample only the first."""
        if context.paths:
            by_table = input_files.files_by_table(context.paths, options)
            spare = input_files.group_by_table(self.spare_files, replace(options, tables=()))
            inputs = input_files.file_inputs(
                by_table, spare, context.catalogue, options, self.snapshot, context.wanted
            )
            return list(islice(inputs, None if context.sample is None else 1))
        assert context.database is not None  # the settings require it
        return live_inputs(
            context.database,
            options,
            self.snapshot,
            context.catalogue,
            context.wanted,
            stack,
            self.migration,
            context.sample,
        )

    def file_of(self, split: Split[Any] | TableSplit[Any]) -> str:
        """The first file of the table."""
        payload: FoundDifferences = split.payload
        return self.first_files.get(payload.source_name, "")

    def read(self, split: Any, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Reads batches of ``RECORD_SCHEMA``, the tally last."""
        found, first = split.payload, split.payload.first
        place = Place(ctx.source, number, found.source_name, ctx.lanes)
        yield from _unchanged_rows(place, found)
        for differences in self._difference_batches(split):
            yield _records(place, found, differences, first)
            first += differences.num_rows
        yield tally(place, found.read)

    def position_text(self, position: Position) -> str:
        """Writes a position as ``TABLE:COMPARISON:NUMBER``."""
        return f"{position.part}:{position.high}:{position.low}"

    def parse_position(self, text: str) -> Position:
        """Parses a position that a user wrote.  Raises ``UsageError``."""
        part, *numbers = text.strip().rsplit(":", 2)
        if not part or len(numbers) < 2 or not all(n.isascii() and n.isdigit() for n in numbers):
            raise UsageError(
                f"{text!r} is not a position of a comparison; write TABLE:COMPARISON:NUMBER"
            )
        return Position(part, int(numbers[0]), int(numbers[1]), 0)

    def raw_records(self, split: DifferenceSplit, rows: frozenset[int]) -> dict[int, str]:
        """Changes as JSON text; none if the differences are no longer kept."""
        payload, records = split.payload, {}
        if 0 in rows:
            ignored = {str(reason): count for reason, count in payload.ignored.items()}
            records[0] = as_json(ignored)
        first = payload.first
        for differences in self._difference_batches(split) if max(rows) else ():
            for row in sorted(rows & {*range(max(first, 1), first + differences.num_rows)}):
                record = differences.slice(row - first, 1).to_pylist()[0]
                records[row] = record["raw"] or as_json({name: record[name] for name in _SHOWN})
            first += differences.num_rows
        return records

    def _difference_batches(self, split: DifferenceSplit) -> Iterator[pa.RecordBatch]:
        folder = Path(split.path)
        for name in split.payload.files:
            try:
                with pq.ParquetFile(folder / name) as file:
                    yield from file.iter_batches(_ROWS, use_threads=False)
            except (pa.ArrowInvalid, OSError) as error:
                raise FatalError(
                    f"{folder / name} cannot be read ({error}): publish again"
                ) from error


def _unchanged_rows(place: Place, found: FoundDifferences) -> Iterator[pa.RecordBatch]:
    """Yields one record for all rows that are ignored for the same reason."""
    for reason, rows in found.ignored.items():
        if rows:
            yield batch(
                1,
                source=place.source,
                lane=place.split % place.lanes,
                part=found.source_name,
                rank=0,
                high=found.generation,
                low=0,
                ordinal=place.split,
                split=place.split,
                row=0,
                records=rows,
                schema=found.schema,
                table=found.table,
                outcome=Outcome.IGNORED.value,
                reason=str(reason),
            )


def _records(
    place: Place, found: FoundDifferences, differences: pa.RecordBatch, first: int
) -> pa.RecordBatch:
    """Turns differences into records; the first one has the number ``first``."""
    count = differences.num_rows
    numbers = np.arange(first, first + count, dtype=np.int64)
    keys = differences["key"]
    lanes = key_lanes(table_hash(found.schema, found.table), keys, place.lanes)
    if keys.null_count:
        without_key = keys.is_null().to_numpy(zero_copy_only=False)
        lanes = np.where(without_key, record_lanes(place, numbers), lanes)
    # one record for each difference, if their file does not say another number
    has_records = "records" in differences.schema.names
    return batch(
        count,
        source=place.source,
        lane=pa.array(lanes, pa.int32()),
        part=found.source_name,
        rank=numbers,
        high=found.generation,
        low=numbers,
        ordinal=0,
        split=place.split,
        row=numbers,
        records=differences["records"] if has_records else 1,
        schema=found.schema,
        table=found.table,
        is_view=found.is_view or None,
        children=_children(found.children, differences["columns"]),
        **{name: differences[name] for name in _DIFFERENCE_COLUMNS},
    )


def _children(tables: Mapping[str, str], columns: pa.ListArray) -> pa.ListArray | None:
    """Returns the child table of each column; ``None`` if the class has no child tables."""
    if not tables:
        return None
    places = pc.index_in(columns.flatten(), pa.array(tables, pa.string()))
    names = pa.array(tables.values(), pa.string()).take(places)
    return lists_like(columns, names, columns.is_null())


_SHOWN = ("key", "event_type", "columns", "old", "new")
_DIFFERENCE_COLUMNS = (*_SHOWN, "outcome", "reason", "detail", "raw")
