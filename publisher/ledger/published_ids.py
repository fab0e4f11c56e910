"""Compares the event ids of a planned run with those of the earlier runs of its job.

The same record may be published again with its event id, such as a row whose status was set to N again.
A position that names another record, or a document with other content, needs another id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.ledger.event_ids import SourceEpoch
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest
from publisher.ledger.parts import LedgerPart, lane_parts, parts_of
from publisher.ledger.read import Wanted, find_number, read_runs
from publisher.ledger.run_reader import PublishedDocument, RunReader
from publisher.ledger.runs import LedgerRun, StoredRun
from publisher.ledger.tables import RECORDS
from publisher.model.change import Outcome, Position
from publisher.model.event_ids import IdOrigin, split_event_id

_POSITION = list(Position._fields)
_OBJECT = ["schema", "table", "key", "event_time"]
_COLUMNS = [*_POSITION, *_OBJECT, "document"]
_FEW = 1_000
"""Number of positions up to which earlier runs are searched for each of them."""

Parts = Sequence[LedgerPart]
"""Parts with one run each."""


class PublishedIds:
    """The event ids that the runs of a job have published."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def find_conflict(
        self, ledger_run: LedgerRun, manifest: Manifest, source: int, epoch: SourceEpoch
    ) -> str | None:
        """Explains why a planned run must not publish records of a source in an epoch; ``None`` if it may.

        Raises ``FatalError`` if a ledger is damaged."""
        repeats = [
            (pc.field("part") == part if part else _has_no_part())
            & (pc.field("high") <= epoch.published[part])
            for result in manifest.results
            for number, part, least, _ in result.published
            if number == source and least <= epoch.published.get(part, least - 1)
        ]
        if not repeats:
            return None
        condition = repeats[0]
        for each in repeats[1:]:
            condition |= each
        staged = lane_parts(StoredRun(ledger_run, manifest))
        planned = _read(staged, source, condition)
        entry = manifest.sources[source]
        parts = [*self._parts(entry.name, entry.origin, planned)]
        earlier = _read(parts, entry.name, _at(planned))
        conflict = _compare(staged, source, planned, parts, earlier)
        return conflict or self._find_forgotten(entry.name, planned, earlier, epoch)

    def _find_forgotten(
        self, source: str, planned: pa.Table, earlier: pa.Table, epoch: SourceEpoch
    ) -> str | None:
        """Finds a record that a run of the epoch may have published whose ledger is deleted."""
        oldest = self._ledger.oldest_kept()
        if oldest is not None and oldest <= epoch.since:
            return None
        behind = None if oldest is None else self._behind_of(oldest).get(source)
        unknown = planned.join(earlier, _POSITION, join_type="left anti")
        for row in unknown.select(["part", "high"]).to_pylist():
            greatest = epoch.published[row["part"]]
            if row["high"] <= (greatest if behind is None or row["part"] else behind):
                return (
                    f"record {_shown(row)} may have been published before, by a run whose ledger is "
                    "deleted"
                )
        return None

    def _behind_of(self, number: int) -> Mapping[str, int]:
        """The greatest record ids before a kept run."""
        run = find_number(self._ledger, number)
        return {} if run is None else run.manifest.behind

    def _parts(self, source: str, origin: IdOrigin, planned: pa.Table) -> Iterator[LedgerPart]:
        """Yields the runs that have published some of these positions of a source, or may have."""
        span = pc.min_max(planned["high"]).as_py()
        wanted = Wanted(_at(planned) & _is_published(), between=(span["min"], span["max"]))
        for run in read_runs(self._ledger, wanted):
            if any((each.name, each.origin) == (source, origin) for each in run.manifest.sources):
                yield from parts_of([run])


def find_shared_positions(ledger_run: LedgerRun, manifest: Manifest) -> set[int]:
    """Finds the sources of a planned run of which several documents begin at the same position."""
    parts = lane_parts(StoredRun(ledger_run, manifest))
    highs = [part.documents(["high"])["high"].to_numpy() for part in parts]
    if not highs or len(np.unique(np.concatenate(highs))) == sum(map(len, highs)):
        return set()
    places = pa.concat_tables(part.documents(["source", *_POSITION]) for part in parts)
    counts = places.group_by(["source", *_POSITION], use_threads=False).aggregate(
        [([], "count_all")]
    )
    shared = counts.filter(pc.greater(counts["count_all"], 1))
    return set(shared["source"].to_pylist())


def find_origin(
    ledger: Ledger, ledger_run: LedgerRun, manifest: Manifest, source: int
) -> IdOrigin | None:
    """Finds the origin with which a job has read all records that a planned replay publishes.

    ``None`` if the job has not read some of them, or has read or published others at their positions."""
    staged = lane_parts(StoredRun(ledger_run, manifest))
    planned = _read(staged, source, None)
    entry, parts = manifest.sources[source], dict[IdOrigin, list[LedgerPart]]()
    condition = _at(planned)
    for run in read_runs(ledger, Wanted(condition)):
        for each in run.manifest.sources:
            if each.name == entry.name:
                parts.setdefault(each.origin, []).extend(parts_of([run]))
    for origin, of_origin in reversed(parts.items()):
        read = _read(of_origin, entry.name, condition, is_published=False)
        known = planned.join(read, _POSITION, join_type="left semi")
        published = _read(of_origin, entry.name, condition)
        is_known = len(planned) == len(known) > 0
        if is_known and not _compare(staged, source, planned, of_origin, published):
            return origin
    return None


def _compare(
    staged: Parts, source: int, planned: pa.Table, parts: Parts, earlier: pa.Table
) -> str | None:
    """Finds a position that names another record, or another document, in an earlier run."""
    entry = staged[0].runs[0].manifest.sources[source]
    by_object = entry.origin.by_object
    keys = [*_POSITION, *(["schema", "table", "key"] if by_object else [])]
    pairs = planned.join(earlier, keys, right_suffix="_before", join_type="inner")
    for name in (*([] if by_object else _OBJECT[:-1]), "event_time"):
        other = pairs.filter(_differs(pairs[name], pairs[f"{name}_before"]))
        if len(other):
            row = other.slice(0, 1).to_pylist()[0]
            what = "another event time" if name == "event_time" else "another key"
            was = parts[row["place_before"]].runs[0].manifest.run
            return f"record {_shown(row)} was published in run {was} with {what}"
    columns = ("place", "lane", "document")
    names = [*columns, *(f"{name}_before" for name in columns)]
    documents = pairs.group_by([*names, "part", "high"], use_threads=False).aggregate([])
    for row in documents.to_pylist():
        if _has_other_content(staged[row["place"]], entry.name, parts[row["place_before"]], row):
            was = parts[row["place_before"]].runs[0].manifest.run
            return f"record {_shown(row)} was published in run {was} with other content"
    return None


def _has_other_content(
    staged: LedgerPart, source: str, earlier: LedgerPart, row: Mapping[str, int]
) -> bool:
    """Returns whether two documents with one event id differ, or cannot be compared."""
    planned = _document(staged, row["lane"], row["document"])
    try:
        before = _document(earlier, row["lane_before"], row["document_before"])
    except FatalError:  # its part file was moved
        return True
    prefix, place = split_event_id(planned.event_id, source)
    prefix_before, place_before = split_event_id(before.event_id, source)
    if place != place_before:
        return False
    text = planned.text.replace(f"{prefix}:", f"{prefix_before}:")
    return (planned.association, planned.new_association, text) != (
        before.association,
        before.new_association,
        before.text,
    )


def _document(part: LedgerPart, lane: int, number: int) -> PublishedDocument:
    place = lane, number
    return RunReader(part.runs[0], [part]).find_documents([place])[place]


def _read(
    parts: Parts,
    source: int | str,
    condition: pc.Expression | None,
    *,
    is_published: bool = True,
) -> pa.Table:
    """Reads the published records of a source, by its number or name, each with the place of its part;
    without ``is_published`` all records."""
    tables = [_SCHEMA.empty_table()]
    for place, part in enumerate(parts):
        sources = enumerate(part.runs[0].manifest.sources)
        chosen = pc.field("source").isin(
            [number for number, entry in sources if source in (number, entry.name)]
        )
        if is_published:
            chosen &= _is_published()
        if condition is not None:
            chosen &= condition
        rows = part.records(_COLUMNS, chosen).drop_columns(["run"])
        places = pa.array(np.full(len(rows), place))
        tables.append(rows.append_column("place", places).cast(_SCHEMA))
    found = pa.concat_tables(tables)
    return found.set_column(0, "part", pc.fill_null(found["part"], ""))


_SCHEMA = pa.schema(
    [
        *(RECORDS.schema.field(name) for name in _COLUMNS),
        ("lane", pa.int64()),
        ("place", pa.int64()),
    ]
)


def _is_published() -> pc.Expression:
    return pc.field("outcome") == int(Outcome.PUBLISHED)


def _has_no_part() -> pc.Expression:
    return pc.field("part").is_null() | (pc.field("part") == "")


def _at(planned: pa.Table) -> pc.Expression:
    """A condition on records that all records at the positions of ``planned`` fulfil."""
    highs = pc.unique(planned["high"])
    if len(highs) <= _FEW:
        return pc.field("high").isin(highs)
    wanted = pc.min_max(highs).as_py()
    return (pc.field("high") >= wanted["min"]) & (pc.field("high") <= wanted["max"])


def _differs(values: pa.ChunkedArray, before: pa.ChunkedArray) -> pa.ChunkedArray:
    """Tests values for inequality; null equals only null."""
    both = pc.and_(values.is_null(), before.is_null())
    return pc.invert(pc.or_(both, pc.fill_null(pc.equal(values, before), False)))


def _shown(row: Mapping[str, object]) -> str:
    return f"{row['part']}:{row['high']}" if row["part"] else str(row["high"])
