"""Runs without the engine: splits are read, packed, sorted into lanes and planned, in one process."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa

from publisher.consumer import Objects
from publisher.consumer.parse import parse_document
from publisher.database.options import DatabaseOptions
from publisher.database.resources import Rules
from publisher.formats.event_log.source import event_log
from publisher.formats.record_packing import KEYS, PIECE_SCHEMA, pack, unpack
from publisher.formats.work import SourceWork, Work, read_split, relate_rows
from publisher.ledger.lane_result import LaneResult
from publisher.ledger.lane_writer import LaneSpace, PlannedLane
from publisher.ledger.manifest import Manifest
from publisher.ledger.parts import lane_parts
from publisher.ledger.run_reader import RunReader
from publisher.ledger.runs import LedgerRun, StoredRun
from publisher.masking.masker import Masking
from publisher.model.catalogue import Table
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.runs.plan_lane import plan_lane
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions
from tests.support.event_ids import ORIGIN


def work_of(
    paths: Sequence[Path],
    *,
    lanes: int = 1,
    splits: int = 1,
    polls: PollOptions | None = None,
    filters: FilterOptions | None = None,
    documents: DocumentOptions | None = None,
    tables: Sequence[Table] = (),
    database: str | None = None,
    clock: int = 0,
    masking: Masking | None = None,
) -> Work:
    """The work of a run over snapshots of an event log."""
    source = event_log()
    return Work(
        sources=(
            SourceWork(
                name="log",
                source=source,
                splits=tuple(source.splits(paths, splits)),
                filters=filters or FilterOptions(),
                polls=polls or PollOptions(),
                identifier_case=IdentifierCase.AS_WRITTEN,
                origin=ORIGIN,
            ),
        ),
        rules=Rules(
            documents=documents or DocumentOptions(),
            envelope=EnvelopeOptions(),
            values=ValueOptions(),
            tables=tuple(tables),
            database=DatabaseOptions(url=database) if database is not None else None,
            masking=masking,
        ),
        lanes=lanes,
        clock=clock,
        shared=paths[0].parent / ".ids",
    )


def read_all(work: Work, chance: random.Random | None = None) -> pa.Table:
    """The pieces of all splits, in the order in which a shuffle may bring them."""
    numbers = list(range(len(work.splits())))
    (chance or random.Random(0)).shuffle(numbers)
    splits = [read_split(work, number) for number in numbers]
    if work.has_groups:
        splits = [relate_rows(work, 0, chain.from_iterable(splits))]
    pieces = [piece for records in splits for piece in pack(records)]
    return pa.Table.from_batches(pieces, PIECE_SCHEMA)


def plan_all(
    work: Work, pieces: pa.Table, folder: Path, *, rows: int = 20_000
) -> list[PlannedLane]:
    """Plans all lanes; lanes with more than ``rows`` records stage their files in the folder."""
    space = LaneSpace(folder / "staging", folder / "documents", rows=rows, bytes=1 << 23)
    lanes = []
    for lane in range(work.lanes):
        mine = pieces.filter(pa.compute.equal(pieces["lane"], lane))
        mine = mine.sort_by([(key, "ascending") for key in KEYS])
        lanes.append(plan_lane(work, space, lane, unpack(mine.to_batches(max_chunksize=2))))
    return lanes


def results_of(lanes: Iterable[PlannedLane]) -> list[LaneResult]:
    """The reports of planned lanes."""
    return [lane.result for lane in lanes]


def planned_reader(lanes: Sequence[PlannedLane], folder: Path) -> RunReader:
    """Reads the rows of all lanes."""
    manifest = Manifest("run", "", len(lanes), "", {}, (), tuple(results_of(lanes)), "", 0)
    run = StoredRun(LedgerRun(folder, rows=[lane.rows for lane in lanes]), manifest)
    return RunReader(run, lane_parts(run))


def lines(lanes: Iterable[PlannedLane]) -> list[str]:
    """All documents, lane by lane."""
    return [text for lane in lanes for text in lane.rows.texts()]


def apply_texts(objects: Objects, texts: Iterable[str]) -> None:
    """Applies documents to objects."""
    for text in texts:
        for operation in parse_document(text):
            objects.apply(operation)
