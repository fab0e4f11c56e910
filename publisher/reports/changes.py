"""Normalised changes for people and scripts, before filters and planning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from publisher.config.settings import Settings
from publisher.database.resources import Resources
from publisher.engine.local import LocalEngine
from publisher.formats.contract import Context, Source
from publisher.formats.masked_records import mask_records, masks_of
from publisher.formats.registry import FORMATS
from publisher.model.change import TALLY, Outcome, Position
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.runs.prepare import prepare_context
from publisher.runs.relate_groups import read_here


def inspect(settings: Settings, snapshots: Sequence[Path]) -> Iterator[str]:
    """Yields the records of files as JSON lines, in the order of the files.

    Starts no Spark.

    Raises:
        UsageError: There is nothing to read.
        FatalError: A file does not have its format.
    """
    source = settings.for_replay().sources[0]
    reader, rules = source.reader, settings.rules
    with Resources(rules) as resources, ExitStack() as stack:
        catalogue = resources.catalogue_of(source.format, reader.tables())
        context = Context(
            source=0, lanes=settings.run.lane_count, catalogue=catalogue, classes=settings.classes
        )
        masks = masks_of(rules.masking, source.filters, catalogue, rules.values)
        staged = Path(stack.enter_context(TemporaryDirectory(prefix="xds-publisher-")), "state")
        source = replace(source, snapshots=tuple(snapshots))
        wanted = _split_count(reader, snapshots)
        prepared = reader.prepare(
            prepare_context(source, resources, LocalEngine(), stack, staged, wanted)
        )
        readers = read_here(prepared, context, staged.parent / "rows", stack)
        for split, batches in zip(prepared.splits, readers, strict=True):
            file = prepared.source.file_of(split)
            for record in in_order(mask_records(iter(batches), masks), source.format):
                content = {"file": file} | _describe(record, reader.position_text)
                yield json.dumps(content, ensure_ascii=False)


def _split_count(reader: Source, snapshots: Sequence[Path]) -> int:
    """Number of splits to sort separately; 1 if commits order the changes of a whole file."""
    if FORMATS[reader.format].in_commits:
        return 1
    return 1 + sum(path.stat().st_size for path in reader.files(snapshots)) // _SPLIT_BYTES


def in_order(batches: Iterable[pa.RecordBatch], format_: str) -> Iterator[dict[str, Any]]:
    """Yields the records of a split in the order of its file, or of its commits."""
    tables = map(_without_tally, batches)
    ordered = _by_commit(tables) if FORMATS[format_].in_commits else _by_row(tables)
    for table in ordered:
        for batch in table.to_batches(max_chunksize=1024):
            yield from batch.to_pylist()


def _without_tally(batch: pa.RecordBatch) -> pa.Table:
    table = pa.Table.from_batches([batch])
    return table.filter(pc.fill_null(pc.not_equal(table["outcome"], TALLY), fill_value=True))


def _by_commit(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yields the published changes of a whole file, then its other records."""
    records = pa.concat_tables([RECORD_SCHEMA.empty_table(), *tables])
    yield records.filter(pc.is_null(records["outcome"])).sort_by(_BY_RANK)
    yield records.filter(pc.is_valid(records["outcome"])).sort_by(_BY_ROW)


def _by_row(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Sorts records by their place in the file.

    Readers return rejects separately from changes, so records may be some thousand places out of order.
    The window has more records than that, but not a whole file.
    """
    window = RECORD_SCHEMA.empty_table()
    for table in tables:
        window = pa.concat_tables([window, table])
        if window.num_rows > _WINDOW_ROWS or window.nbytes > _WINDOW_BYTES:
            window = window.sort_by(_BY_ROW)
            half = window.num_rows // 2
            yield window.slice(0, half)
            window = window.slice(half)
    yield window.sort_by(_BY_ROW)


def _describe(record: dict[str, Any], position_text: Any) -> dict[str, Any]:
    position = Position(*(record[name] for name in Position._fields))
    content: dict[str, Any] = {
        "record": record["row"],
        "position": position_text(position),
        "lane": record["lane"],
    }
    if record["outcome"] is not None:
        outcome = Outcome(record["outcome"]).label
        decision = {name: record[name] for name in ("reason", "detail", "raw")}
        content |= {"outcome": outcome} | decision
        if record["columns"] is None:
            return content
    change = {name: record[name] for name in _CHANGE_FIELDS}
    return content | change | {"columns": _columns(record)}


def _columns(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the columns of a change with their images; an absent image has no entry.

    A column of a child table has the name of this table, too."""
    columns = []
    children = record["children"] or [None] * len(record["columns"])
    for place, name in enumerate(record["columns"]):
        images = {
            image: record[image][place] for image in ("old", "new") if record[image] is not None
        }
        child = children[place]
        columns.append({"name": name} | ({"child": child} if child else {}) | images)
    return columns


_SPLIT_BYTES = 64 << 20
"""Bytes of a split, whose records are sorted together."""
_BY_RANK = [("part", "ascending"), ("rank", "ascending"), ("ordinal", "ascending")]
_BY_ROW = [("row", "ascending"), ("ordinal", "ascending")]
_WINDOW_ROWS = 1 << 16
_WINDOW_BYTES = 64 << 20
_CHANGE_FIELDS = (
    "schema",
    "table",
    "key",
    "event_type",
    "event_time",
    "perpetrator",
    "transaction",
)
