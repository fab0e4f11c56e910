"""The tasks of a comparison, independent of the engine: decode a split, relate the rows of a bucket."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from publisher.formats.columns.private_tables import write_table
from publisher.formats.columns.record_batches import batch_of
from publisher.formats.task_runner import TaskRunner
from publisher.formats.triggerless.changed_keys import find_candidates
from publisher.formats.triggerless.comparison import (
    BucketResult,
    Comparison,
    PieceKind,
    TableWork,
)
from publisher.formats.triggerless.decode import PIECE_SCHEMA, decode, reject_batch
from publisher.formats.triggerless.differences import DIFFERENCE_SCHEMA, TableRows
from publisher.formats.triggerless.objects import BucketObjects, join_objects, orphan_faults
from publisher.formats.triggerless.relate import (
    ComparisonRules,
    KnownRows,
    RelatedRows,
    changes,
    no_known_rows,
    relate,
)
from publisher.formats.triggerless.state import FOUND, KNOWN, known_rows, write_known_rows
from publisher.model.change import Outcome
from publisher.model.packed_batches import unpack_batch

Pieces = dict[tuple[PieceKind, int], list[pa.RecordBatch]]
"""The pieces of a bucket by their kind and the number of their table in its class."""


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
        return len(self.comparison.buckets())

    @property
    def schema(self) -> pa.Schema:
        """Schema of the pieces of buckets."""
        return PIECE_SCHEMA

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a split."""
        return decode(self.comparison, part)

    def process(self, partition: int, pieces: Iterable[pa.RecordBatch], attempt: str) -> str:
        """Compares a bucket; returns its ``BucketResult`` as JSON."""
        return relate_bucket(self.comparison, partition, pieces, attempt).to_json()


def run_comparison(comparison: Comparison, tasks: TaskRunner) -> list[BucketResult]:
    """Compares all tables; the tasks write into the target folder, which no run uses yet."""
    for name in (FOUND, KNOWN):
        (Path(comparison.target) / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    return [BucketResult.from_json(text) for text in tasks.shuffle(CompareWork(comparison))]


def relate_bucket(
    comparison: Comparison, partition: int, batches: Iterable[pa.RecordBatch], attempt: str
) -> BucketResult:
    """Relates the rows of one bucket; writes changes and new state under the name of the attempt."""
    table = comparison.tables[comparison.buckets()[partition][0]]
    columns, pieces = table.shape.columns, _unpack(batches)
    size = sum(
        b.nbytes for (kind, _), rows in pieces.items() for b in rows if kind is PieceKind.NOW
    )
    rules = _rules_without(table, [n for kind, n in pieces if kind is PieceKind.UNREADABLE])
    known = _known_rows(table, pieces)
    objects = _take_objects(table, pieces, PieceKind.NOW)
    relation = relate(columns, objects.rows, known, rules)
    rejected = [b for (kind, _), rows in pieces.items() for b in rows if kind is PieceKind.REJECTED]
    unreadable = sum(batch.num_rows for batch in rejected)
    orphans = [] if table.is_part else list(orphan_faults(table.shape, objects))
    differences = changes(columns, relation, rules)
    found = _with_rejects(differences, [*rejected, reject_batch(orphans)])
    name = f"{partition:05d}-{attempt}.parquet"
    target = Path(comparison.target)
    write_table(found, target / FOUND / name, compression="zstd")
    if comparison.keep:
        write_known_rows(target / KNOWN / name, relation.next, columns, rules.keeps)
    tallies = [row for (kind, _), rows in pieces.items() if kind is PieceKind.TALLY for row in rows]
    return BucketResult(
        partition,
        tuple((tally["split"][0].as_py(), tally["rows"][0].as_py()) for tally in tallies),
        unreadable,
        objects.merged + sum(map(len, objects.orphans)) - len(orphans),
        len(orphans),
        relation.counts,
        name,
        found.num_rows,
        name if comparison.keep else None,
        size,
        relation.emptied,
        _write_candidates(table, relation, rules, target / FOUND / f"keys-{name}"),
        tuple(objects.rows.keys.unique().to_pylist()) if table.condition.keys else (),
    )


def _unpack(batches: Iterable[pa.RecordBatch]) -> Pieces:
    pieces: Pieces = defaultdict(list)
    for batch in batches:
        kinds, members = batch["kind"].to_pylist(), batch["member"].to_pylist()
        for kind, member, data in zip(kinds, members, batch["data"], strict=True):
            rows = unpack_batch(data.as_buffer()) if len(data.as_buffer()) else None
            pieces[PieceKind(kind), member] += [] if rows is None else [rows]
    return pieces


def _take_objects(table: TableWork, pieces: Pieces, kind: PieceKind) -> BucketObjects:
    """Joins the rows of a class to objects, and releases the memory of their pieces."""
    members = (table.shape, *table.shape.children)
    rows = [
        TableRows.of_batches(pieces.pop((kind, n), []), len(member.others))
        for n, member in enumerate(members)
    ]
    return join_objects(table.shape, rows)


def _known_rows(table: TableWork, pieces: Pieces) -> KnownRows:
    """The rows of the state, or without a state those of an earlier snapshot."""
    columns, keeps = table.shape.columns, table.rules.keeps
    known = known_rows(pieces.pop((PieceKind.STATE, 0), []), len(columns), keeps)
    if any(kind is PieceKind.BEFORE for kind, _ in pieces):
        rules = ComparisonRules(keeps, multiple=table.shape.multiple)
        before = _take_objects(table, pieces, PieceKind.BEFORE).rows
        known = relate(columns, before, no_known_rows(keeps, len(columns)), rules).next
    return known


def _rules_without(table: TableWork, unreadable: Sequence[int]) -> ComparisonRules:
    """The rules for tables of which some rows are unreadable."""
    rules, children = table.rules, table.shape.children
    if 0 in unreadable:  # an unreadable row may be one that seems to be deleted
        rules = replace(rules, deletes=False)
    unknown = [name for number in unreadable if number for name in children[number - 1].columns]
    return replace(rules, unknown=frozenset(unknown))


def _write_candidates(
    table: TableWork, relation: RelatedRows, rules: ComparisonRules, path: Path
) -> str | None:
    """Writes the rows whose key may have changed; returns the name of the file, if there are any.

    An unreadable row may have the value that joins two rows, so that no keys are joined."""
    if not table.finds_changed_keys or not rules.deletes or rules.unknown:
        return None
    candidates = find_candidates(table.shape.columns, table.shape.key_change_by, relation)
    if not candidates.num_rows:
        return None
    write_table(candidates, path, compression="zstd")
    return path.name


def _with_rejects(differences: pa.RecordBatch, rejected: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Appends rejected rows to the differences."""
    batch = pa.concat_batches(rejected)  # rejects arrive in any order
    batch = batch.sort_by([("detail", "ascending"), ("raw", "ascending")])
    columns = {name: batch[name] for name in batch.schema.names}
    rejects = batch_of(DIFFERENCE_SCHEMA, batch.num_rows, outcome=Outcome.REJECTED.value, **columns)
    return pa.concat_batches([differences, rejects])
