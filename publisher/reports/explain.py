"""Explains records from the journal and, if it still exists, from the input."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.compute as pc
from pydantic import TypeAdapter

from publisher.dispatch.refusals import read_records
from publisher.errors import FatalError, UsageError
from publisher.journal.find_journal import find_job, read_journal, read_runs
from publisher.journal.job_journals import Journals
from publisher.journal.lane_reader import (
    DecidedRecord,
    JournalLookup,
    LaneReader,
    PublishedDocument,
)
from publisher.journal.manifest import Journal, Manifest, SourceEntry
from publisher.journal.segment_files import SegmentSource
from publisher.journal.segments import Segment
from publisher.model.change import (
    QUERY_BACK,
    STATUS_OF,
    EventType,
    Object,
    Outcome,
    Position,
    Reason,
    Status,
)
from publisher.model.lanes import lane_of
from publisher.model.reason_texts import EVENT_NAMES
from publisher.reports.resolution import Resolution, filter_options, meaning_of, resolve
from publisher.reports.selectors import is_of_table, key_texts, split_association
from publisher.sources.contract import Source
from publisher.sources.positions import parse_position
from publisher.sources.registry import FORMATS


@dataclass(frozen=True, slots=True)
class RecordStory:
    """The explanation of one record: its origin, its outcome, its document.

    ``status`` is the letter of the event log that corresponds to the outcome."""

    source: str
    position: str
    place: str
    """File and number of the record in it, or the table."""
    raw: str | None
    """The record as JSON text; ``None`` if the input is no longer readable, or is a table:
    databases are not queried."""
    object: Object | None
    event: str | None
    columns: tuple[str, ...]
    resolution: Resolution | None
    """The class; ``None`` if the object is unknown."""
    event_time: str | None
    perpetrator: str | None
    outcome: str
    reason: str | None
    meaning: str
    status: str
    by: str | None
    """Position of the change that superseded, ended or repeats it."""
    lookups: tuple[JournalLookup, ...]
    document: PublishedDocument | None
    target: str
    """Folder of the document."""
    sent_to: tuple[str, ...] = ()
    """Further sinks of the run."""
    late: str | None = None
    """The reason of a late publication, after records with greater ids."""
    segment: str | None = None
    """Folder of the segment that has the document."""
    run: str | None = None
    """The run, if all runs of a job were searched."""


_NO_DOCUMENT = -1


def explain(directory: Path, selector: str) -> list[RecordStory]:
    """Explains the records that a position, event id, key or association selects, in their order.

    ``directory`` is a journal, a directory of ``replay``, or the journal directory of a job, all of whose
    runs are searched.  Starts no Spark.

    Raises:
        UsageError: There is no journal, or ``selector`` selects no record.
        FatalError: The journal is damaged, or another version of the program wrote it.
    """
    job = find_job(directory)
    if job is not None:
        return _search_job(job, selector)

    def read(journal: Journal) -> list[RecordStory]:
        manifest = journal.manifest()
        if manifest is None:
            raise UsageError(f"{directory} has no complete run: start it again, then explain")
        return _stories(journal, manifest, selector) or _refuse_unknown(
            f"run {manifest.run}", selector, manifest.sources
        )

    return read_journal(directory, read)


def _stories(journal: Journal, manifest: Manifest, selector: str) -> list[RecordStory]:
    reader = _StoryReader(journal, manifest)
    return [reader.story(record) for record in reader.find(selector)]


def _search_job(journals: Journals, selector: str) -> list[RecordStory]:
    """Tells the stories in all runs of a job, in the order of runs."""
    sources: dict[str, SourceEntry | SegmentSource] = {}

    def select(segment: Segment) -> list[int]:
        header = segment.header()
        sources.update({source.name: source for source in header.sources})
        condition = _condition(header.sources, selector)
        return [] if condition is None else journals.segments.find_runs(segment, condition)

    def read(journal: Journal, manifest: Manifest) -> list[RecordStory]:
        sources.update({entry.name: entry for entry in manifest.sources})
        found = _stories(journal, manifest, selector)
        return [replace(story, run=manifest.run) for story in found]

    if "=" in selector:
        key_texts(split_association(selector)[0])  # refuses a wrong key
    stories = [story for of_run in read_runs(journals, select, read) for story in of_run]
    return stories or _refuse_unknown(f"job {journals.job}", selector, list(sources.values()))


def _condition(sources: Sequence[SegmentSource], selector: str) -> pc.Expression | None:
    """A condition on decisions that every wanted record fulfils; ``None`` if there can be none."""
    if "=" in selector:
        return pc.field("key").isin(sorted(key_texts(split_association(selector)[0])))
    conditions = []
    for entry in sources:
        source = FORMATS[entry.format].restore(entry.options, entry.reading)
        text = selector.removeprefix(f"{entry.name}:")
        position = _position(source, text)
        if position is not None:
            conditions.append(_at_position(position, is_short=source.is_short(text)))
    return reduce(operator.or_, conditions) if conditions else None


def _at_position(position: Position, *, is_short: bool = False) -> pc.Expression:
    condition = pc.field("low") == position.low
    if not is_short:
        condition = (pc.field("high") == position.high) & condition
    return condition


def _refuse_unknown(
    where: str, selector: str, sources: Sequence[SourceEntry | SegmentSource]
) -> NoReturn:
    forms = f" {_forms(sources)}, an" if sources else ", an"
    raise UsageError(
        f"{where} has no record {selector!r}: give a position as{forms} event id as SOURCE:POSITION, a key as"
        " idu=1, or an association as idu=1,table=usr"
    )


def _forms(sources: Sequence[SourceEntry | SegmentSource]) -> str:
    """Describes how positions are written in these sources."""
    forms: dict[str, list[str]] = {}
    for entry in sources:
        forms.setdefault(FORMATS[entry.format].position_text, []).append(entry.name)
    return ", ".join(f"{form} ({' and '.join(names)})" for form, names in forms.items())


class _StoryReader:
    """Finds records in all lanes and builds their explanations."""

    def __init__(self, journal: Journal, manifest: Manifest) -> None:
        self._manifest = manifest
        self._journal = journal
        self._documents = journal.documents(manifest)
        origin = journal.unpacked_from
        is_inside = self._documents.is_relative_to(journal.root.resolve())
        self._segment = str(origin.segment) if origin is not None and is_inside else None
        sinks = list(read_records(journal.root))
        self._sinks = tuple(sink.target for sink in sinks)
        self._refused = {
            (refusal.lane, refusal.document): refusal for sink in sinks for refusal in sink.refusals
        }
        self._lanes = [
            LaneReader(journal.root, self._documents, lane, journal.lane_tables)
            for lane in range(manifest.lanes)
        ]
        self._sources: list[Source] = [
            FORMATS[entry.format].restore(entry.options, entry.reading)
            for entry in manifest.sources
        ]

    def find(self, selector: str) -> list[DecidedRecord]:
        find = self._by_key if "=" in selector else self._by_position
        return sorted(
            find(selector), key=lambda record: (record.source, record.position, record.row)
        )

    def _by_position(self, selector: str) -> Iterator[DecidedRecord]:
        for number, (entry, source) in enumerate(
            zip(self._manifest.sources, self._sources, strict=True)
        ):
            text = selector.removeprefix(f"{entry.name}:")
            position = _position(source, text)
            if position is None:
                continue
            is_short = source.is_short(text)
            for lane in self._lanes:
                find = lane.by_low if is_short else lane.by_position
                yield from find(number, position)

    def _by_key(self, selector: str) -> list[DecidedRecord]:
        """Finds records by association or by key text.

        An association without schema matches any schema, unless an object has none."""
        key, name = split_association(selector)
        keys = key_texts(key)
        records = [record for lane in self._lanes_of(keys, name) for record in lane.by_key(keys)]
        if not name:
            return records
        return [record for record in records if is_of_table(record.object, name)] or [
            record
            for record in records
            if record.object is not None and is_of_table(record.object._replace(schema=None), name)
        ]

    def _lanes_of(self, keys: frozenset[str], name: str) -> list[LaneReader]:
        """Returns the lanes to search: few if schema and table are named without quotes."""
        table, _, schema = name.partition(",schema=")
        if not schema or '"' in name or any(source.joins_keys for source in self._sources):
            return self._lanes
        numbers = {lane_of(schema, table, key, len(self._lanes)) for key in keys}
        return [self._lanes[number] for number in sorted(numbers)]

    def story(self, record: DecidedRecord) -> RecordStory:
        lane = self._lanes[record.lane]
        entry = self._manifest.sources[record.source]
        source = self._sources[record.source]
        document = None
        if record.document != _NO_DOCUMENT:
            document = lane.document(record.document)
        by = lane.row(record.by) if record.by >= 0 else None
        lookups: Sequence[JournalLookup] = ()
        if record.object is not None and record.event_type in QUERY_BACK:
            lookups = lane.lookups(record.source, record.object)
        place, raw = _place(entry, source, record)
        filters = filter_options(self._manifest.settings, record.source)
        refused = self._refused.get((record.lane, record.document))
        return RecordStory(
            source=entry.name,
            position=source.position_text(record.position),
            place=place,
            raw=raw or record.raw,
            object=record.object,
            event=_event(record.event_type),
            columns=record.columns,
            resolution=resolve(record, filters),
            event_time=_time(record.event_time),
            perpetrator=record.perpetrator,
            outcome=(record.outcome if refused is None else Outcome.REJECTED).label,
            reason=record.reason if refused is None else refused.reason,
            meaning=meaning_of(record, filters) if refused is None else refused.detail,
            status=self._status(record, by),
            by=None if by is None else source.position_text(by.position),
            lookups=tuple(lookups),
            document=document,
            target=self._segment or str(self._documents),
            sent_to=self._sinks,
            late=self._late(record),
            segment=self._segment,
        )

    def _late(self, record: DecidedRecord) -> str | None:
        """Explains a record with a smaller id than earlier runs have read; ``None`` for other records."""
        entry = self._manifest.sources[record.source]
        behind = self._manifest.behind.get(entry.name, 0)
        number = record.position.high
        if record.outcome is not Outcome.PUBLISHED or record.position.part or number >= behind:
            return None
        root = self._journal.place.absolute().parent
        journals = Journals(root, self._manifest.job)
        condition = _at_position(record.position)
        select = partial(journals.segments.find_runs, condition=condition)

        def read(journal: Journal, manifest: Manifest) -> tuple[str, str | None]:
            return manifest.run, _outcome_in(journal, manifest, entry.name, record.position)

        for run, outcome in read_runs(journals, select, read):
            if run == self._manifest.run:
                break
            if outcome is not None:
                return f"an earlier run has read this record: {outcome} in run {run}"
        has_all_journals = journals.has_first_run()
        return (
            f"an earlier run has read record {behind}, but none has read this record: it was committed late"
            + ("" if has_all_journals else ", or was read by a run whose journal is deleted")
        )

    def _status(self, record: DecidedRecord, by: DecidedRecord | None) -> str:
        """Returns the letter of ``_status``, or F if the sink refused the document."""
        last = by if by is not None and record.outcome is Outcome.SUPERSEDED else record
        is_refused = (last.lane, last.document) in self._refused
        return Status.FATAL if is_refused else _status(record, by)


def _outcome_in(
    journal: Journal, manifest: Manifest, source: str, position: Position
) -> str | None:
    """Returns the outcome of a record in another run; ``None`` if that run did not read it."""
    numbers = [number for number, entry in enumerate(manifest.sources) if entry.name == source]
    for lane in range(manifest.lanes):
        reader = LaneReader(journal.root, journal.documents(manifest), lane, journal.lane_tables)
        for number in numbers:
            records = reader.by_position(number, position)
            if records:
                reason = records[-1].reason
                return records[-1].outcome.label + (f" ({reason})" if reason else "")
    return None


def _position(source: Source, text: str) -> Position | None:
    try:
        return parse_position(text, source.parse_position)
    except UsageError:
        return None


def _place(entry: SourceEntry, source: Source, record: DecidedRecord) -> tuple[str, str | None]:
    """Returns the place of a record, and the record itself if it can be read again."""
    if entry.table is not None:
        return f"table {entry.table}", None
    stored = entry.splits[record.split - entry.first_split]
    split = _split_reader(entry.format).validate_python(stored)
    try:
        raw = source.raw(split, record.record)
    except (OSError, FatalError):  # the input was moved or changed: only its position is shown
        raw = None
    return f"{split.path}, record {record.record}", raw


@cache
def _split_reader(format_: str) -> TypeAdapter[Any]:
    return TypeAdapter(FORMATS[format_].split)


def _event(event_type: int | None) -> str | None:
    return None if event_type is None else f"{event_type} {EVENT_NAMES[EventType(event_type)]}"


def _time(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    return moment.isoformat(sep=" ")


def _status(record: DecidedRecord, by: DecidedRecord | None) -> str:
    """Returns the status letter; a superseded row has the letter of the change that superseded it."""
    if record.reason is Reason.STATUS:
        return record.detail or ""  # the status that the row already has
    if record.reason is Reason.OUT_OF_RANGE:
        return Status.NEW
    if record.outcome is Outcome.SUPERSEDED:
        return _status(by, None) if by is not None else Status.SUCCESS
    return STATUS_OF[record.outcome]
