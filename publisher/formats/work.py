"""The work of a run, and the task that reads a split, independent of the engine that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from publisher.database.options import DatabaseOptions
from publisher.database.resources import Resources, Rules
from publisher.formats.columns.record_batches import Place
from publisher.formats.connected_keys import ConnectedKeys
from publisher.formats.contract import AnySplit, Context, Source
from publisher.formats.event_ranks import with_ids
from publisher.formats.grouping import pack_rows, relate_partition
from publisher.formats.live.table_split import TableSplit
from publisher.formats.masked_records import mask_records, masks_of
from publisher.formats.time_ranks import with_times
from publisher.ledger.object_states import StatesBefore
from publisher.model.catalogue import Catalogue
from publisher.model.event_ids import IdOrigin
from publisher.model.key_changes import (
    PlaceOf,
    place_by_id,
    place_by_rank,
    place_by_time,
)
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import Filter, FilterOptions, PositionRange
from publisher.planning.polls import PollOptions
from publisher.planning.torn_transactions import RejectedTransactions


@dataclass(frozen=True, slots=True)
class SourceWork:
    """One source of a run, and how its changes are planned."""

    name: str
    source: Source
    splits: tuple[AnySplit, ...]
    filters: FilterOptions
    polls: PollOptions | None
    """``None`` for formats in which each change is an operation by itself."""
    identifier_case: IdentifierCase
    window: PositionRange | None = None
    rejected: RejectedTransactions | None = None
    """Transactions that are rejected as a whole, if an earlier pass has looked for them."""
    notes: tuple[str, ...] = ()
    """Notes for operators (see ``PreparedSource``)."""
    refused: tuple[Path, ...] = ()
    """See ``PreparedSource``."""
    waiting: tuple[Path, ...] = ()
    """See ``PreparedSource``."""
    connected_keys: ConnectedKeys | None = None
    """The changes of keys in the input; ``None`` if none is published."""
    origin: IdOrigin = field(kw_only=True)

    @property
    def place_of(self) -> PlaceOf:
        """Returns the place of a change in the order in which the source is published."""
        if self.polls is None:
            return place_by_rank
        return place_by_time if self.polls.future_events else place_by_id

    def snapshot_of(self, database: DatabaseOptions | None) -> str | None:
        """Returns the snapshot in which query-backs read rows; ``None``: present rows.

        A log whose keys change and its rows are read at one moment: a later change would hide the row."""
        table = self.source.table
        if database is None or table is None or not self.source.joins_keys:
            return None
        snapshots = {split.snapshot for split in self.splits if isinstance(split, TableSplit)}
        return snapshots.pop() if table.database.url == database.url and snapshots else None


@dataclass(frozen=True, slots=True)
class Work:
    """The description of a run that is sent to its tasks; holds no connection."""

    sources: tuple[SourceWork, ...]
    rules: Rules
    lanes: int
    clock: int
    """The run's clock in microseconds since 1970-01-01 UTC."""
    shared: Path
    """Folder that all tasks see, for record ids of splits and changes of keys; needed until all lanes are
    planned."""
    states: StatesBefore | None = None
    """The published states of objects; ``None`` if operations are not reduced to differences."""
    partitions: int = 1
    """Number of partitions in which rows that depend on each other meet."""

    @property
    def has_groups(self) -> bool:
        """True if rows of a source depend on each other, so that they are related before they get a lane."""
        return any(work.source.group_columns for work in self.sources)

    def splits(self) -> list[tuple[int, AnySplit]]:
        """The splits of all sources, each with the number of its source."""
        return [
            (number, split) for number, work in enumerate(self.sources) for split in work.splits
        ]


def read_split(work: Work, number: int) -> Iterator[pa.RecordBatch]:
    """Reads the records of split ``number`` as batches of ``RECORD_SCHEMA``.

    In a run in which rows depend on each other, packs them for ``relate_rows``."""
    source, _ = work.splits()[number]
    columns = work.sources[source].source.group_columns
    polls = work.sources[source].polls
    records = read_records(work, number, is_decoded=bool(columns))
    if not columns:
        records = _in_lanes(work, source, records)
    if polls is not None:
        with_notes = with_times if polls.future_events else with_ids
        records = with_notes(records, Place(source, number, "", work.lanes), work.shared)
    if work.has_groups:
        records = pack_rows(records, columns, source, number, work.partitions)
    yield from records


def relate_rows(
    work: Work, _partition: int, packed: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Relates the rows of one partition; yields all records that met in it."""
    return relate_partition(packed, partial(_relate_source, work))


def _relate_source(
    work: Work, source: int, rows: Sequence[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    reader = work.sources[source].source
    with Resources(work.rules) as resources:
        catalogue = resources.catalogue_of(reader.format, reader.tables())
        records = reader.relate(rows, context_of(work, source, catalogue))
        yield from _in_lanes(work, source, records)


def _in_lanes(
    work: Work, source: int, records: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    keys = work.sources[source].connected_keys
    return records if keys is None else keys.with_lanes(records)


def read_records(work: Work, number: int, *, is_decoded: bool = False) -> Iterator[pa.RecordBatch]:
    """Reads the records of a split as its source gives them, or its decoded rows."""
    source, split = work.splits()[number]
    with Resources(work.rules) as resources:
        reader = work.sources[source].source
        catalogue = resources.catalogue_of(reader.format, reader.tables())
        context = context_of(work, source, catalogue)
        read = reader.decode if is_decoded else reader.read
        yield from read(split, number, context)


def mask_shown_records(
    work: Work, number: int, records: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields the records of a source, by its number, as they may be shown: masked, if the job is."""
    source = work.sources[number]
    with Resources(work.rules) as resources:
        catalogue = resources.catalogue_of(source.source.format, source.source.tables())
        rules = work.rules
        masks = masks_of(rules.masking, source.filters, catalogue, rules.values)
        yield from mask_records(records, masks)


def context_of(work: Work, source: int, catalogue: Catalogue) -> Context:
    """Builds the context in which the splits of a source are read."""
    excludes = Filter(work.sources[source].filters).excludes
    return Context(
        source=source,
        lanes=work.lanes,
        catalogue=catalogue,
        excludes=excludes,
        classes=work.rules.classes,
    )
