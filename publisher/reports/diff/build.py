"""Compares two ledgers: partitions their rows by object, then compares object by object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from math import lcm
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.ledger.parts import LedgerPart
from publisher.ledger.read import scan_runs
from publisher.reports.diff.compare_objects import (
    ComparedDocument,
    ComparedRecord,
    DocumentMatches,
    DocumentPlace,
    ObjectRows,
    compare_operations,
    match_documents,
    pair_records,
)
from publisher.reports.diff.differences import DifferenceBuilder, LedgerDiff, LedgerSummary
from publisher.reports.diff.ledger_rows import (
    ROW_SCHEMA,
    LedgerRowKind,
    LedgerRowReader,
    names_of_sources,
)
from publisher.reports.diff.moved_items import MovedItems, ObjectName
from publisher.reports.diff.operations import read_operations
from publisher.reports.diff.partition_files import PartitionFiles, text_partitions

ROWS_OF_PARTITION = 100_000
MAX_PARTITIONS = 256


def diff_ledgers(first: Path, second: Path, examples: int = 3) -> LedgerDiff:
    """Compares two ledgers, directories of ``replay``, or all runs of two jobs.

    Starts no Spark.  Memory depends on the largest lane and segment, not on the number of differences;
    a copy of identities and digests goes to temporary files.

    Raises:
        UsageError: A directory has no ledger with a complete run, or its documents were moved.
        FatalError: A ledger is damaged, or another version of the program wrote it.
    """
    with ExitStack() as stack:
        sides = [list(scan_runs(directory)) for directory in (first, second)]
        rows = stack.enter_context(PartitionFiles(ROW_SCHEMA, _partitions(sides)))
        moved = stack.enter_context(MovedItems(rows.count))
        differences = DifferenceBuilder(sides, moved, examples)
        sources = names_of_sources(sides[0]) & names_of_sources(sides[1])
        for side, parts in enumerate(sides):
            reader = LedgerRowReader(side, sources)
            for number, part in enumerate(parts):
                for table in reader.read(number, part):
                    rows.add(table, text_partitions(table["group"], rows.count))
        for partition in rows.read():
            _compare_partition(partition, sides, differences)
        summaries = map(_summarize, map(str, (first, second)), sides)
        return differences.finish(*summaries)


def _summarize(name: str, parts: Sequence[LedgerPart]) -> LedgerSummary:
    manifests = {run.manifest.run: run.manifest for part in parts for run in part.runs}.values()
    return LedgerSummary(
        ledger=name,
        runs=len(manifests),
        records=sum(manifest.records_read for manifest in manifests),
        documents=sum(result.documents for m in manifests for result in m.results),
    )


def _partitions(sides: Sequence[Sequence[LedgerPart]]) -> int:
    """Number of partitions: a multiple of the lanes, if that is not too large."""
    manifests = {
        (side, run.manifest.run): run.manifest
        for side, parts in enumerate(sides)
        for part in parts
        for run in part.runs
    }.values()
    rows = sum(m.records_read + sum(r.documents for r in m.results) for m in manifests)
    wanted = rows // ROWS_OF_PARTITION + 1
    lanes = lcm(*(manifest.lanes for manifest in manifests))
    return min(MAX_PARTITIONS, wanted if wanted < lanes else wanted // lanes * lanes)


class _Unequal(NamedTuple):
    """An object that is not the same on both sides, with its documents already compared."""

    name: ObjectName
    sides: tuple[ObjectRows, ObjectRows]
    documents: DocumentMatches


def _compare_partition(
    rows: pa.Table, sides: Sequence[Sequence[LedgerPart]], differences: DifferenceBuilder
) -> None:
    unequal = _drop_equal_objects(rows, differences)
    objects = [
        _Unequal(name, found, match_documents(found[0].documents, found[1].documents))
        for name, found in _objects(unequal)
    ]
    rests = (
        [document for each in objects for document in each.documents.rest_first],
        [document for each in objects for document in each.documents.rest_second],
    )
    operations = [read_operations(parts, rest) for parts, rest in zip(sides, rests, strict=True)]
    for each in objects:
        first, second = each.sides
        differences.add_object(
            each.name,
            documents=each.documents.counts,
            records=pair_records(first.records, second.records),
            operations=compare_operations(
                [op for d in each.documents.rest_first for op in operations[0][d.place]],
                [op for d in each.documents.rest_second for op in operations[1][d.place]],
                each.documents.same,
            ),
        )


def _drop_equal_objects(rows: pa.Table, differences: DifferenceBuilder) -> pa.Table:
    """Counts the objects that are the same; returns the rows of the others, by object, in their order."""
    rows = rows.append_column("code", rows["group"].combine_chunks().dictionary_encode().indices)
    rows = rows.sort_by([(name, "ascending") for name in ("code", "kind", "side", "part", "row")])
    keys = np.stack([rows[name].to_numpy() for name in ("code", "kind", "side")])
    starts = np.flatnonzero(np.any(np.diff(keys, prepend=-1), axis=0))
    lengths = np.diff(starts, append=rows.num_rows)
    index = np.arange(rows.num_rows) - np.repeat(starts, lengths)
    identity = pc.if_else(rows["is_known"], rows["name"], "")
    compared = rows.append_column("index", pa.array(index)).append_column("identity", identity)
    found = compared.group_by(["code", "kind", "index", *_COMPARED]).aggregate([("side", "count")])
    alone = pc.equal(found["side_count"], 1)
    codes = found.filter(alone)["code"].combine_chunks().unique()
    is_unequal = pc.is_in(rows["code"], value_set=codes)
    same = rows.filter(pc.and_(pc.invert(is_unequal), pc.equal(rows["side"], 0)))
    objects = same.filter(same["has_object"])["code"]
    differences.add_same(
        objects=len(objects.unique()),
        records=pc.sum(same["records"]).as_py() or 0,
        documents=pc.sum(pc.equal(same["kind"], int(LedgerRowKind.DOCUMENT))).as_py() or 0,
        operations=pc.sum(same["operations"]).as_py() or 0,
    )
    return rows.filter(is_unequal)


_OF_RECORD = ("outcome", "reason", "records")
_COMPARED = ("identity", "outcome", "reason", "digest")
"""Columns that are equal in equal rows."""


def _objects(rows: pa.Table) -> Iterator[tuple[ObjectName, tuple[ObjectRows, ObjectRows]]]:
    """Groups sorted rows by object."""
    batches = rows.to_batches(max_chunksize=4096)
    entries: Iterable[dict[str, Any]] = (entry for b in batches for entry in b.to_pylist())
    for _, of_object in groupby(entries, key=itemgetter("code")):
        sides = (ObjectRows(), ObjectRows())
        for entry in of_object:
            side = sides[entry["side"]]
            origin = (entry["name"], entry["is_known"])
            if entry["kind"] == LedgerRowKind.RECORD:
                side.records.append(ComparedRecord(*origin, *(entry[name] for name in _OF_RECORD)))
            else:
                place = DocumentPlace(entry["part"], entry["row"], entry["length"])
                side.documents.append(
                    ComparedDocument(*origin, entry["digest"], entry["operations"], place)
                )
        is_alone = not all(side.records or side.documents for side in sides)
        yield ObjectName(entry["group"], entry["has_object"], is_alone), sides
