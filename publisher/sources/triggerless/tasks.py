"""The task functions of a comparison, independent of the engine: read a split, compare a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.database import Database
from publisher.errors import FatalError, InternalError
from publisher.journal.conservation import gather_tallies
from publisher.model.change import Outcome, Reason
from publisher.model.packed_batches import unpack_batch
from publisher.sources.columns.columns import texts
from publisher.sources.columns.object_names import RecordFault
from publisher.sources.columns.record_batches import as_json
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import Split
from publisher.sources.files.frame import Frame
from publisher.sources.files.options import ExpectedColumns
from publisher.sources.live import table_reader
from publisher.sources.live.table_reader import TableSplit
from publisher.sources.task_runner import TaskRunner
from publisher.sources.triggerless.carry_over import FOUND, KNOWN, link_or_copy
from publisher.sources.triggerless.compare import (
    ComparisonCounts,
    ComparisonRules,
    KnownRows,
    compare,
    no_known_rows,
)
from publisher.sources.triggerless.comparison import BucketResult, Comparison, SplitWork, TableWork
from publisher.sources.triggerless.differences import DIFFERENCE_SCHEMA, TableRows
from publisher.sources.triggerless.shuffle_pieces import (
    BUCKET_PIECE_SCHEMA,
    PieceKind,
    PiecePacker,
    each_piece,
    marks,
    rows_of,
)
from publisher.sources.triggerless.state_files import read_known_rows, write_known_rows
from publisher.sources.triggerless.table_shape import ComparableRows, read_rows


@dataclass(frozen=True, slots=True)
class CompareWork:
    """Implements ``ShuffleWork`` for a comparison: a partition is a bucket of a table."""

    comparison: Comparison

    @property
    def parts(self) -> int:
        """Number of splits."""
        return len(self.comparison.splits())

    @property
    def partitions(self) -> int:
        """Number of buckets of all tables."""
        return self.comparison.partitions

    @property
    def schema(self) -> pa.Schema:
        """Schema of the pieces of buckets."""
        return BUCKET_PIECE_SCHEMA

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a split."""
        return read_pieces(self.comparison, part)

    def process(self, partition: int, pieces: Iterable[pa.RecordBatch], attempt: str) -> str:
        """Compares a bucket; returns its ``BucketResult`` as JSON."""
        return compare_bucket(self.comparison, partition, pieces, attempt).to_json()


def run_comparison(comparison: Comparison, tasks: TaskRunner) -> list[BucketResult]:
    """Compares all tables; the tasks write into the target folder, which no run uses yet."""
    for name in (FOUND, KNOWN):
        (Path(comparison.target) / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    return [BucketResult.from_json(text) for text in tasks.shuffle(CompareWork(comparison))]


def read_pieces(comparison: Comparison, number: int) -> Iterator[pa.RecordBatch]:
    """Reads the rows of split ``number`` as batches of ``BUCKET_PIECE_SCHEMA``.

    Raises ``FatalError`` if an earlier snapshot has an unreadable row.
    """
    work = comparison.splits()[number]
    table = comparison.tables[work.table]
    kind = PieceKind.NOW if work.side == "now" else PieceKind.BEFORE
    packer = PiecePacker(comparison.first_partition(work.table), table.buckets, kind, number)
    record_count, has_faults = 0, False
    if not number:
        yield from marks(comparison)
    for frame in _frames(comparison, table, work):
        rows = _read_rows(comparison, work, table, frame)
        yield from packer.add(rows.hashes, rows.keys, rows.values)
        faults = _faults(work, frame, rows)
        record_count += len(rows.keys) + len(faults) if table.condition.keys else _row_count(frame)
        if faults and kind is PieceKind.BEFORE:
            raise FatalError(
                f"{faults[0][0].detail}; an earlier snapshot must be completely readable"
            )
        if faults:
            has_faults = True
            yield packer.rejects(faults)
    yield from packer.rest()
    if has_faults:
        yield from packer.blind()
    if kind is PieceKind.NOW:
        yield packer.tally(record_count)


@dataclass(slots=True)
class _Sides:
    """The pieces of a bucket by kind."""

    now: list[pa.RecordBatch] = field(default_factory=list)
    before: list[pa.RecordBatch] = field(default_factory=list)
    rejected: list[pa.RecordBatch] = field(default_factory=list)
    tallies: list[tuple[int, int]] = field(default_factory=list)
    blind: bool = False
    """Whether some rows of the table are unreadable."""

    @classmethod
    def of(cls, pieces: Iterable[pa.RecordBatch]) -> _Sides:
        sides = cls()
        data_of = {
            PieceKind.NOW: sides.now,
            PieceKind.BEFORE: sides.before,
            PieceKind.REJECTED: sides.rejected,
        }
        for kind, split, count, data in each_piece(pieces):
            if data is not None:
                data_of[kind].append(unpack_batch(data))
            elif kind is PieceKind.TALLY:
                sides.tallies.append((split, count))
            sides.blind = sides.blind or kind is PieceKind.BLIND
        return sides


def compare_bucket(
    comparison: Comparison, partition: int, pieces: Iterable[pa.RecordBatch], attempt: str
) -> BucketResult:
    """Compares one bucket; writes differences and new state under the name of the attempt."""
    number, bucket = comparison.place(partition)
    table = comparison.tables[number]
    columns = table.shape.columns
    sides = _Sides.of(pieces)
    size = sum(batch.nbytes for batch in sides.now)
    known = _read_known_rows(table, bucket, sides.before)
    rules = table.rules
    if sides.blind:  # an unreadable row may be one that seems to be deleted
        rules = replace(rules, deletes=False)
    result = compare(columns, _take_rows(sides.now, len(columns)), known, rules)
    differences = _with_rejects(result.differences, sides.rejected)
    name = f"{partition:05d}-{attempt}.parquet"
    target = Path(comparison.target)
    pq.write_table(pa.Table.from_batches([differences]), target / FOUND / name, compression="zstd")
    if comparison.keep:
        unchanged_file = _unchanged_file(table, bucket, result.counts)
        if unchanged_file is not None:
            link_or_copy(unchanged_file, target / KNOWN / name)
        else:
            write_known_rows(target / KNOWN / name, result.known, columns, rules.keeps)
    return BucketResult(
        partition,
        tuple(sorted(sides.tallies)),
        sum(batch.num_rows for batch in sides.rejected),
        result.counts,
        name,
        differences.num_rows,
        name if comparison.keep else None,
        len(result.known),
        size,
    )


def _unchanged_file(table: TableWork, bucket: int, counts: ComparisonCounts) -> Path | None:
    """The state file that a bucket can keep because none of its rows have changed."""
    known = table.known
    if known is None or known.columns != table.shape.columns or len(known.files) != table.buckets:
        return None
    if counts.added or counts.changed or counts.baseline or counts.vanished:
        return None
    return Path(known.folder) / known.files[bucket]


def check_results(comparison: Comparison, results: list[BucketResult]) -> list[BucketResult]:
    """Sorts results by partition.  Raises ``InternalError`` unless every row that was read was compared."""
    results = sorted(results, key=lambda result: result.partition)
    if [result.partition for result in results] != list(range(comparison.partitions)):
        raise InternalError(
            "a bucket of the comparison has no result: publish again, and report this if it happens again"
        )
    read = gather_tallies(result.tallies for result in results)
    expected = {number for number, work in enumerate(comparison.splits()) if work.side == "now"}
    compared = sum(result.counts.read + result.unreadable for result in results)
    if read.keys() != expected or sum(read.values()) != compared:
        raise InternalError(
            f"{sum(read.values())} rows were read, but {compared} were compared: nothing was published;"
            " run again, and report this if it happens again"
        )
    return results


def _read_rows(
    comparison: Comparison, work: SplitWork, table: TableWork, frame: Frame
) -> ComparableRows:
    where, binary = table.shape.source_name, comparison.binary_text
    if isinstance(work.split, Split):
        where = work.split.path
    else:
        binary = "base64"  # the encoding of table_reader
    rows = read_rows(table.shape, frame.batch, binary, where)
    return rows.with_keys(table.condition.keys) if table.condition.keys else rows


def _row_count(frame: Frame) -> int:
    return int(frame.batch.num_rows) + len(frame.broken)


def _faults(work: SplitWork, frame: Frame, rows: ComparableRows) -> list[tuple[RecordFault, str]]:
    """The faults of unreadable rows of a frame, each with the record as JSON text."""
    faults = []
    for broken in frame.broken:
        fault = RecordFault(Reason.BROKEN_RECORD, broken.reason)
        faults.append((_with_place(fault, work, broken.row), as_json(broken.raw)))
    for row, fault in sorted(rows.faults.items()):
        raw = as_json(frame.batch.slice(row, 1).to_pylist()[0])
        faults.append((_with_place(fault, work, int(frame.rows[row])), raw))
    return faults


def _frames(comparison: Comparison, table: TableWork, work: SplitWork) -> Iterator[Frame]:
    """Reads the rows of a split that match the conditions on columns."""
    for frame in _all_frames(comparison, table, work):
        yield _filter_rows(frame, table)


def _all_frames(comparison: Comparison, table: TableWork, work: SplitWork) -> Iterator[Frame]:
    if isinstance(work.split, Split):
        names = table.shape.read
        columns = ExpectedColumns(names, optional=frozenset(names), closed=True)
        return file_splits.frames(work.split, table.reading, columns)
    return _live_frames(comparison, table, work.split)


def _live_frames(
    comparison: Comparison, table: TableWork, split: TableSplit[None]
) -> Iterator[Frame]:
    assert comparison.database is not None
    assert table.live is not None
    with Database(comparison.database) as database:
        yield from table_reader.read(database, table.live, split, comparison.text_of)


def _filter_rows(frame: Frame, table: TableWork) -> Frame:
    conditions = [
        pair for pair in table.condition.equal if table.live is None or pair != table.live.where
    ]
    if not conditions or not frame.batch.num_rows:
        return frame
    matching = np.ones(frame.batch.num_rows, bool)
    for name, value in conditions:
        column = texts(frame.batch.column(name))[0]
        equal = pc.fill_null(pc.equal(column, value), False)
        matching &= equal.to_numpy(zero_copy_only=False)
    return Frame(frame.batch.filter(pa.array(matching)), frame.rows[matching], frame.broken)


def _take_rows(batches: list[pa.RecordBatch], columns: int) -> TableRows:
    """The rows of all pieces, whose memory is released."""
    rows = rows_of(batches, columns)
    batches.clear()
    return rows


def _with_place(fault: RecordFault, work: SplitWork, row: int) -> RecordFault:
    if not isinstance(work.split, Split):
        return fault
    return fault._replace(detail=f"{Path(work.split.path).name}, record {row}: {fault.detail}")


def _read_known_rows(table: TableWork, bucket: int, before: list[pa.RecordBatch]) -> KnownRows:
    columns, keeps = table.shape.columns, table.rules.keeps
    if table.known is not None:
        return read_known_rows(table.known, bucket, table.buckets, columns, keeps)
    no_rows = no_known_rows(keeps, len(columns))
    if not before:
        return no_rows
    return compare(columns, rows_of(before, len(columns)), no_rows, ComparisonRules(keeps)).known


def _with_rejects(differences: pa.RecordBatch, rejected: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Appends unreadable rows to the differences."""
    if not rejected:
        return differences
    batch = pa.concat_batches(rejected)  # rejects arrive in any order
    batch = batch.sort_by([("detail", "ascending"), ("raw", "ascending")])
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["outcome"] = pa.repeat(pa.scalar(Outcome.REJECTED.value, pa.int32()), batch.num_rows)
    arrays = [columns.get(f.name, pa.nulls(batch.num_rows, f.type)) for f in DIFFERENCE_SCHEMA]
    rejects = pa.RecordBatch.from_arrays(arrays, schema=DIFFERENCE_SCHEMA)
    return pa.concat_batches([differences, rejects])
