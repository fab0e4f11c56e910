"""The whole story of a change, read from the journal and, where it is still there, from the input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
from publisher.sources.contract import ShortPositions, Source
from publisher.sources.files.file_splits import Split
from publisher.sources.positions import parse_position
from publisher.sources.registry import FORMATS
from publisher.xds.association import association


@dataclass(frozen=True, slots=True)
class Story:
    """What became of one record.  ``status`` is the letter of the event log that it stands for."""

    source: str
    position: str
    place: str
    """File and number of the record in it, or the table."""
    raw: str | None
    """The record as JSON text; ``None`` where the input cannot be read any more, or is a table:
    databases are not asked."""
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
    """Position of the change that superseded it, ended it, or stands there twice."""
    lookups: tuple[JournalLookup, ...]
    document: PublishedDocument | None
    target: str
    """Where the document lies."""
    sent_to: tuple[str, ...] = ()
    """Sinks that the run went to besides."""
    late: str | None = None
    """Where it was published behind records of greater ids: how that came about."""


_NO_DOCUMENT = -1


def explain(directory: Path, what: str) -> list[Story]:
    """The stories of a position, an event id, a key or an association, in the order of positions.

    ``directory`` is a journal, or a directory that ``replay`` wrote.  Starts no Spark.

    Raises:
        UsageError: There is no journal, or nothing in it is called ``what``.
        FatalError: The journal is damaged or of another version.
    """
    journal = find_journal(directory)
    manifest = journal.manifest()
    if manifest is None:
        raise UsageError(f"{directory} has no complete run: start it again, then explain")
    reader = _Reader(journal, manifest)
    stories = [reader.story(decided) for decided in reader.find(what)]
    if not stories:
        raise UsageError(
            f"run {manifest.run} has no record {what!r}: give a position as"
            f" {_forms(manifest.sources)}, an event id as SOURCE:POSITION, a key as idu=1, or an"
            " association as idu=1,table=usr"
        )
    return stories


def _forms(sources: Sequence[SourceEntry]) -> str:
    """How positions of these sources are written."""
    forms: dict[str, list[str]] = {}
    for entry in sources:
        forms.setdefault(FORMATS[entry.format].position_text, []).append(entry.name)
    return ", ".join(f"{form} ({' and '.join(names)})" for form, names in forms.items())


class _Reader:
    """Finds records over all lanes and tells their stories."""

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
            short = isinstance(source, ShortPositions) and source.is_short(text)
            for lane in self._lanes:
                at = lane.by_low if short else lane.by_position
                yield from at(number, position)

    def _by_key(self, what: str) -> list[DecidedRecord]:
        """By association, else by key text.  An association that names no schema means any, unless
        there is an object without one."""
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
        """The lanes to look into: few where schema and table are named without quotes."""
        table, _, schema = name.partition(",schema=")
        if not schema or '"' in name:
            return self._lanes
        numbers = {lane_of(schema, table, key, len(self._lanes)) for key in keys}
        return [self._lanes[number] for number in sorted(numbers)]

    def story(self, decided: DecidedRecord) -> Story:
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
        return Story(
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
        """Late is what no earlier run had read: records that were held or retried are none."""
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
            "" if first and first.endswith("-000001") else ", or one whose journal is gone had it"
        )
        return f"no earlier run had it, though one had read record {behind}: committed late{gone}"

    def _status(self, decided: DecidedRecord, by: DecidedRecord | None) -> str:
        """As ``_status``; F where the sink refuses the document."""
        last = by if by is not None and decided.outcome is Outcome.SUPERSEDED else decided
        is_refused = (last.lane, last.document) in self._refused
        return Status.FATAL if is_refused else _status(decided, by)


def _outcome_in(
    journal: Journal, manifest: Manifest, source: str, position: Position
) -> str | None:
    """What became of a record of a live source in another run, ``None`` where it was not read."""
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
    """Whether the object's association ends with this table, and schema where it has one."""
    return obj is not None and association(obj).endswith(f",table={name}")


def _key_texts(key: str) -> frozenset[str]:
    """The key as written, and in canonical form: its values as text, and as numbers where they are."""
    try:
        parts = parse(key)
        numbers = format_key(
            sorted((part.column, integer_text(part.value) or part.value) for part in parts)
        )
        return frozenset({key, canonical(parts), numbers})
    except KeyProblem as problem:
        raise UsageError(str(problem)) from problem


def _place(entry: SourceEntry, source: Source, decided: DecidedRecord) -> tuple[str, str | None]:
    """Where a record was read, and the record itself where it can be read again."""
    if entry.table is not None:
        return f"table {entry.table}", None
    split = Split(**entry.splits[decided.split - entry.first_split])  # type: ignore[arg-type]
    try:
        raw = source.raw(split, decided.record)
    except (OSError, FatalError):  # the input was moved or changed since: its position must do
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
        return decided.detail  # says of what it is one
    known = REASON_TEXTS.get(decided.reason) if decided.reason is not None else None
    if decided.reason is Reason.COMMIT and decided.detail:
        return f"{known}; {decided.detail}"  # what is odd about it
    return known or decided.detail or ""


def _status(decided: DecidedRecord, by: DecidedRecord | None) -> str:
    """The letter that the row of an event log gets; superseded ones take their superseder's."""
    if decided.reason is Reason.STATUS:
        return decided.detail or ""  # it has one already
    if decided.reason is Reason.OUT_OF_RANGE:
        return Status.NEW
    if decided.outcome is Outcome.SUPERSEDED:
        return _status(by, None) if by is not None else Status.SUCCESS
    return STATUS_OF[decided.outcome]
