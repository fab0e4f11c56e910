"""Normalised changes for people and scripts: what a source says before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from publisher.change import RECORD_SCHEMA, TALLY, Outcome, Position
from publisher.settings import Settings
from publisher.sources.contract import Context, Source
from publisher.sources.registry import IN_COMMITS, OUT_OF_ORDER
from publisher.surveys import surveyed_source
from publisher.tasks import Resources


def inspect(settings: Settings, snapshots: Sequence[Path]) -> Iterator[str]:
    """The records of files as JSON lines, in the order of the files.  Starts no Spark.

    Raises:
        UsageError: There is nothing to read.
        FatalError: A file cannot be what its format asks for.
    """
    source = settings.for_replay().sources[0]
    reader = source.reader
    with Resources(settings.rules) as resources:
        context = Context(source=0, lanes=settings.run.lanes, catalogue=resources.catalogue)
        splits = reader.splits(snapshots, _wanted(reader, snapshots))
        reader = surveyed_source(reader, splits, context)
        for number, split in enumerate(splits):
            for record in in_order(reader.read(split, number, context), source.format):
                shown = {"file": split.path} | _shown(record, reader.position_text)
                yield json.dumps(shown, ensure_ascii=False)


def _wanted(reader: Source, snapshots: Sequence[Path]) -> int:
    """Parts that are sorted one by one; commits order the changes of a file as a whole."""
    if reader.format in IN_COMMITS:
        return 1
    return 1 + sum(path.stat().st_size for path in reader.files(snapshots)) // _SORTED


def in_order(batches: Iterator[pa.RecordBatch], format_: str) -> Iterator[dict[str, Any]]:
    """The records of a split in the order of its file; where commits order changes, in their order."""
    if format_ not in OUT_OF_ORDER:
        for batch in batches:
            yield from (record for record in batch.to_pylist() if record["outcome"] != TALLY)
        return
    every = pa.Table.from_batches(list(batches), RECORD_SCHEMA)
    every = every.filter(pc.fill_null(pc.not_equal(every["outcome"], TALLY), fill_value=True))
    if format_ in IN_COMMITS:
        published = every.filter(pc.is_null(every["outcome"])).sort_by(_BY_RANK)
        others = every.filter(pc.is_valid(every["outcome"])).sort_by("row")
        every = pa.concat_tables([published, others])
    else:
        every = every.sort_by("row")
    for batch in every.to_batches(max_chunksize=1024):
        yield from batch.to_pylist()


def _shown(record: dict[str, Any], position_text: Any) -> dict[str, Any]:
    position = Position(*(record[name] for name in Position._fields))
    shown: dict[str, Any] = {
        "record": record["row"],
        "position": position_text(position),
        "lane": record["lane"],
    }
    if record["outcome"] is not None:
        outcome = Outcome(record["outcome"]).name.lower()
        said = {name: record[name] for name in ("reason", "detail", "raw")}
        shown |= {"outcome": outcome} | said
        if record["columns"] is None:
            return shown
    said = {name: record[name] for name in _SAID}
    return shown | said | {"columns": _columns(record)}


def _columns(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Columns with the images that the change carries; an absent image has no entry."""
    columns = []
    for place, name in enumerate(record["columns"]):
        images = {
            image: record[image][place] for image in ("old", "new") if record[image] is not None
        }
        columns.append({"name": name} | images)
    return columns


_SORTED = 64 << 20
"""Bytes of a file whose records are sorted at once."""
_BY_RANK = [("part", "ascending"), ("rank", "ascending")]
_SAID = ("schema", "table", "key", "event_type", "event_time", "perpetrator", "transaction")
