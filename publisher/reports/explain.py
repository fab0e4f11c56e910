"""Explains records from the ledger and, if it still exists, from the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

import pyarrow.compute as pc

from publisher.dispatch.refusals import read_records
from publisher.formats.contract import Source
from publisher.formats.registry import FORMATS
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import SourceEntry
from publisher.ledger.read import find_job, find_run, read_runs, scan_runs
from publisher.ledger.retried_records import RetryResult, read_retries, reject_id, retried_files
from publisher.ledger.run_reader import (
    DecidedRecord,
    Place,
    PublishedDocument,
    RecordedLookup,
    RunReader,
)
from publisher.ledger.runs import StoredRun
from publisher.model.change import (
    QUERY_BACK,
    STATUS_OF,
    EventType,
    Object,
    Outcome,
    Reason,
    Status,
)
from publisher.model.event_ids import split_event_id
from publisher.model.lanes import lane_of
from publisher.model.reason_texts import EVENT_NAMES
from publisher.reports.late_records import late_text
from publisher.reports.resolution import Resolution, filter_options, meaning_of, resolve
from publisher.reports.selectors import (
    at_position,
    is_of_table,
    key_texts,
    position_in,
    refuse_unknown_selector,
    split_association,
    wanted_for,
)
from publisher.runs.rejects import read_raw


@dataclass(frozen=True, slots=True)
class RecordStory:
    """The explanation of one record: its origin, its outcome, its document.

    ``status`` is the letter of the event log that corresponds to the outcome."""

    source: str
    position: str
    place: str
    """File and number of the record in it, or the table."""
    raw: str | None
    """The record as JSON text; ``None`` if it is not read again, or cannot be; ``source_rows`` adds rows."""
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
    lookups: tuple[RecordedLookup, ...]
    document: PublishedDocument | None
    target: str
    """Folder of the document."""
    sent_to: tuple[str, ...] = ()
    """Further sinks of the run."""
    late: str | None = None
    """The reason of a late publication, after records with greater ids."""
    ledger: str | None = None
    """Folder of the ledger that has the document; ``None`` if a file has it."""
    run: str | None = None
    """The run, if all runs of a job were searched."""
    reject_id: str | None = None
    """The id of a rejected record, as ``rejects`` has it."""
    retry: RetryResult | None = None
    """The retry of a rejected record; ``None`` if there was none."""
    retry_of: str | None = None
    """The id of the rejected record that this record corrects."""
    not_shown: str | None = None
    """The reason why ``raw`` is ``None``, if it is not that the input cannot be read."""
    table: str | None = None
    fingerprint: int | None = None
    row: int = 0
    """Number of the record in its lane, in the order of records."""
    written: str | None = None
    """The status that the run has written to the row, D if it has deleted the row; ``None`` if it has
    written none, or not yet."""


_DELETED = "D"

Find = Callable[["StoryReader", str], list[DecidedRecord]]
"""Finds records in one run with a selector."""


def find_records(reader: StoryReader, selector: str) -> list[DecidedRecord]:
    """Finds the records that a selector selects in one run."""
    return reader.find(selector)


def explain(
    directory: Path, selector: str, find: Find = find_records, *, with_raw: bool = True
) -> list[RecordStory]:
    """Explains the records that a position, event id, key or association selects, in their order.

    ``directory`` is a ledger, a directory of ``replay``, or the ledger directory of a job, all of whose
    runs are searched.  ``find`` chooses among the records of a run; ``with_raw`` reads the records in their
    files again.  Starts no Spark.

    Raises:
        UsageError: There is no ledger, or ``selector`` selects no record.
        FatalError: The ledger is damaged, or another version of the program wrote it.
    """
    job = find_job(directory)
    if job is not None:
        return _with_retries(_search_job(job, selector, find, with_raw=with_raw), job)

    run = find_run(directory)
    manifest, ledger = run.manifest, run.handle.ledger
    stories = stories_of(run, lambda reader: find(reader, selector), with_raw=with_raw)
    if not stories:
        refuse_unknown_selector(f"run {manifest.run}", selector, manifest.sources)
    return stories if ledger is None else _with_retries(stories, Ledger(ledger, manifest.job))


def _with_retries(stories: list[RecordStory], ledger: Ledger) -> list[RecordStory]:
    """Adds the retries of rejected records, which later runs of the job know."""
    if all(story.reject_id is None for story in stories):
        return stories
    retries = read_retries(scan_runs(ledger.root))
    return [replace(story, retry=retries.get(story.reject_id or "")) for story in stories]


def stories_of(
    run: StoredRun,
    find: Callable[[StoryReader], list[DecidedRecord]],
    *,
    with_raw: bool = True,
) -> list[RecordStory]:
    """Tells the stories of some records of a run; for ``with_raw`` see ``explain``."""
    reader = StoryReader(run, with_raw=with_raw)
    return reader.tell(find(reader))


def _search_job(ledger: Ledger, selector: str, find: Find, *, with_raw: bool) -> list[RecordStory]:
    """Tells the stories in all runs of a job, in the order of runs."""
    sources = ledger.origins()
    if "=" in selector:
        key_texts(split_association(selector)[0])  # refuses a wrong key
    stories: list[RecordStory] = []
    wanted = wanted_for(sources, selector)
    for run in read_runs(ledger, wanted) if wanted is not None else ():
        found = stories_of(run, lambda reader: find(reader, selector), with_raw=with_raw)
        stories += [replace(story, run=run.manifest.run) for story in found]
    return stories or refuse_unknown_selector(f"job {ledger.job}", selector, sources)


class StoryReader:
    """Finds records of a run and builds their explanations."""

    def __init__(self, run: StoredRun, *, with_raw: bool = True) -> None:
        """For ``with_raw`` see ``explain``."""
        self._run = run
        self._manifest = manifest = run.manifest
        self._with_raw = with_raw
        is_in_ledger = run.tables is not None and run.handle.owns(run.documents)
        self._in_ledger = str(run.handle.folder) if is_in_ledger else None
        self.sinks = list(read_records(run.texts))
        self._refused = {
            (refusal.lane, refusal.document): refusal
            for sink in self.sinks
            for refusal in sink.refusals
        }
        self._rows = RunReader(run)
        self._sources: list[Source] = [
            FORMATS[entry.format].restore(entry.options, entry.reading)
            for entry in manifest.sources
        ]

    def find(self, selector: str) -> list[DecidedRecord]:
        """Finds the records that a position, event id, key or association selects, in their order."""
        find = self._by_key if "=" in selector else self._by_position
        return sorted(
            find(selector), key=lambda record: (record.source, record.position, record.number)
        )

    def _by_position(self, selector: str) -> Iterator[DecidedRecord]:
        for number, entry in enumerate(self._manifest.sources):
            source = self._sources[number]
            prefix, text = split_event_id(selector, entry.name)
            position = position_in(source, text)
            if position is None or not (prefix is None or entry.origin.has(prefix, entry.name)):
                continue
            condition = at_position(position, number, is_short=source.is_short(text))
            yield from self._rows.records(condition)

    def _by_key(self, selector: str) -> list[DecidedRecord]:
        """Finds records by association or by key text.

        An association without schema matches any schema, unless an object has none."""
        key, name = split_association(selector)
        keys = key_texts(key)
        condition = pc.field("key").isin(sorted(keys))
        records = list(self._rows.records(condition, self._lanes_of(keys, name)))
        if not name:
            return records
        return [record for record in records if is_of_table(record.object, name)] or [
            record
            for record in records
            if record.object is not None and is_of_table(record.object._replace(schema=None), name)
        ]

    def _lanes_of(self, keys: frozenset[str], name: str) -> set[int] | None:
        """Returns the lanes to search: few if schema and table are named without quotes, ``None``: all."""
        table, _, schema = name.partition(",schema=")
        if not schema or '"' in name or any(source.joins_keys for source in self._sources):
            return None
        if self._manifest.is_masked:  # lanes follow from real keys
            return None
        return {lane_of(schema, table, key, self._manifest.lanes) for key in keys}

    def tell(self, records: Sequence[DecidedRecord]) -> list[RecordStory]:
        """Explains records."""
        causes = self._rows.find_records([(r.lane, r.by) for r in records if r.by >= 0])
        documents = self._documents_of(records)
        objects = {r.object for r in records if r.object and r.event_type in QUERY_BACK}
        lookups = self._rows.lookups(objects)
        return [self._story(record, causes, documents, lookups) for record in records]

    def _documents_of(self, records: Sequence[DecidedRecord]) -> dict[Place, PublishedDocument]:
        return self._rows.find_documents([(r.lane, r.document) for r in records if r.document >= 0])

    def _story(
        self,
        record: DecidedRecord,
        causes: Mapping[Place, DecidedRecord],
        documents: Mapping[Place, PublishedDocument],
        lookups: Mapping[tuple[int, Object], Sequence[RecordedLookup]],
    ) -> RecordStory:
        by = causes.get((record.lane, record.by))
        of_object: Sequence[RecordedLookup] = ()
        if record.object and record.event_type in QUERY_BACK:
            of_object = lookups.get((record.source, record.object), ())
        entry, source = self._manifest.sources[record.source], self._sources[record.source]
        filters = filter_options(self._manifest.settings, record.source)
        refused = self._refused.get((record.lane, record.document))
        status = self._status(record, by)
        return RecordStory(
            source=entry.name,
            position=source.position_text(record.position),
            place=_place(entry, record),
            raw=self._read_raw(entry, record) or record.raw,
            object=record.object,
            event=_event(record.event_type),
            columns=record.columns,
            resolution=resolve(record, filters),
            event_time=_time(record.event_time),
            perpetrator=record.perpetrator,
            outcome=(record.outcome if refused is None else Outcome.REJECTED).label,
            reason=record.reason if refused is None else refused.reason,
            meaning=meaning_of(record, filters) if refused is None else refused.detail,
            status=status,
            by=None if by is None else source.position_text(by.position),
            lookups=tuple(of_object),
            document=documents.get((record.lane, record.document)),
            target=self._in_ledger or str(self._run.documents),
            sent_to=tuple(sink.target for sink in self.sinks),
            late=late_text(self._run, record),
            ledger=self._in_ledger,
            reject_id=self._reject_id(record),
            retry_of=self._retry_of(record),
            not_shown="the run is masked" if self._manifest.is_masked else None,
            table=entry.table,
            fingerprint=record.fingerprint,
            row=record.number,
            written=self._letter_of(entry, status),
        )

    def of_document(self, lane: int, number: int) -> list[DecidedRecord]:
        """Finds the records of a document by its number in a lane."""
        found = self._rows.records(pc.field("document") == number, [lane])
        return [record for record in found if record.lane == lane]

    def with_event_id(self, records: Sequence[DecidedRecord], event_id: str) -> list[DecidedRecord]:
        """Finds the records of the documents that have an event id, among those of some records."""
        documents = self._documents_of(records)
        places = sorted(at for at, each in documents.items() if each.event_id == event_id)
        return [record for place in places for record in self.of_document(*place)]

    def _read_raw(self, entry: SourceEntry, record: DecidedRecord) -> str | None:
        """Reads a record in its file again; ``None`` if that is not wanted or not possible."""
        if not self._with_raw or self._manifest.is_masked:
            return None
        return read_raw(entry, record.split, frozenset({record.row})).get(record.row)

    def _reject_id(self, record: DecidedRecord) -> str | None:
        if record.outcome is not Outcome.REJECTED:
            return None
        return reject_id(self._manifest.run, record.split, record.row)

    def _retry_of(self, record: DecidedRecord) -> str | None:
        files = retried_files(self._manifest.sources[record.source], record.split)
        place = record.source, record.row
        of_place = (r for r in self._manifest.retried if (r.source, r.row) == place)
        return next((r.id for r in of_place if PurePath(r.file) in files), None)

    def _letter_of(self, entry: SourceEntry, status: str) -> str | None:
        """The status that the acknowledgement of the run has written, see ``RecordStory``."""
        has_status = entry.table is not None and FORMATS[entry.format].has_status
        end = self._run.end
        if not has_status or end is None or not end.writes_status or status == Status.NEW:
            return None
        is_deleted = end.deletes_rows and status in (Status.SUCCESS, Status.WARNING)
        return _DELETED if is_deleted else status

    def _status(self, record: DecidedRecord, by: DecidedRecord | None) -> str:
        """Returns the letter of ``_status``, or F if the sink refused the document."""
        last = by if by is not None and record.outcome is Outcome.SUPERSEDED else record
        is_refused = (last.lane, last.document) in self._refused
        return Status.FATAL if is_refused else _status(record, by)


def _place(entry: SourceEntry, record: DecidedRecord) -> str:
    if entry.table is not None:
        return f"table {entry.table}"
    return f"{entry.splits[record.split - entry.first_split]['path']}, record {record.row}"


def _event(event_type: int | None) -> str | None:
    return None if event_type is None else f"{event_type} {EVENT_NAMES[EventType(event_type)]}"


def _time(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)).isoformat(" ")


def _status(record: DecidedRecord, by: DecidedRecord | None) -> str:
    """Returns the status letter; a superseded row has the letter of the change that superseded it."""
    if record.reason is Reason.STATUS:
        return record.detail or ""  # the status that the row already has
    if record.reason is Reason.OUT_OF_RANGE:
        return Status.NEW
    if record.outcome is Outcome.SUPERSEDED:
        return _status(by, None) if by is not None else Status.SUCCESS
    return STATUS_OF[record.outcome]
