"""Compares the event ids of a planned run with those of the earlier runs of its job.

The same record may be published again with its event id, such as a row whose status was set to N again.
A position that names another record, or a document with other content, needs another id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.ledger.event_ids import SourceEpoch
from publisher.ledger.job import Ledger
from publisher.ledger.lane_reader import LaneReader
from publisher.ledger.lane_result import LaneNames
from publisher.ledger.manifest import Manifest
from publisher.ledger.read import Wanted, load_runs, read_runs
from publisher.ledger.runs import DOCUMENT_STAGING, LedgerRun
from publisher.ledger.tables import RECORDS, explain_damage
from publisher.model.change import Outcome, Position
from publisher.model.event_ids import IdOrigin, split_event_id

_POSITION = list(Position._fields)
_OBJECT = ["schema", "table", "key", "event_time"]
_COLUMNS = [*_POSITION, *_OBJECT, "document"]
_FEW = 1_000
"""Number of positions up to which earlier runs are searched for each of them."""

Run = tuple[LedgerRun, Manifest]
Bounds = tuple[int, int]
"""The least and the greatest ``high`` of published positions."""


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
        planned = _with_runs([(ledger_run, manifest)], source, condition)
        entry = manifest.sources[source]
        runs = [*self._runs(entry.name, entry.origin, planned)]
        earlier = _with_runs(runs, entry.name, _at(planned))
        conflict = _compare((ledger_run, manifest), source, planned, runs, earlier)
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
        run = next(load_runs(self._ledger, [number]))
        return _manifest_of(run).behind

    def _runs(self, source: str, origin: IdOrigin, planned: pa.Table) -> Iterator[Run]:
        """Yields the runs that have published some of these positions of a source, or may have."""
        span = pc.min_max(planned["high"]).as_py()
        least, greatest = span["min"], span["max"]
        wanted = Wanted(_at(planned) & _is_published(), between=(least, greatest))
        for run in read_runs(self._ledger, wanted):
            manifest = _manifest_of(run)
            first, last = _bounds_by_source(manifest).get((source, origin), (greatest + 1, least))
            if first <= greatest and last >= least:
                yield run, manifest


def find_shared_positions(ledger_run: LedgerRun, manifest: Manifest) -> set[int]:
    """Finds the sources of a planned run of which several documents begin at the same position."""
    paths = [
        result.folder(ledger_run.staging) / LaneNames(result.lane).index
        for result in manifest.results
        if result.documents
    ]
    highs = [_read_index(path, ["high"])["high"].to_numpy() for path in paths]
    if not highs or len(np.unique(np.concatenate(highs))) == sum(map(len, highs)):
        return set()
    places = pa.concat_tables(_read_index(path, ["source", *_POSITION]) for path in paths)
    counts = places.group_by(["source", *_POSITION], use_threads=False).aggregate(
        [([], "count_all")]
    )
    shared = counts.filter(pc.greater(counts["count_all"], 1))
    return set(shared["source"].to_pylist())


def _read_index(path: Path, columns: list[str]) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return file.read(columns, use_threads=False)


def find_origin(
    ledger: Ledger, ledger_run: LedgerRun, manifest: Manifest, source: int
) -> IdOrigin | None:
    """Finds the origin with which a job has read all records that a planned replay publishes.

    ``None`` if the job has not read some of them, or has read or published others at their positions."""
    planned = _with_runs([(ledger_run, manifest)], source, None)
    entry, runs = manifest.sources[source], dict[IdOrigin, list[Run]]()
    condition = _at(planned)
    for each_run in read_runs(ledger, Wanted(condition)):
        read_manifest = _manifest_of(each_run)
        for each in read_manifest.sources:
            if each.name == entry.name:
                runs.setdefault(each.origin, []).append((each_run, read_manifest))
    for origin, of_origin in reversed(runs.items()):
        read = _with_runs(of_origin, entry.name, condition, is_published=False)
        known = planned.join(read, _POSITION, join_type="left semi")
        published = _with_runs(of_origin, entry.name, condition)
        is_known = len(planned) == len(known) > 0
        if is_known and not _compare((ledger_run, manifest), source, planned, of_origin, published):
            return origin
    return None


def _compare(
    run: Run, source: int, planned: pa.Table, runs: Sequence[Run], earlier: pa.Table
) -> str | None:
    """Finds a position that names another record, or another document, in an earlier run."""
    entry = run[1].sources[source]
    by_object = entry.origin.by_object
    keys = [*_POSITION, *(["schema", "table", "key"] if by_object else [])]
    pairs = planned.join(earlier, keys, right_suffix="_before", join_type="inner")
    for name in (*([] if by_object else _OBJECT[:-1]), "event_time"):
        other = pairs.filter(_differs(pairs[name], pairs[f"{name}_before"]))
        if len(other):
            row = other.slice(0, 1).to_pylist()[0]
            what = "another event time" if name == "event_time" else "another key"
            was = runs[row["run_before"]][1].run
            return f"record {_shown(row)} was published in run {was} with {what}"
    columns = ("run", "lane", "document")
    names = [*columns, *(f"{name}_before" for name in columns)]
    documents = pairs.group_by([*names, "part", "high"], use_threads=False).aggregate([])
    for row in documents.to_pylist():
        if _has_other_content(run, entry.name, runs[row["run_before"]], row):
            was = runs[row["run_before"]][1].run
            return f"record {_shown(row)} was published in run {was} with other content"
    return None


def _has_other_content(run: Run, source: str, earlier: Run, row: Mapping[str, int]) -> bool:
    """Returns whether two documents with one event id differ, or cannot be compared."""
    result = next(each for each in run[1].results if each.lane == row["lane"])
    staged = run[0].documents(run[1]) / DOCUMENT_STAGING
    planned = LaneReader(
        result.folder(run[0].staging), result.folder(staged), result.lane
    ).document(row["document"])
    ledger_run, manifest = earlier
    lane = row["lane_before"]
    reader = LaneReader(ledger_run.place, ledger_run.documents(manifest), lane, ledger_run.tables())
    try:
        before = reader.document(row["document_before"])
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


def _with_runs(
    runs: Sequence[Run],
    source: int | str,
    condition: pc.Expression | None,
    *,
    is_published: bool = True,
) -> pa.Table:
    """Reads the published records of a source in some runs, by its number or name, each with run and lane;
    without ``is_published`` all records."""
    empty = pa.schema([*((name, _TYPES[name]) for name in _COLUMNS), *_PLACE]).empty_table()
    tables = [empty]
    for place, (ledger_run, manifest) in enumerate(runs):
        numbers = [
            number
            for number, entry in enumerate(manifest.sources)
            if source in (number, entry.name)
        ]
        chosen = pc.field("source").isin(numbers)
        if is_published:
            chosen &= _is_published()
        if condition is not None:
            chosen &= condition
        for result in manifest.results:
            rows = _read(ledger_run, result.folder(ledger_run.staging), result.lane, chosen)
            count = len(rows)
            rows = rows.append_column(_PLACE[0], pa.array(np.full(count, place)))
            tables.append(rows.append_column(_PLACE[1], pa.array(np.full(count, result.lane))))
    found = pa.concat_tables(tables)
    return found.set_column(0, "part", pc.fill_null(found["part"], ""))


_PLACE = (pa.field("run", pa.int64()), pa.field("lane", pa.int64()))
_TYPES = {field.name: field.type for field in RECORDS.schema}


def _read(run: LedgerRun, staged: Path, lane: int, condition: pc.Expression) -> pa.Table:
    name = LaneNames(lane).decisions
    if run.content is not None and run.content.tables is not None:
        rows = run.content.tables[name].filter(condition).select(_COLUMNS)
    else:
        path = run.place / name
        path = path if path.exists() else staged / name
        with explain_damage(path):
            rows = pq.read_table(path, columns=_COLUMNS, filters=condition, use_threads=False)
    return rows.cast(pa.schema([(name, _TYPES[name]) for name in _COLUMNS]))


def _manifest_of(run: LedgerRun) -> Manifest:
    assert run.content is not None
    return run.content.manifest


def _bounds_by_source(manifest: Manifest) -> dict[tuple[str, IdOrigin], Bounds]:
    bounds: dict[tuple[str, IdOrigin], Bounds] = {}
    for result in manifest.results:
        for number, _, least, greatest in result.published:
            entry = manifest.sources[number]
            first, last = bounds.get((entry.name, entry.origin), (least, greatest))
            bounds[entry.name, entry.origin] = min(first, least), max(last, greatest)
    return bounds


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
