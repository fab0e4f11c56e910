"""What the tasks of a comparison do, without the engine that runs them: read a split, compare a bucket."""

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
from publisher.model.change import Outcome, Reason
from publisher.sources.columns.columns import texts
from publisher.sources.columns.object_names import Fault
from publisher.sources.columns.record_batches import as_json
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import Split
from publisher.sources.files.frame import Frame
from publisher.sources.files.options import Columns
from publisher.sources.live import table_reader
from publisher.sources.live.table_reader import TableSplit
from publisher.sources.triggerless.carry_over import FOUND, KNOWN, linked
from publisher.sources.triggerless.compare import Counts, Known, Rules, compare, nothing_known
from publisher.sources.triggerless.comparison import BucketResult, Comparison, SplitWork, TableWork
from publisher.sources.triggerless.differences import FOUND_SCHEMA, Rows
from publisher.sources.triggerless.shuffle_pieces import (
    Kind,
    Packer,
    each,
    marks,
    rows_of,
    unpacked,
)
from publisher.sources.triggerless.state_files import read_known, write_known
from publisher.sources.triggerless.table_shape import Read, read_rows


def read_pieces(comparison: Comparison, number: int) -> Iterator[pa.RecordBatch]:
    """The rows of split ``number`` as batches of ``PIECE_SCHEMA``.

    Raises ``FatalError`` where an earlier snapshot has a row that cannot be read.
    """
    work = comparison.splits()[number]
    table = comparison.tables[work.table]
    kind = Kind.NOW if work.side == "now" else Kind.BEFORE
    packer = Packer(comparison.first_partition(work.table), table.buckets, kind, number)
    framed, blind = 0, False
    if not number:
        yield from marks(comparison)
    for frame in _frames(comparison, table, work):
        read = _read(comparison, work, table, frame)
        yield from packer.add(read.hashes, read.keys, read.values)
        faults = _faults(work, frame, read)
        framed += len(read.keys) + len(faults) if table.condition.keys else _framed(frame)
        if faults and kind is Kind.BEFORE:
            raise FatalError(f"{faults[0][0].detail}; an earlier snapshot must be read wholly")
        if faults:
            blind = True
            yield packer.rejected(faults)
    yield from packer.rest()
    if blind:
        yield from packer.blind()
    if kind is Kind.NOW:
        yield packer.tally(framed)


@dataclass(slots=True)
class _Sides:
    """The pieces of a bucket, by what they are."""

    now: list[pa.RecordBatch] = field(default_factory=list)
    before: list[pa.RecordBatch] = field(default_factory=list)
    rejected: list[pa.RecordBatch] = field(default_factory=list)
    tallies: list[tuple[int, int]] = field(default_factory=list)
    blind: bool = False
    """Whether rows of the table could not be read."""

    @classmethod
    def of(cls, pieces: Iterable[pa.RecordBatch]) -> _Sides:
        sides = cls()
        data_of = {Kind.NOW: sides.now, Kind.BEFORE: sides.before, Kind.REJECTED: sides.rejected}
        for kind, split, count, data in each(pieces):
            if data is not None:
                data_of[kind].append(unpacked(data))
            elif kind is Kind.TALLY:
                sides.tallies.append((split, count))
            sides.blind = sides.blind or kind is Kind.BLIND
        return sides


def compare_bucket(
    comparison: Comparison, partition: int, pieces: Iterable[pa.RecordBatch], attempt: str
) -> BucketResult:
    """Compares one bucket; writes what was found and the new state under the attempt's own name."""
    number, bucket = comparison.place(partition)
    table = comparison.tables[number]
    columns = table.shape.columns
    sides = _Sides.of(pieces)
    size = sum(batch.nbytes for batch in sides.now)
    known = _known(table, bucket, sides.before)
    rules = table.rules
    if sides.blind:  # a row that cannot be read may be one that seems to be gone
        rules = replace(rules, deletes=False)
    compared = compare(columns, _all_rows(sides.now, len(columns)), known, rules)
    found = _with_rejected(compared.found, sides.rejected)
    name = f"{partition:05d}-{attempt}.parquet"
    target = Path(comparison.target)
    pq.write_table(pa.Table.from_batches([found]), target / FOUND / name, compression="zstd")
    if comparison.keep:
        same = _same_file(table, bucket, compared.counts)
        if same is not None:
            linked(same, target / KNOWN / name)
        else:
            write_known(target / KNOWN / name, compared.known, columns, rules.keeps)
    return BucketResult(
        partition,
        tuple(sorted(sides.tallies)),
        sum(batch.num_rows for batch in sides.rejected),
        compared.counts,
        name,
        found.num_rows,
        name if comparison.keep else None,
        len(compared.known),
        size,
    )


def _same_file(table: TableWork, bucket: int, counts: Counts) -> Path | None:
    """The file of the state that a bucket may keep, for nothing in it has changed."""
    known = table.known
    if known is None or known.columns != table.shape.columns or len(known.files) != table.buckets:
        return None
    if counts.added or counts.changed or counts.baseline or counts.vanished:
        return None
    return Path(known.folder) / known.files[bucket]


def folders(comparison: Comparison) -> None:
    """Makes the folders that the tasks write into."""
    for name in (FOUND, KNOWN):
        (Path(comparison.target) / name).mkdir(parents=True, exist_ok=True, mode=0o700)


def compare_here(comparison: Comparison) -> list[BucketResult]:
    """The whole comparison in this process, for a few rows: all of them are held in memory."""
    folders(comparison)
    pieces: dict[int, list[pa.RecordBatch]] = {}
    for number in range(len(comparison.splits())):
        for batch in read_pieces(comparison, number):
            for row, partition in enumerate(batch.column("partition").to_pylist()):
                pieces.setdefault(partition, []).append(batch.slice(row, 1))
    return [
        compare_bucket(comparison, partition, pieces.pop(partition), "here")
        for partition in range(comparison.partitions)
    ]


def checked(comparison: Comparison, results: list[BucketResult]) -> list[BucketResult]:
    """The results by partition.  Raises ``InternalError`` unless every row that was read was compared."""
    results = sorted(results, key=lambda result: result.partition)
    if [result.partition for result in results] != list(range(comparison.partitions)):
        raise InternalError("a part of the comparison gave no result: publish again, report this")
    read: dict[int, int] = {}
    for result in results:
        for split, rows in result.tallies:
            if split in read:
                raise InternalError(f"split {split} was counted twice: publish again, report this")
            read[split] = rows
    wanted = {number for number, work in enumerate(comparison.splits()) if work.side == "now"}
    met = sum(result.counts.read + result.unreadable for result in results)
    if read.keys() != wanted or sum(read.values()) != met:
        raise InternalError(
            f"{sum(read.values())} rows were read, {met} were compared: nothing was published; run again,"
            " and report this if it stays so"
        )
    return results


def _read(comparison: Comparison, work: SplitWork, table: TableWork, frame: Frame) -> Read:
    where, binary = table.shape.source_name, comparison.binary_text
    if isinstance(work.split, Split):
        where = work.split.path
    else:
        binary = "base64"  # as tables are read
    read = read_rows(table.shape, frame.batch, binary, where)
    return read.with_keys(table.condition.keys) if table.condition.keys else read


def _framed(frame: Frame) -> int:
    return int(frame.batch.num_rows) + len(frame.broken)


def _faults(work: SplitWork, frame: Frame, read: Read) -> list[tuple[Fault, str]]:
    """What could not be read of a frame: why, and the record as JSON text."""
    faults = []
    for broken in frame.broken:
        fault = Fault(Reason.BROKEN_RECORD, broken.reason)
        faults.append((_placed(fault, work, broken.row), as_json(broken.raw)))
    for row, fault in sorted(read.faults.items()):
        raw = as_json(frame.batch.slice(row, 1).to_pylist()[0])
        faults.append((_placed(fault, work, int(frame.rows[row])), raw))
    return faults


def _frames(comparison: Comparison, table: TableWork, work: SplitWork) -> Iterator[Frame]:
    """The rows of a split that a condition on columns asks for."""
    for frame in _all_frames(comparison, table, work):
        yield _chosen(frame, table)


def _all_frames(comparison: Comparison, table: TableWork, work: SplitWork) -> Iterator[Frame]:
    if isinstance(work.split, Split):
        names = table.shape.read
        columns = Columns(names, optional=frozenset(names), closed=True)
        return file_splits.frames(work.split, table.reading, columns)
    return _live_frames(comparison, table, work.split)


def _live_frames(comparison: Comparison, table: TableWork, split: TableSplit) -> Iterator[Frame]:
    assert comparison.database is not None
    assert table.live is not None
    with Database(comparison.database) as database:
        yield from table_reader.read(database, table.live, split, comparison.text_of)


def _chosen(frame: Frame, table: TableWork) -> Frame:
    asked = [
        pair for pair in table.condition.equal if table.live is None or pair != table.live.where
    ]
    if not asked or not frame.batch.num_rows:
        return frame
    chosen = np.ones(frame.batch.num_rows, bool)
    for name, value in asked:
        column = texts(frame.batch.column(name))[0]
        equal = pc.fill_null(pc.equal(column, value), False)
        chosen &= equal.to_numpy(zero_copy_only=False)
    return Frame(frame.batch.filter(pa.array(chosen)), frame.rows[chosen], frame.broken)


def _all_rows(batches: list[pa.RecordBatch], columns: int) -> Rows:
    """The rows of pieces, which are let go."""
    rows = rows_of(batches, columns)
    batches.clear()
    return rows


def _placed(fault: Fault, work: SplitWork, row: int) -> Fault:
    if not isinstance(work.split, Split):
        return fault
    return fault._replace(detail=f"{Path(work.split.path).name}, record {row}: {fault.detail}")


def _known(table: TableWork, bucket: int, before: list[pa.RecordBatch]) -> Known:
    columns, keeps = table.shape.columns, table.rules.keeps
    if table.known is not None:
        return read_known(table.known, bucket, table.buckets, columns, keeps)
    nothing = nothing_known(keeps, len(columns))
    if not before:
        return nothing
    return compare(columns, rows_of(before, len(columns)), nothing, Rules(keeps)).known


def _with_rejected(found: pa.RecordBatch, rejected: list[pa.RecordBatch]) -> pa.RecordBatch:
    """What was found, behind it what could not be read."""
    if not rejected:
        return found
    batch = pa.concat_batches(rejected)  # they come in any order
    batch = batch.sort_by([("detail", "ascending"), ("raw", "ascending")])
    given = {name: batch.column(name) for name in batch.schema.names}
    given["outcome"] = pa.repeat(pa.scalar(Outcome.REJECTED.value, pa.int32()), batch.num_rows)
    arrays = [given.get(f.name, pa.nulls(batch.num_rows, f.type)) for f in FOUND_SCHEMA]
    return pa.concat_batches([found, pa.RecordBatch.from_arrays(arrays, schema=FOUND_SCHEMA)])
