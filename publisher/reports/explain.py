"""The complete story of a record, read from the journal and, if it still exists, from the input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import TypeAdapter

from publisher.dispatch.refusals import read_records
from publisher.errors import FatalError, UsageError
from publisher.journal.job_journals import Journals, find_journal
from publisher.journal.lane_reader import (
    DecidedRecord,
    JournalLookup,
    LaneReader,
    PublishedDocument,
)
from publisher.journal.manifest import Journal, Manifest, SourceEntry
from publisher.model.change import STATUS_OF, EventType, Object, Outcome, Position, Reason, Status
from publisher.model.keys import KeyProblem, canonical, format_key, integer_text, parse
from publisher.model.lanes import lane_of
from publisher.model.reason_texts import EVENT_NAMES, REASON_TEXTS
from publisher.sources.contract import Source
from publisher.sources.positions import parse_position
from publisher.sources.registry import FORMATS
from publisher.xds.association import association


@dataclass(frozen=True, slots=True)
class RecordStory:
    """The story of one record: its origin, its outcome, its document.

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


_NO_DOCUMENT = -1


def explain(directory: Path, what: str) -> list[RecordStory]:
    """Tells the stories of a position, an event id, a key or an association, in the order of positions.

    ``directory`` is a journal, or a directory of ``replay``.  Starts no Spark.

    Raises:
        UsageError: There is no journal, or it has no record ``what``.
        FatalError: The journal is damaged, or another version of the program wrote it.
    """
    journal = find_journal(directory)
    manifest = journal.manifest()
    if manifest is None:
        raise UsageError(f"{directory} has no complete run: start it again, then explain")
    reader = _StoryReader(journal, manifest)
    stories = [reader.story(decided) for decided in reader.find(what)]
    if not stories:
        raise UsageError(
            f"run {manifest.run} has no record {what!r}: give a position as"
            f" {_forms(manifest.sources)}, an event id as SOURCE:POSITION, a key as idu=1, or an"
            " association as idu=1,table=usr"
        )
    return stories


def _forms(sources: Sequence[SourceEntry]) -> str:
    """The notations of positions in these sources."""
    forms: dict[str, list[str]] = {}
    for entry in sources:
        forms.setdefault(FORMATS[entry.format].position_text, []).append(entry.name)
    return ", ".join(f"{form} ({' and '.join(names)})" for form, names in forms.items())


class _StoryReader:
    """Finds records in all lanes and builds their stories."""

    def __init__(self, journal: Journal, manifest: Manifest) -> None:
        self._manifest = manifest
        self._journal = journal
        self._documents = journal.documents(manifest)
        sinks = list(read_records(journal.root))
        self._sinks = tuple(sink.target for sink in sinks)
        self._refused = {
            (refusal.lane, refusal.document): refusal for sink in sinks for refusal in sink.refusals
        }
        self._lanes = [
            LaneReader(journal.root, self._documents, lane) for lane in range(manifest.lanes)
        ]
        self._sources: list[Source] = [
            FORMATS[entry.format].restore(entry.options, entry.reading)
            for entry in manifest.sources
        ]

    def find(self, what: str) -> list[DecidedRecord]:
        found = list(self._by_position(what)) if "=" not in what else []
        if not found and "=" in what:
            found = self._by_key(what)
        return sorted(found, key=lambda decided: (decided.source, decided.position, decided.row))

    def _by_position(self, what: str) -> Iterator[DecidedRecord]:
        for number, (entry, source) in enumerate(
            zip(self._manifest.sources, self._sources, strict=True)
        ):
            text = what.removeprefix(f"{entry.name}:")
            position = _position(source, text)
            if position is None:
                continue
            short = source.is_short(text)
            for lane in self._lanes:
                at = lane.by_low if short else lane.by_position
                yield from at(number, position)

    def _by_key(self, what: str) -> list[DecidedRecord]:
        """Finds records by association or by key text.

        An association without schema matches any schema, unless an object has none."""
        key, separator, name = what.rpartition(",table=")
        keys = _key_texts(key if separator else what)
        found = [record for lane in self._lanes_of(keys, name) for record in lane.by_key(keys)]
        if not separator:
            return found
        return [record for record in found if _is_of(record.object, name)] or [
            record
            for record in found
            if record.object is not None and _is_of(record.object._replace(schema=None), name)
        ]

    def _lanes_of(self, keys: frozenset[str], name: str) -> list[LaneReader]:
        """The lanes to search: few if schema and table are named without quotes."""
        table, _, schema = name.partition(",schema=")
        if not schema or '"' in name:
            return self._lanes
        numbers = {lane_of(schema, table, key, len(self._lanes)) for key in keys}
        return [self._lanes[number] for number in sorted(numbers)]

    def story(self, decided: DecidedRecord) -> RecordStory:
        lane = self._lanes[decided.lane]
        entry = self._manifest.sources[decided.source]
        source = self._sources[decided.source]
        document = None
        if decided.document != _NO_DOCUMENT:
            document = lane.document(decided.document)
        by = lane.row(decided.by) if decided.by >= 0 else None
        lookups: Sequence[JournalLookup] = ()
        if (
            decided.object is not None
            and (decided.event_type or 0) >= EventType.INSERT_ROW_QUERY_BACK
        ):
            lookups = lane.lookups(decided.source, decided.object)
        place, raw = _place(entry, source, decided)
        refused = self._refused.get((decided.lane, decided.document))
        return RecordStory(
            source=entry.name,
            position=source.position_text(decided.position),
            place=place,
            raw=raw or decided.raw,
            object=decided.object,
            event=_event(decided.event_type),
            columns=decided.columns,
            event_time=_time(decided.event_time),
            perpetrator=decided.perpetrator,
            outcome=(decided.outcome if refused is None else Outcome.REJECTED).label,
            reason=decided.reason if refused is None else refused.reason,
            meaning=_meaning(decided) if refused is None else refused.detail,
            status=self._status(decided, by),
            by=None if by is None else source.position_text(by.position),
            lookups=tuple(lookups),
            document=document,
            target=str(self._documents),
            sent_to=self._sinks,
            late=self._late(decided),
        )

    def _late(self, decided: DecidedRecord) -> str | None:
        """Explains a record with a smaller id than earlier runs have read; ``None`` for other records."""
        entry = self._manifest.sources[decided.source]
        behind = self._manifest.behind.get(entry.name, 0)
        number = decided.position.high
        if decided.outcome is not Outcome.PUBLISHED or decided.position.part or number >= behind:
            return None
        jobs = Journals(self._journal.root.absolute().parent, self._manifest.job)
        first = None
        for journal, manifest in jobs.committed_runs():
            if manifest.run == self._manifest.run:
                break
            first = first or manifest.run
            seen = _outcome_in(journal, manifest, entry.name, decided.position)
            if seen is not None:
                return f"published again or at last: {seen} in run {manifest.run}"
        gone = (
            ""
            if first and first.endswith("-000001")
            else ", or a run whose journal is deleted read it"
        )
        return (
            f"no earlier run read it, although one had read record {behind}: committed late{gone}"
        )

    def _status(self, decided: DecidedRecord, by: DecidedRecord | None) -> str:
        """The letter of ``_status``, or F if the sink refuses the document."""
        last = by if by is not None and decided.outcome is Outcome.SUPERSEDED else decided
        is_refused = (last.lane, last.document) in self._refused
        return Status.FATAL if is_refused else _status(decided, by)


def _outcome_in(
    journal: Journal, manifest: Manifest, source: str, position: Position
) -> str | None:
    """The outcome of a record of a live source in another run; ``None`` if it was not read."""
    numbers = [number for number, one in enumerate(manifest.sources) if one.name == source]
    for lane in range(manifest.lanes):
        reader = LaneReader(journal.root, journal.documents(manifest), lane)
        for number in numbers:
            found = reader.by_position(number, position)
            if found:
                reason = found[-1].reason
                return found[-1].outcome.label + (f" ({reason})" if reason else "")
    return None


def _position(source: Source, text: str) -> Position | None:
    try:
        return parse_position(text, source.parse_position)
    except UsageError:
        return None


def _is_of(obj: Object | None, name: str) -> bool:
    """Returns whether the object's association ends with this table, and its schema if it has one."""
    return obj is not None and association(obj).endswith(f",table={name}")


def _key_texts(key: str) -> frozenset[str]:
    """The key as written, and its canonical forms with values as text and as numbers."""
    try:
        parts = parse(key)
        numbers = format_key(
            sorted((part.column, integer_text(part.value) or part.value) for part in parts)
        )
        return frozenset({key, canonical(parts), numbers})
    except KeyProblem as problem:
        raise UsageError(str(problem)) from problem


def _place(entry: SourceEntry, source: Source, decided: DecidedRecord) -> tuple[str, str | None]:
    """The place of a record, and the record itself if it can be read again."""
    if entry.table is not None:
        return f"table {entry.table}", None
    stored = entry.splits[decided.split - entry.first_split]
    split = TypeAdapter(FORMATS[entry.format].split).validate_python(stored)
    try:
        raw = source.raw(split, decided.record)
    except (OSError, FatalError):  # the input was moved or changed: its position suffices
        raw = None
    return f"{split.path}, record {decided.record}", raw


def _event(event_type: int | None) -> str | None:
    return None if event_type is None else f"{event_type} {EVENT_NAMES[EventType(event_type)]}"


def _time(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    return moment.isoformat(sep=" ")


def _meaning(decided: DecidedRecord) -> str:
    if decided.reason is Reason.DUPLICATE and decided.detail:
        return decided.detail  # names the repeated record
    known = REASON_TEXTS.get(decided.reason) if decided.reason is not None else None
    if decided.reason is Reason.COMMIT and decided.detail:
        return f"{known}; {decided.detail}"  # a peculiarity of the commit
    return known or decided.detail or ""


def _status(decided: DecidedRecord, by: DecidedRecord | None) -> str:
    """The letter of an event log's row; a superseded row takes the letter of its superseding change."""
    if decided.reason is Reason.STATUS:
        return decided.detail or ""  # it has one already
    if decided.reason is Reason.OUT_OF_RANGE:
        return Status.NEW
    if decided.outcome is Outcome.SUPERSEDED:
        return _status(by, None) if by is not None else Status.SUCCESS
    return STATUS_OF[decided.outcome]
