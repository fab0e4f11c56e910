"""The status letter of each record of a live event log, from a committed journal.

S published, W nothing to publish, E rejected, F refused by the sink for good (event log page,
status); a superseded record has the letter of the change that superseded it.  Records that are held
stay N, those that were ignored for their status keep what they have.

Done by the column.  Of a journal of any length it holds a byte for each record, and the record ids of
one window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.dispatch.refusals import Refusal
from publisher.errors import FatalError
from publisher.journal.lane_writer import LaneNames
from publisher.journal.manifest import Journal, Manifest
from publisher.model.change import Outcome, Reason

Ids = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

WINDOW = 1 << 20
"""Records whose ids are sorted together."""

NONE, S, W, E, F, HELD = 0, 1, 2, 4, 8, 16
"""What a record asks for its row, as bits: records of one id may differ."""

_OF_OUTCOME = np.zeros(8, np.uint8)
_OF_OUTCOME[[Outcome.PUBLISHED, Outcome.IGNORED, Outcome.HELD, Outcome.REJECTED]] = (S, W, HELD, E)
_LEFT_ALONE = pa.array([Reason.STATUS, Reason.OUT_OF_RANGE, Reason.REPORTED], pa.string())
_READ = ["source", "part", "high", "outcome", "reason", "by", "document"]
_REPEATING = ["part", "reason"]


def _letter_of(bits: int) -> int:
    """The letter of a row whose id these records have; 0: none.

    Ids are unique by the log's definition.  Where they are not, rows of an id cannot be told apart, so
    they get one letter: the gravest of F and E, else S before W.  A row that is held keeps all of its
    id waiting, unless one of them was published: that would be published again and again, so it is an
    error to mend.
    """
    if bits & F:
        return ord("F")
    if bits & E or bits & (S | HELD) == S | HELD:
        return ord("E")
    if bits & HELD:
        return 0
    return ord("S") if bits & S else ord("W") if bits & W else 0


_LETTERS = np.array([_letter_of(bits) for bits in range(32)], np.uint8)
LETTERS: Mapping[int, str] = {S: "S", W: "W", E: "E", F: "F"}
"""The letter of a record that has its id for itself."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Record ids, ascending and each once, and the letter of each as ASCII code."""

    ids: Ids
    letters: Codes
    torn: Ids
    """Those which got E because one of their records was published and another is held."""
    fingerprints: Ids
    """Of all rows of these ids, ascending."""


Refused = Mapping[tuple[int, int], tuple[str, str]]
"""Documents that the sink refused for good, by lane and number in the lane: reason and detail."""


def refused_of(refusals: Iterable[Refusal]) -> Refused:
    """What a dispatch record says, by document."""
    return {(entry.lane, entry.document): (entry.reason, entry.detail) for entry in refusals}


class Passed(NamedTuple):
    """What a run read of a live source: the greatest record id, 0 for none, and how many of the
    published records lie below the greatest that an earlier run had read."""

    greatest: int = 0
    late: int = 0


class Group(NamedTuple):
    """A row group of a decisions file: its number, its rows in the lane, least and greatest id."""

    number: int
    rows: slice
    least: int
    most: int


class LaneLetters:
    """The letters of one lane's records of one source.

    Raises:
        FatalError: A file of the journal is missing or damaged.
    """

    def __init__(
        self, root: Path, lane: int, source: int, refused: Collection[int] = (), behind: int = 0
    ) -> None:
        """``refused`` are numbers of documents of the lane; ``behind`` is the greatest record id that
        an earlier run had read."""
        self._path = root / LaneNames(lane).decisions
        self._source = source
        self._refused = np.array(sorted(refused), np.int64)
        self.lane = lane
        try:
            self.file = pq.ParquetFile(self._path, read_dictionary=_REPEATING)
        except (OSError, pa.ArrowInvalid) as error:
            raise FatalError(
                f"{self._path} of the journal cannot be read ({error}): restore it; its run cannot be "
                "acknowledged without it"
            ) from error
        self.groups: list[Group] = list(_groups(self.file.metadata))
        self.bits: Codes = np.zeros(self.file.metadata.num_rows, np.uint8)
        """What each record of the lane asks for, ``NONE`` for those of other sources."""
        self.superseded: Ids = np.empty(0, np.int64)
        """Rows of the superseded records,"""
        self.by: Ids = np.empty(0, np.int64)
        """and of those which superseded them."""
        self.passed = Passed()
        self._fill(behind)

    def read(self, group: Group, columns: list[str]) -> pa.Table:
        """Columns of a row group."""
        return self.file.read_row_group(group.number, columns=columns, use_threads=False)

    def _fill(self, behind: int) -> None:
        superseded, by = [], []
        for group in self.groups:
            table = self.read(group, _READ)
            outcomes = numbers(table["outcome"])
            bits = _OF_OUTCOME[outcomes]
            alone = pc.is_in(table["reason"], value_set=_LEFT_ALONE)
            mine = numbers(table["source"]) == self._source
            bits[~mine | (truth(alone) & (outcomes == Outcome.IGNORED))] = NONE
            if len(self._refused):
                bits[np.isin(numbers(table["document"]), self._refused) & (bits == S)] = F
            self.bits[group.rows] = bits
            rows = np.flatnonzero(mine & (outcomes == Outcome.SUPERSEDED))
            superseded.append(rows + group.rows.start)
            by.append(numbers(table["by"])[rows])
            self._pass(table, mine, outcomes == Outcome.PUBLISHED, behind)
        if superseded:
            self.superseded, self.by = np.concatenate(superseded), np.concatenate(by)
        self._settle()

    def _pass(self, table: pa.Table, mine: Flags, published: Flags, behind: int) -> None:
        ids = numbers(table["high"])
        mine = mine & named(table)
        greatest = max(self.passed.greatest, int(ids[mine].max(initial=0)))
        late = int(np.count_nonzero(mine & published & (ids < behind)))
        self.passed = Passed(greatest, self.passed.late + late)

    def _settle(self) -> None:
        """Superseded records take the bits of those which superseded them; S where none did."""
        self.bits[self.superseded] = np.where(self.by < 0, S, NONE)
        open_ = np.flatnonzero(self.by >= 0)
        while len(open_):
            found = self.bits[self.by[open_]]
            self.bits[self.superseded[open_]] = found
            waiting = open_[found == NONE]
            if len(waiting) == len(open_):
                return  # what superseded them asks for nothing
            open_ = waiting


def lanes_of(
    journal: Journal, manifest: Manifest, source: int, refused: Refused, behind: int = 0
) -> list[LaneLetters]:
    """The letters of all lanes of one source of a journal; ``behind`` as of ``LaneLetters``."""
    by_lane: dict[int, list[int]] = {}
    for lane, document in refused:
        by_lane.setdefault(lane, []).append(document)
    return [
        LaneLetters(journal.root, lane, source, by_lane.get(lane, ()), behind)
        for lane in range(manifest.lanes)
    ]


def passed(lanes: list[LaneLetters]) -> Passed:
    """How far a run has read a source, and what of it came late."""
    greatest = max((lane.passed.greatest for lane in lanes), default=0)
    return Passed(greatest, sum(lane.passed.late for lane in lanes))


def marks(lanes: list[LaneLetters], window: int = WINDOW) -> Iterator[Marks]:
    """The letters by record id, in windows of about ``window`` records; ids ascend over all of them.

    Without records whose id is no positive number: see ``unnamed``.
    """
    ends = _ends(lanes, window)
    for low, high in zip([None, *ends], [*ends, None], strict=True):
        found = [part for lane in lanes for part in _parts(lane, low, high)]
        if not found:
            continue
        ids = np.concatenate([part.ids for part in found])
        bits = np.concatenate([part.bits for part in found])
        fingerprints = np.sort(np.concatenate([part.fingerprints for part in found]))
        made = _merged(ids, bits, fingerprints)
        if len(made.ids):
            yield made


def _merged(ids: Ids, bits: Codes, fingerprints: Ids) -> Marks:
    """One letter for each id; ids whose rows stay as they are left out."""
    if not len(ids):
        return Marks(ids, bits, ids, fingerprints)
    order = np.argsort(ids, kind="stable")
    ids, bits = ids[order], bits[order]
    firsts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    if len(firsts) < len(ids):
        ids, bits = ids[firsts], np.bitwise_or.reduceat(bits, firsts)
    letters = _LETTERS[bits]
    kept = letters != 0
    torn = ids[(bits & (S | E | F | HELD)) == S | HELD]
    if not kept.all():
        ids, letters = ids[kept], letters[kept]
    return Marks(ids, letters, torn, fingerprints)


class _Part(NamedTuple):
    """Ids of records that ask for something, their bits and fingerprints."""

    ids: Ids
    bits: Codes
    fingerprints: Ids


def _parts(lane: LaneLetters, low: int | None, high: int | None) -> Iterator[_Part]:
    """The records with ids in [low, high) that ask for something."""
    for group in lane.groups:
        if (high is not None and group.least >= high) or (low is not None and group.most < low):
            continue
        table = lane.read(group, ["part", "high", "fingerprint"])
        ids, fingerprints = numbers(table["high"]), fingerprints_in(table)
        bits = lane.bits[group.rows]
        wanted = (bits != NONE) & named(table)
        if low is not None:
            wanted &= ids >= low
        if high is not None:
            wanted &= ids < high
        yield _Part(ids[wanted], bits[wanted], fingerprints[wanted])


_SAMPLES = 16
_ANY = (-(1 << 63), (1 << 63) - 1)


def _ends(lanes: list[LaneLetters], window: int) -> list[int]:
    """Record ids that cut all records into windows, by what row groups say of their least and
    greatest id."""
    samples: list[Ids] = []
    weights: list[npt.NDArray[np.float64]] = []
    for lane in lanes:
        for group in lane.groups:
            rows, least, most = group.rows.stop - group.rows.start, group.least, group.most
            # in whole numbers: floating point has no place for the largest ids
            step = (most - least) // (_SAMPLES - 1)
            samples.append(np.array([*range(least, most, step or 1)][:_SAMPLES] or [most]))
            weights.append(np.full(len(samples[-1]), rows / len(samples[-1])))
    if not samples:
        return []
    places = np.concatenate(samples)
    order = np.argsort(places)
    counted = np.cumsum(np.concatenate(weights)[order])
    cuts = np.arange(window, counted[-1], window)
    return np.unique(places[order][np.searchsorted(counted, cuts)]).tolist()  # type: ignore[no-any-return]


def _groups(metadata: Any) -> Iterator[Group]:
    """The row groups of a decisions file."""
    paths = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
    leaf = paths.index("high")
    first = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        limits = group.column(leaf).statistics
        known = limits is not None and limits.has_min_max
        least, most = (limits.min, limits.max) if known else _ANY
        yield Group(number, slice(first, first + group.num_rows), least, most)
        first += group.num_rows


def named(table: pa.Table) -> Flags:
    """Which records have a record id: those without stand at their place in the input."""
    return truth(pc.equal(pc.fill_null(table["part"].cast(pa.string()), ""), ""))


def fingerprints_in(table: pa.Table) -> Ids:
    """The fingerprints of records; 0 where one has none."""
    found: Ids = numbers(pc.fill_null(table["fingerprint"], 0))
    return found


def numbers(column: pa.ChunkedArray) -> Any:
    """A column without nulls as NumPy array."""
    return column.combine_chunks().to_numpy(zero_copy_only=False)


def truth(column: pa.ChunkedArray) -> Flags:
    """A boolean column as NumPy array; null is false."""
    found: Flags = numbers(pc.fill_null(column, False))
    return found
