"""Runs without the engine: splits are read, packed, sorted into lanes and planned, in one process."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from publisher.database.options import DatabaseOptions
from publisher.database.resources import Rules
from publisher.ledger.lane_result import LaneResult
from publisher.ledger.manifest import Manifest
from publisher.ledger.parts import LanePart
from publisher.ledger.run_reader import RunReader
from publisher.ledger.runs import LedgerRun, StoredRun
from publisher.masking.masker import Masking
from publisher.model.catalogue import Table
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.runs.plan_lane import plan_lane
from publisher.sources.event_log.source import event_log
from publisher.sources.record_packing import KEYS, PIECE_SCHEMA, pack, unpack
from publisher.sources.work import SourceWork, Work, read_split
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
    pieces = [piece for number in numbers for piece in pack(read_split(work, number))]
    return pa.Table.from_batches(pieces, PIECE_SCHEMA)


def plan_all(work: Work, pieces: pa.Table, folder: Path) -> list[LaneResult]:
    """Plans all lanes; the files stay staged in the folder."""
    results = []
    for lane in range(work.lanes):
        mine = pieces.filter(pa.compute.equal(pieces["lane"], lane))
        mine = mine.sort_by([(key, "ascending") for key in KEYS])
        results.append(
            plan_lane(
                work,
                folder / "staging",
                folder / "documents",
                lane,
                unpack(mine.to_batches(max_chunksize=2)),
            )
        )
    return results


def staged_reader(results: Sequence[LaneResult], folder: Path) -> RunReader:
    """Reads the staged files of all lanes."""
    manifest = Manifest("run", "", len(results), "", {}, (), tuple(results), "", 0)
    run = StoredRun(LedgerRun(folder), manifest, {}, None, 0.0, None)
    staging, documents = folder / "staging", folder / "documents"
    parts = [
        LanePart(run, result.lane, result.folder(staging), result.folder(documents))
        for result in results
    ]
    return RunReader(run, parts)


def lines(results: Iterable[LaneResult], folder: Path) -> list[str]:
    """All documents, lane by lane."""
    return [
        line
        for result in results
        for path in (folder / "documents" / result.staged).iterdir()
        for line in path.read_text("utf-8").splitlines()
    ]
