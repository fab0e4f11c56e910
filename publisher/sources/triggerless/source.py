"""The source: tables as they are now, in files or in a database, and what was known of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.database import DatabaseOptions
from publisher.errors import FatalError, UsageError
from publisher.model.catalogue import Catalogue, JobCatalogue
from publisher.model.change import Outcome, Position, Reason
from publisher.model.lanes import table_hash
from publisher.sources.columns.key_lanes import key_lanes
from publisher.sources.columns.record_batches import Place, as_json, batch, record_lanes, tally
from publisher.sources.contract import Context
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import Split
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.triggerless import input_files
from publisher.sources.triggerless.carry_over import present
from publisher.sources.triggerless.comparison import BucketResult, Comparison
from publisher.sources.triggerless.live_tables import live_inputs
from publisher.sources.triggerless.options import Options
from publisher.sources.triggerless.plan_comparison import (
    Given,
    comparison_of,
    file_inputs,
    finished,
)
from publisher.sources.triggerless.tasks import compare_here

Run = Callable[[Comparison], list[BucketResult]]
_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Triggerless:
    """Tables compared with a state.

    A comparison has to be done before there is anything to read: ``prepared`` has it done by an engine
    and gives the splits of what was found.  Splits that were made without are compared by the task that
    reads them, with an earlier snapshot or with nothing, a table by each.
    """

    options: Options = field(default_factory=Options)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    format: str = "triggerless"

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """The files of the tables, of the kinds that are known by their names."""
        return file_splits.files(paths, may_be_none=may_be_none)

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[Split]:  # noqa: ARG002
        """One for each table."""
        made = []
        for name, files in input_files.by_table(self.files(paths), self.options).items():
            sizes = [path.stat().st_size for path in files]
            found = {"table": name, "files": [str(path) for path in files], "sizes": sizes}
            size, text = sum(sizes), json.dumps(found, ensure_ascii=False)
            made.append(Split(str(files[0]), "table", 0, len(files), 1, size, size, text))
        return made

    def prepared(
        self,
        paths: Sequence[Path],
        given: Given,
        run: Run,
        *,
        database: DatabaseOptions | None = None,
        text_of: Callable[[Any], str | None] = str,
    ) -> tuple[Split, ...]:
        """The splits of what a comparison finds, which ``run`` has done.

        Raises ``FatalError`` where tables, files or state do not fit, ``UnreachableError``.
        """
        with ExitStack() as stack:
            if paths:
                by_table = input_files.files_by_table(paths, self.options)
                tables = file_inputs(by_table, self.options, self.snapshot, given)
            else:
                assert database is not None  # settings have seen to it
                tables = live_inputs(database, self.options, self.snapshot, given, stack, text_of)
            comparison = comparison_of(tables, self.options, given, database, text_of)
            return finished(comparison, run(comparison), given, self.options)

    def read(self, split: Split, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Batches of ``RECORD_SCHEMA``, the tally last."""
        if split.kind == "found":
            yield from _Reader(split, number, ctx).batches()
            return
        with TemporaryDirectory(prefix="xds-publisher-") as folder:
            for found in self._compared(split, ctx.catalogue, Path(folder)):
                yield from _Reader(found, number, ctx).batches()

    def position_text(self, position: Position) -> str:
        """``TABLE:COMPARISON:NUMBER``."""
        return f"{position.part}:{position.high}:{position.low}"

    def parse_position(self, text: str) -> Position:
        """The position that a user wrote.  Raises ``UsageError``."""
        part, *numbers = text.strip().rsplit(":", 2)
        if not part or len(numbers) < 2 or not all(n.isascii() and n.isdigit() for n in numbers):
            raise UsageError(
                f"{text!r} is no position of a comparison; write TABLE:COMPARISON:NUMBER"
            )
        return Position(part, int(numbers[0]), int(numbers[1]), 0)

    def raw(self, split: Split, row: int) -> str | None:
        """One change as JSON text; ``None`` where what was found is kept no longer."""
        if split.kind == "found":
            return _raw(split, row)
        catalogue = JobCatalogue(())
        with TemporaryDirectory(prefix="xds-publisher-") as folder:
            for found in self._compared(split, catalogue, Path(folder)):
                return _raw(found, row)
        return None

    def _compared(self, split: Split, catalogue: Catalogue, folder: Path) -> tuple[Split, ...]:
        """The one split of what a table's comparison in this process finds."""
        found = json.loads(split.found)
        paths = [Path(name) for name in found["files"]]
        if [path.stat().st_size for path in paths] != found["sizes"]:
            raise FatalError(f"{split.path} has changed since the run began; start again")
        given = Given(catalogue, folder, wanted=1, keep=False)
        return self.prepared(paths, given, compare_here)


class _Reader:
    """Reads what was found of a table."""

    def __init__(self, split: Split, number: int, ctx: Context) -> None:
        found = json.loads(split.found)
        self._split = split
        self._found: Mapping[str, Any] = found
        self._lanes = ctx.lanes
        name, self._schema, self._table = found["table"]
        self._place = Place(ctx.source, number, name, ctx.lanes)
        self._part = name
        self._hash = table_hash(self._schema, self._table)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of ``RECORD_SCHEMA``, the tally last."""
        for reason in (Reason.UNCHANGED, Reason.BASELINE):
            if self._found[reason]:
                yield self._all_alike(reason, self._found[reason])
        first = self._split.first
        for found in _found_batches(self._split):
            yield self._records(found, first)
            first += found.num_rows
        yield tally(self._place, self._found["read"])

    def _all_alike(self, reason: Reason, rows: int) -> pa.RecordBatch:
        """One record for all rows that gave nothing for the same reason."""
        return batch(
            1,
            source=self._place.source,
            lane=self._place.split % self._lanes,
            part=self._part,
            rank=0,
            high=self._found["generation"],
            low=0,
            ordinal=self._place.split,
            split=self._place.split,
            row=0,
            records=rows,
            schema=self._schema,
            table=self._table,
            outcome=Outcome.IGNORED.value,
            reason=str(reason),
        )

    def _records(self, found: pa.RecordBatch, first: int) -> pa.RecordBatch:
        count = found.num_rows
        numbers = np.arange(first, first + count, dtype=np.int64)
        return batch(
            count,
            source=self._place.source,
            lane=self._record_lanes(found.column("key"), numbers),
            part=self._part,
            rank=numbers,
            high=self._found["generation"],
            low=numbers,
            ordinal=0,
            split=self._place.split,
            row=numbers,
            records=1,
            schema=self._schema,
            table=self._table,
            **{name: found.column(name) for name in _AS_FOUND},
        )

    def _record_lanes(self, keys: pa.Array, numbers: np.ndarray) -> pa.Array:
        lanes = key_lanes(self._hash, keys, self._lanes)
        if keys.null_count:
            nameless = keys.is_null().to_numpy(zero_copy_only=False)
            lanes = np.where(nameless, record_lanes(self._place, numbers), lanes)
        return pa.array(lanes, pa.int32())


_AS_FOUND = ("key", "event_type", "columns", "old", "new", "outcome", "reason", "detail", "raw")


def _found_batches(split: Split) -> Iterator[pa.RecordBatch]:
    folder = present(Path(split.path))
    for name in json.loads(split.found)["files"]:
        try:
            with pq.ParquetFile(folder / name) as file:
                yield from file.iter_batches(_ROWS, use_threads=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise FatalError(f"{folder / name} cannot be read ({error}): publish again") from error


def _raw(split: Split, row: int) -> str | None:
    if not row:
        found = json.loads(split.found)
        return as_json({reason: found[reason] for reason in ("unchanged", "baseline")})
    first = split.first
    for found in _found_batches(split):
        if row < first + found.num_rows:
            record = found.slice(row - first, 1).to_pylist()[0]
            told: str | None = record["raw"]
            return told or as_json({name: record[name] for name in _SHOWN})
        first += found.num_rows
    return None


_SHOWN = ("key", "event_type", "columns", "old", "new")
