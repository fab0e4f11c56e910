"""The source of compared tables, in files or in a database."""

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
from publisher.sources.contract import Context, Source
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import Split
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.triggerless import input_files
from publisher.sources.triggerless.carry_over import current_path
from publisher.sources.triggerless.comparison import BucketResult, Comparison
from publisher.sources.triggerless.live_tables import live_inputs
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.plan_comparison import (
    ComparisonContext,
    comparison_of,
    file_inputs,
    finish_comparison,
)
from publisher.sources.triggerless.tasks import compare_here

Run = Callable[[Comparison], list[BucketResult]]
_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Triggerless(Source):
    """Tables compared with a state.

    A comparison comes before there is anything to read: ``compare_tables`` runs it on an engine and returns
    the splits of the differences.  Without it a split is a whole table, which the reading task compares with
    an earlier snapshot or with nothing.
    """

    options: TriggerlessOptions = field(default_factory=TriggerlessOptions)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    format: str = "triggerless"

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """Finds the files of the tables; their names tell their kinds."""
        return file_splits.files(paths, may_be_none=may_be_none)

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[Split]:  # noqa: ARG002
        """One split per table."""
        splits = []
        for name, files in input_files.by_table(self.files(paths), self.options).items():
            sizes = [path.stat().st_size for path in files]
            payload = {"table": name, "files": [str(path) for path in files], "sizes": sizes}
            size, text = sum(sizes), json.dumps(payload, ensure_ascii=False)
            splits.append(Split(str(files[0]), "table", 0, len(files), 1, size, size, text))
        return splits

    def compare_tables(
        self,
        paths: Sequence[Path],
        given: ComparisonContext,
        run: Run,
        *,
        database: DatabaseOptions | None = None,
        text_of: Callable[[Any], str | None] = str,
    ) -> tuple[Split, ...]:
        """Compares tables by means of ``run`` and returns the splits of the differences.

        Raises ``FatalError`` if tables, files or state do not fit, ``UnreachableError``.
        """
        with ExitStack() as stack:
            if paths:
                by_table = input_files.files_by_table(paths, self.options)
                tables = file_inputs(by_table, self.options, self.snapshot, given)
            else:
                assert database is not None  # the settings require it
                tables = live_inputs(database, self.options, self.snapshot, given, stack, text_of)
            comparison = comparison_of(tables, self.options, given, database, text_of)
            return finish_comparison(comparison, run(comparison), given, self.options)

    def read(self, split: Split, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Reads batches of ``RECORD_SCHEMA``, the tally last."""
        if split.kind == "found":
            yield from _DifferenceReader(split, number, ctx).batches()
            return
        with TemporaryDirectory(prefix="xds-publisher-") as folder:
            for differences in self._compare_here(split, ctx.catalogue, Path(folder)):
                yield from _DifferenceReader(differences, number, ctx).batches()

    def position_text(self, position: Position) -> str:
        """``TABLE:COMPARISON:NUMBER``."""
        return f"{position.part}:{position.high}:{position.low}"

    def parse_position(self, text: str) -> Position:
        """Parses a position that a user wrote.  Raises ``UsageError``."""
        part, *numbers = text.strip().rsplit(":", 2)
        if not part or len(numbers) < 2 or not all(n.isascii() and n.isdigit() for n in numbers):
            raise UsageError(
                f"{text!r} is not a position of a comparison; write TABLE:COMPARISON:NUMBER"
            )
        return Position(part, int(numbers[0]), int(numbers[1]), 0)

    def raw(self, split: Split, row: int) -> str | None:
        """One change as JSON text; ``None`` if the differences are no longer kept."""
        if split.kind == "found":
            return _raw(split, row)
        catalogue = JobCatalogue(())
        with TemporaryDirectory(prefix="xds-publisher-") as folder:
            for differences in self._compare_here(split, catalogue, Path(folder)):
                return _raw(differences, row)
        return None

    def _compare_here(self, split: Split, catalogue: Catalogue, folder: Path) -> tuple[Split, ...]:
        """Compares a table in this process and returns the split of its differences."""
        payload = json.loads(split.found)
        paths = [Path(name) for name in payload["files"]]
        if [path.stat().st_size for path in paths] != payload["sizes"]:
            raise FatalError(f"{split.path} has changed since the run began; start again")
        given = ComparisonContext(catalogue, folder, wanted=1, keep=False)
        return self.compare_tables(paths, given, compare_here)


class _DifferenceReader:
    """Reads the differences of a table."""

    def __init__(self, split: Split, number: int, ctx: Context) -> None:
        payload = json.loads(split.found)
        self._split = split
        self._payload: Mapping[str, Any] = payload
        self._lanes = ctx.lanes
        name, self._schema, self._table = payload["table"]
        self._place = Place(ctx.source, number, name, ctx.lanes)
        self._part = name
        self._hash = table_hash(self._schema, self._table)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Reads batches of ``RECORD_SCHEMA``, the tally last."""
        for reason in (Reason.UNCHANGED, Reason.BASELINE):
            if self._payload[reason]:
                yield self._summary(reason, self._payload[reason])
        first = self._split.first
        for differences in _difference_batches(self._split):
            yield self._records(differences, first)
            first += differences.num_rows
        yield tally(self._place, self._payload["read"])

    def _summary(self, reason: Reason, rows: int) -> pa.RecordBatch:
        """One record for all rows that are ignored for the same reason."""
        return batch(
            1,
            source=self._place.source,
            lane=self._place.split % self._lanes,
            part=self._part,
            rank=0,
            high=self._payload["generation"],
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

    def _records(self, differences: pa.RecordBatch, first: int) -> pa.RecordBatch:
        count = differences.num_rows
        numbers = np.arange(first, first + count, dtype=np.int64)
        return batch(
            count,
            source=self._place.source,
            lane=self._record_lanes(differences.column("key"), numbers),
            part=self._part,
            rank=numbers,
            high=self._payload["generation"],
            low=numbers,
            ordinal=0,
            split=self._place.split,
            row=numbers,
            records=1,
            schema=self._schema,
            table=self._table,
            **{name: differences.column(name) for name in _DIFFERENCE_COLUMNS},
        )

    def _record_lanes(self, keys: pa.Array, numbers: np.ndarray) -> pa.Array:
        lanes = key_lanes(self._hash, keys, self._lanes)
        if keys.null_count:
            without_key = keys.is_null().to_numpy(zero_copy_only=False)
            lanes = np.where(without_key, record_lanes(self._place, numbers), lanes)
        return pa.array(lanes, pa.int32())


_SHOWN = ("key", "event_type", "columns", "old", "new")
_DIFFERENCE_COLUMNS = (*_SHOWN, "outcome", "reason", "detail", "raw")


def _difference_batches(split: Split) -> Iterator[pa.RecordBatch]:
    folder = current_path(Path(split.path))
    for name in json.loads(split.found)["files"]:
        try:
            with pq.ParquetFile(folder / name) as file:
                yield from file.iter_batches(_ROWS, use_threads=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise FatalError(f"{folder / name} cannot be read ({error}): publish again") from error


def _raw(split: Split, row: int) -> str | None:
    if not row:
        payload = json.loads(split.found)
        return as_json({reason: payload[reason] for reason in ("unchanged", "baseline")})
    first = split.first
    for differences in _difference_batches(split):
        if row < first + differences.num_rows:
            record = differences.slice(row - first, 1).to_pylist()[0]
            raw: str | None = record["raw"]
            return raw or as_json({name: record[name] for name in _SHOWN})
        first += differences.num_rows
    return None
