"""Normalised changes for people and scripts: what a source says before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from publisher.change import TALLY, Outcome, Position
from publisher.settings import Settings
from publisher.sources.contract import Context
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
        splits = reader.splits(snapshots, 1)
        reader = surveyed_source(reader, splits, context)
        for number, split in enumerate(splits):
            for batch in reader.read(split, number, context):
                for record in batch.to_pylist():
                    if record["outcome"] != TALLY:
                        shown = {"file": split.path} | _shown(record, reader.position_text)
                        yield json.dumps(shown, ensure_ascii=False)


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
        return shown | {"outcome": outcome} | said
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


_SAID = ("schema", "table", "key", "event_type", "event_time", "perpetrator", "transaction")
