"""Samples of sources: reads their first records, without an engine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from publisher.config.settings import Settings, SourceSettings
from publisher.database.resources import Resources
from publisher.engine.local import LocalEngine
from publisher.errors import PublisherError
from publisher.formats.contract import Context, PreparedSource
from publisher.model.change import TALLY, EventType, Outcome, Position
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.runs.prepare import prepare_context

RECORDS = 100
"""Number of records in a sample."""
_FULLY_PREPARED = 64 << 20
"""Maximum bytes of input for which all splits are prepared; larger input is limited to its first split."""
_SEARCHED_BYTES = 1 << 20
"""Maximum bytes of a file that is searched for records; a larger file always counts as one with records."""
_BATCHES_BEHIND = 3
_SPLITS = 64
_SHOWN = 200
"""Characters shown of a value or a detail."""


@dataclass(slots=True)
class Sample:
    """The first records of a source, counted by outcome."""

    changes: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records without a change, by outcome and reason."""
    first: str | None = None
    """Description of the first change."""
    first_reject: str | None = None

    @property
    def records(self) -> int:
        """Records of the sample."""
        return self.changes + self.outcomes.total()

    @property
    def rejected(self) -> int:
        """Rejected records of the sample."""
        return sum(n for (outcome, _), n in self.outcomes.items() if outcome == "rejected")


def sample_of(settings: Settings, source: SourceSettings, limit: int = RECORDS) -> Sample:
    """Reads the first records of a source through its reader; a source of files reads its ``snapshots``.

    The records of compared tables are their rows, as in a first comparison with ``startup_option =
    "all"``.  If a source compares several tables, only its first tables are read; see ``tables_to_sample``.

    Raises:
        PublisherError: The source cannot be read.
    """
    sample = Sample()
    with Resources(settings.rules) as resources, ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="xds-publisher-")))
        prepared = _prepare(source, resources, stack, folder / "state")
        catalogue = resources.catalogue_of(source.format, source.reader.tables())
        context = Context(source=0, lanes=1, catalogue=catalogue, classes=settings.classes)
        numbers = range(len(prepared.splits))  # each as if it were the whole input
        batches = (batch for number in numbers for batch in prepared.read(number, context))
        for record in _first(batches, limit):
            _add(sample, record, prepared.source.position_text)
    return sample


def _prepare(
    source: SourceSettings, resources: Resources, stack: ExitStack, staged: Path
) -> PreparedSource:
    """Prepares a source: large files are limited to the first split, compared tables to some rows."""
    size = sum(path.stat().st_size for path in source.snapshots)
    is_large = size > _FULLY_PREPARED
    wanted = _SPLITS if is_large else 1
    context = prepare_context(source, resources, LocalEngine(), stack, staged, wanted)
    is_sample = is_large or source.compares_database
    return source.reader.prepare(replace(context, sample=RECORDS if is_sample else None))


def _first(batches: Iterator[pa.RecordBatch], limit: int) -> list[dict[str, Any]]:
    """Reads the first records in the order of their input, from as few batches as possible."""
    tables, rows = [RECORD_SCHEMA.empty_table()], 0
    for batch in batches:
        tables.append(pa.Table.from_batches([batch]))
        rows += batch.num_rows
        if rows > limit:
            break
    # a reader yields records without a change after the changes of the same block
    tables += [pa.Table.from_batches([batch]) for batch in islice(batches, _BATCHES_BEHIND)]
    table = pa.concat_tables(tables).select([n for n in RECORD_SCHEMA.names if n != "lane"])
    is_record = pc.not_equal(pc.fill_null(table["outcome"], 0), TALLY)
    order = [("split", "ascending"), ("row", "ascending"), ("ordinal", "ascending")]
    records: list[dict[str, Any]] = (
        table.filter(is_record).sort_by(order).slice(0, limit).to_pylist()
    )
    return records


def tables_to_sample(source: SourceSettings) -> Iterator[SourceSettings]:
    """Yields a source of compared tables once for each table; yields other sources unchanged."""
    comparison = source.comparison
    if comparison is None or not source.compares_database:
        yield source
        return
    for name in comparison.table_names(()):
        yield source.with_input(comparison.only((), [name]))


def has_no_records(settings: Settings, source: SourceSettings, path: Path) -> bool:
    """Returns whether a file holds no record, at most a header."""
    if path.stat().st_size > _SEARCHED_BYTES:
        return False
    try:
        sample = sample_of(settings, replace(source, snapshots=(path,)), 1)
    except PublisherError:  # the run that reads it reports the error
        return False
    return not sample.records


def _add(sample: Sample, record: dict[str, Any], position_text: Callable[[Position], str]) -> None:
    position = Position(*(record[name] for name in Position._fields))
    if record["outcome"] is None:
        sample.changes += 1
        if sample.first is None:
            sample.first = _describe_change(record, position_text(position))
        return
    outcome = Outcome(record["outcome"]).label
    sample.outcomes[outcome, record["reason"]] += 1
    if outcome == "rejected" and sample.first_reject is None:
        texts = [position_text(position), record["reason"], _truncate(str(record["detail"]))]
        sample.first_reject = ": ".join(texts)


def _describe_change(record: dict[str, Any], position: str) -> str:
    kind = EventType(record["event_type"]).name.lower().replace("_", " ")
    schema = f"{record['schema']}." if record["schema"] else ""
    values = record["new"] if record["new"] is not None else record["old"]
    columns: dict[str, Any] = {}
    for name, value in zip(record["columns"], values or (), strict=False):
        columns[name] = [*_as_list(columns[name]), value] if name in columns else value
    shown = f" {json.dumps(columns, ensure_ascii=False)}" if columns else ""
    return f"{position}: {kind} of {record['key']} in {schema}{record['table']}{_truncate(shown)}"


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _truncate(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def sample_text(sample: Sample) -> str:
    """Describes a sample in words."""
    if not sample.records:
        return "no records"
    parts = [f"{sample.changes:,} changes"] if sample.changes else []
    parts += [
        f"{count:,} {outcome} ({reason})" for (outcome, reason), count in sample.outcomes.items()
    ]
    text = f"first {sample.records:,} record(s): {', '.join(parts)}"
    if sample.first_reject is not None:
        text += f"; first reject {sample.first_reject}"
    return text + (f"; first change {sample.first}" if sample.first is not None else "")
