"""The task functions of a comparison, independent of the engine: read a split, compare a bucket."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.database.connection import Database
from publisher.errors import FatalError, InternalError
from publisher.ledger.conservation import gather_tallies
from publisher.ledger.durable import link_or_copy
from publisher.model.change import Outcome, Reason
from publisher.model.packed_batches import unpack_batch
from publisher.sources.columns.columns import texts
from publisher.sources.columns.object_names import RecordFault
from publisher.sources.columns.private_tables import write_table
from publisher.sources.columns.record_batches import as_json
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import Split
from publisher.sources.files.frame import Frame
from publisher.sources.files.options import ExpectedColumns
from publisher.sources.live import table_reader
from publisher.sources.task_runner import TaskRunner
from publisher.sources.triggerless.carry_over import FOUND, KNOWN
from publisher.sources.triggerless.changed_keys import find_candidates
from publisher.sources.triggerless.compare import (
    ComparisonCounts,
    ComparisonResult,
    ComparisonRules,
    KnownRows,
    compare,
    no_known_rows,
)
from publisher.sources.triggerless.comparison import BucketResult, Comparison, SplitWork, TableWork
from publisher.sources.triggerless.differences import DIFFERENCE_SCHEMA, TableRows
from publisher.sources.triggerless.objects import BucketObjects, join_objects, orphan_faults
from publisher.sources.triggerless.shuffle_pieces import (
    BUCKET_PIECE_SCHEMA,
    PieceKind,
    PiecePacker,
    each_piece,
    marks,
    reject_batch,
    rows_of,
)
from publisher.sources.triggerless.state_files import read_known_rows, write_known_rows
from publisher.sources.triggerless.table_shape import ComparableRows, TableShape, read_rows
from publisher.sources.triggerless.unpublished import restore_unpublished


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
    first = comparison.first_partition(work.table)
    packers = {
        member: PiecePacker(first, table.buckets, kind, number, member) for member in work.members
    }
    record_count, unreadable = 0, set()
    if not number:
        yield from marks(comparison)
    for member, frame in _frames(comparison, table, work):
        rows = _read_rows(comparison, work, table, member, frame)
        yield from packers[member].add(rows.hashes, rows.keys, rows.values)
        faults = _faults(work, table.tables[member].shape, frame, rows)
        count = len(rows.keys) if table.condition.keys else frame.batch.num_rows - len(rows.faults)
        record_count += count + len(faults)
        if faults and kind is PieceKind.BEFORE:
            raise FatalError(
                f"{faults[0][0].detail}; an earlier snapshot must be completely readable"
            )
        if faults:
            yield packers[member].rejects(faults)
        if any(may_concern_objects(fault, member) for fault, _ in faults):
            unreadable.add(member)
    for member, packer in packers.items():
        yield from packer.rest()
        if member in unreadable:
            yield from packer.blind()
    if kind is PieceKind.NOW:
        yield packers[work.members[0]].tally(record_count)


def read_split_rows(
    comparison: Comparison, number: int
) -> Iterator[tuple[int, ComparableRows, list[RecordFault]]]:
    """Reads the rows of split ``number``, with the number of their table in its class, and all faults."""
    work = comparison.splits()[number]
    table = comparison.tables[work.table]
    for member, frame in _frames(comparison, table, work):
        rows = _read_rows(comparison, work, table, member, frame)
        yield member, rows, [f for f, _ in _faults(work, table.tables[member].shape, frame, rows)]


def may_concern_objects(fault: RecordFault, member: int) -> bool:
    """Tests whether an unreadable row may be one of a known object; a value without a key is of none."""
    return member == 0 or fault.reason is not Reason.TABLE_KEY


@dataclass(slots=True)
class _Sides:
    """The pieces of a bucket by kind."""

    now: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    """Rows by the number of their table in its class."""
    before: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    rejected: list[pa.RecordBatch] = field(default_factory=list)
    tallies: list[tuple[int, int]] = field(default_factory=list)
    blind: set[int] = field(default_factory=set)
    """Numbers of the tables with unreadable rows."""

    @property
    def bytes(self) -> int:
        """Size in memory of the text of all rows read."""
        return sum(batch.nbytes for batches in self.now.values() for batch in batches)

    @classmethod
    def of(cls, pieces: Iterable[pa.RecordBatch]) -> _Sides:
        sides = cls()
        rows_by_kind = {PieceKind.NOW: sides.now, PieceKind.BEFORE: sides.before}
        for piece in each_piece(pieces):
            if piece.kind in rows_by_kind:
                batches = rows_by_kind[piece.kind].setdefault(piece.member, [])
                batches.append(unpack_batch(piece.data))
            elif piece.kind is PieceKind.REJECTED:
                sides.rejected.append(unpack_batch(piece.data))
            elif piece.kind is PieceKind.TALLY:
                sides.tallies.append((piece.split, piece.rows))
            elif piece.kind is PieceKind.BLIND:
                sides.blind.add(piece.member)
        return sides


def compare_bucket(
    comparison: Comparison, partition: int, pieces: Iterable[pa.RecordBatch], attempt: str
) -> BucketResult:
    """Compares one bucket; writes differences and new state under the name of the attempt."""
    number, bucket = comparison.place(partition)
    table = comparison.tables[number]
    sides = _Sides.of(pieces)
    size = sides.bytes
    stored = _read_known_rows(table, bucket, sides.before)
    rules = _rules_without(table, sides.blind)
    objects = _take_objects(table.shape, sides.now)
    known, unpublished = restore_unpublished(objects.rows, stored, table, bucket, rules)
    result = compare(table.shape.columns, objects.rows, known, rules)
    orphans = [] if table.is_part else list(orphan_faults(table.shape, objects))
    rejected = [*sides.rejected, reject_batch(orphans)]
    differences = _with_rejects(result.differences, rejected)
    name = f"{partition:05d}-{attempt}.parquet"
    found, state = (Path(comparison.target) / folder for folder in (FOUND, KNOWN))
    write_table(differences, found / name, compression="zstd")
    known_name = None
    if comparison.keep:
        known_name = _write_state(table, bucket, result, state / name, known is not stored)
    return BucketResult(
        partition,
        tuple(sorted(sides.tallies)),
        sum(batch.num_rows for batch in sides.rejected),
        objects.merged + sum(map(len, objects.orphans)) - len(orphans),
        len(orphans),
        result.counts,
        name,
        differences.num_rows,
        known_name,
        len(result.known),
        size,
        result.emptied,
        _write_candidates(table, objects.rows, known, result, rules, found / f"keys-{name}"),
        tuple(objects.rows.keys.unique().to_pylist()) if table.condition.keys else (),
        unpublished,
    )


def _write_candidates(
    table: TableWork,
    rows: TableRows,
    known: KnownRows,
    result: ComparisonResult,
    rules: ComparisonRules,
    path: Path,
) -> str | None:
    """Writes the rows whose key may have changed; returns the name of the file, if there are any.

    An unreadable row may have the value that joins two rows, so that no keys are joined."""
    if not table.finds_changed_keys or not rules.deletes or rules.unknown:
        return None
    by = table.shape.key_change_by
    candidates = find_candidates(table.shape.columns, by, rows, known, result.differences)
    if not candidates.num_rows:
        return None
    write_table(candidates, path, compression="zstd")
    return path.name


def _write_state(
    table: TableWork, bucket: int, result: ComparisonResult, path: Path, has_restored: bool
) -> str:
    """Writes the known rows of a bucket for the next state, or links the last file if no row has changed.

    The last file has other rows than were compared if some were restored.  Returns the name of the file.
    """
    unchanged_file = None if has_restored else _unchanged_file(table, bucket, result.counts)
    if unchanged_file is None:
        write_known_rows(path, result.known, table.shape.columns, table.rules.keeps)
    else:
        link_or_copy(unchanged_file, path)
    return path.name


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
    compared = sum(result.read for result in results)
    if read.keys() != expected or sum(read.values()) != compared:
        raise InternalError(
            f"{sum(read.values())} rows were read, but {compared} were compared: nothing was published;"
            " run again, and report this if it happens again"
        )
    return results


def _read_rows(
    comparison: Comparison, work: SplitWork, table: TableWork, member: int, frame: Frame
) -> ComparableRows:
    shape = table.tables[member].shape
    where, binary = shape.source_name, comparison.binary_text
    if isinstance(work.split, Split):
        where = work.split.path
    else:
        binary = "base64"  # the encoding of table_reader
    rows = read_rows(shape, frame.batch, binary, where)
    return rows.with_keys(table.condition.keys) if table.condition.keys else rows


def _faults(
    work: SplitWork, shape: TableShape, frame: Frame, rows: ComparableRows
) -> list[tuple[RecordFault, str]]:
    """The faults of unreadable rows of a frame, each with the record as JSON text."""
    faults = []
    for broken in frame.broken:
        fault = RecordFault(Reason.BROKEN_RECORD, broken.reason)
        faults.append((_with_place(fault, work, shape, broken.row), as_json(broken.raw)))
    for row, fault in sorted(rows.faults.items()):
        raw = as_json(frame.batch.slice(row, 1).to_pylist()[0])
        faults.append((_with_place(fault, work, shape, int(frame.rows[row])), raw))
    return faults


def _frames(
    comparison: Comparison, table: TableWork, work: SplitWork
) -> Iterator[tuple[int, Frame]]:
    """Reads the rows of a split, with the number of their table; filters those of the parent."""
    for member, frame in _all_frames(comparison, table, work):
        yield member, frame if member else _filter_rows(frame, table)


def _all_frames(
    comparison: Comparison, table: TableWork, work: SplitWork
) -> Iterator[tuple[int, Frame]]:
    tables = [table.tables[member] for member in work.members]
    if isinstance(work.split, Split):
        (file_table,) = tables
        names = file_table.shape.read
        columns = ExpectedColumns(names, optional=frozenset(names), closed=True)
        for frame in file_splits.frames(work.split, file_table.reading, columns):
            yield work.members[0], frame
        return
    assert comparison.database is not None
    live = [table.live for table in tables if table.live is not None]
    with Database(comparison.database) as database:
        for place, frame in table_reader.read_together(
            database, live, work.split, comparison.text_of
        ):
            yield work.members[place], frame


def _filter_rows(frame: Frame, table: TableWork) -> Frame:
    live = table.tables[0].live
    conditions = [pair for pair in table.condition.equal if live is None or pair != live.where]
    if not conditions or not frame.batch.num_rows:
        return frame
    matching = np.ones(frame.batch.num_rows, bool)
    for name, value in conditions:
        column = texts(frame.batch.column(name))[0]
        equal = pc.fill_null(pc.equal(column, value), False)
        matching &= equal.to_numpy(zero_copy_only=False)
    return Frame(frame.batch.filter(pa.array(matching)), frame.rows[matching], frame.broken)


def _take_objects(shape: TableShape, batches: dict[int, list[pa.RecordBatch]]) -> BucketObjects:
    """The objects of all pieces, whose memory is released."""
    members = (shape, *shape.children)
    tables = [rows_of(batches.pop(n, []), len(m.others)) for n, m in enumerate(members)]
    return join_objects(shape, tables)


def _rules_without(table: TableWork, unreadable: Collection[int]) -> ComparisonRules:
    """The rules for tables of which some rows are unreadable."""
    rules, children = table.rules, table.shape.children
    if 0 in unreadable:  # an unreadable row may be one that seems to be deleted
        rules = replace(rules, deletes=False)
    unknown = [name for number in unreadable if number for name in children[number - 1].columns]
    return replace(rules, unknown=frozenset(unknown))


def _with_place(fault: RecordFault, work: SplitWork, shape: TableShape, row: int) -> RecordFault:
    if not isinstance(work.split, Split):
        return fault._replace(detail=f"{shape.source_name}: {fault.detail}")
    return fault._replace(detail=f"{Path(work.split.path).name}, record {row}: {fault.detail}")


def _read_known_rows(
    table: TableWork, bucket: int, before: dict[int, list[pa.RecordBatch]]
) -> KnownRows:
    columns, keeps = table.shape.columns, table.rules.keeps
    if table.known is not None:
        return read_known_rows(table.known, bucket, table.buckets, columns, keeps)
    no_rows = no_known_rows(keeps, len(columns))
    if not before:
        return no_rows
    rules = ComparisonRules(keeps, multiple=table.shape.multiple)
    return compare(columns, _take_objects(table.shape, before).rows, no_rows, rules).known


def _with_rejects(differences: pa.RecordBatch, rejected: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Appends rejected rows to the differences."""
    batch = pa.concat_batches(rejected)  # rejects arrive in any order
    if not batch.num_rows:
        return differences
    batch = batch.sort_by([("detail", "ascending"), ("raw", "ascending")])
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["outcome"] = pa.repeat(pa.scalar(Outcome.REJECTED.value, pa.int32()), batch.num_rows)
    arrays = [columns.get(f.name, pa.nulls(batch.num_rows, f.type)) for f in DIFFERENCE_SCHEMA]
    rejects = pa.RecordBatch.from_arrays(arrays, schema=DIFFERENCE_SCHEMA)
    return pa.concat_batches([differences, rejects])
