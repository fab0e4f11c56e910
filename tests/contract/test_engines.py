"""The promises of every engine: what its verbs do, and the same bytes for the same work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from publisher.database.resources import Rules
from publisher.engine.contract import Engine, InputSize, Packing
from publisher.engine.local import MEMORY_BYTES, LocalEngine
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.spark.options import SparkOptions
from publisher.errors import FatalError
from publisher.formats.columns.record_batches import Place, nameless, tally
from publisher.formats.contract import Context, PrepareContext, Source
from publisher.formats.files.file_splits import Split
from publisher.formats.grouping import read_alone
from publisher.formats.work import SourceWork, Work, read_split
from publisher.ledger.conservation import check_conservation
from publisher.ledger.lane_result import LaneResult
from publisher.ledger.lane_writer import LaneSpace, PlannedLane
from publisher.ledger.tables import LOOKUPS, RECORDS
from publisher.model.catalogue import Catalogue, ColumnKind, JobCatalogue, Table
from publisher.model.change import TALLY, Position
from publisher.model.keys import IdentifierCase
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.runs.relate_groups import relate_groups
from publisher.runs.run import plan_lanes
from publisher.runs.source_tasks import EngineTasks
from tests.support.event_ids import ORIGIN
from tests.support.event_log_files import event, write
from tests.support.samples import SAMPLES
from tests.support.source_contract import Sample
from tests.support.task_runs import work_of

ENGINES = (
    "local",
    "local that spills",
    "local in processes",
    pytest.param("spark", marks=pytest.mark.xdist_group("spark")),
)
LANES = 3
ROWS_IN_MEMORY = 40
BY_TIME = ("log.csv", "lines.csv")
"""Samples that are ordered by event time, too."""
USR = Table("indirect", "usr", ("idu",), {"idu": ColumnKind.INT})


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "spark":
        request.getfixturevalue("spark")
        with SparkEngine(SparkOptions()) as engine:
            yield engine
    elif request.param == "local in processes":
        with LocalEngine(one_process=InputSize(), processes=2) as engine:
            engine.expect(lambda: InputSize(rows=1))
            yield engine
    else:
        with LocalEngine(memory=1 if "spills" in request.param else MEMORY_BYTES) as engine:
            yield engine


NUMBERS = pa.schema([("partition", pa.int32()), ("data", pa.binary())])
BY_REST = Packing(NUMBERS, "partition")


def numbers_of(split: range) -> Iterator[pa.RecordBatch]:
    """The numbers of a range, one batch for each, in the partitions of their rests by three."""
    for number in split:
        yield pa.RecordBatch.from_pydict(
            {"partition": [number % 3], "data": [str(number).encode()]}, NUMBERS
        )


def without_four(_: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        yield batch.filter(pa.array([each != b"4" for each in batch["data"].to_pylist()]))


def contents(partition: int, rows: Iterator[pa.RecordBatch]) -> tuple[int, list[str]]:
    values = [each.decode() for batch in rows for each in batch["data"].to_pylist()]
    return partition, sorted(values)


def square(number: int) -> int:
    return number * number


def test_a_chain_moves_rows_and_returns_facts_in_the_order_of_partitions(engine: Engine) -> None:
    rows = engine.read([range(1, 4), range(4, 8)], numbers_of, "a test")
    assert rows.gather(contents) == [(0, ["1", "2", "3"]), (1, ["4", "5", "6", "7"])]
    moved = rows.apply(without_four).exchange(BY_REST, 4)
    assert moved.gather(contents) == [(0, ["3", "6"]), (1, ["1", "7"]), (2, ["2", "5"]), (3, [])]
    collected = [value for batch in moved.collect() for value in batch["data"].to_pylist()]
    assert sorted(collected) == [b"1", b"2", b"3", b"5", b"6", b"7"]
    assert engine.read([], numbers_of, "a test").collect() == []


def test_results_of_a_map_are_in_the_order_of_their_items(engine: Engine) -> None:
    assert engine.map(square, range(20), "a test") == [number * number for number in range(20)]
    assert engine.map(square, [], "a test") == []


@dataclass(frozen=True)
class Meetings(Source):
    """A tiny format: rows name a meeting and a guest; each meeting gives one record in its last split."""

    meetings: tuple[tuple[tuple[int, str], ...], ...]
    format: str = "meetings"
    options: None = None
    group_columns: tuple[str, ...] = ("meeting",)

    def splits(self, _paths: object, _wanted: int) -> list[Split[int]]:
        return [Split("", 0, 0, number) for number in range(len(self.meetings))]

    def decode(self, split: Split[int], number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        place = Place(ctx.source, number, "", ctx.lanes)
        rows = self.meetings[split.payload]
        numbers, guests = zip(*rows, strict=True)
        yield pa.RecordBatch.from_pydict(
            {"meeting": numbers, "guest": guests, "split": [number] * len(rows)}
        )
        yield tally(place, len(rows))

    def relate(self, rows: Sequence[pa.RecordBatch], ctx: Context) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(rows).sort_by(
            [("meeting", "ascending"), ("guest", "ascending")]
        )
        for meeting in table["meeting"].unique().to_pylist():
            met = table.filter(pc.equal(table["meeting"], meeting))
            last = Place(ctx.source, max(met["split"].to_pylist()), "", ctx.lanes)
            guests = ", ".join(met["guest"].to_pylist())
            count = met.num_rows
            yield nameless(last, np.array([meeting]), records=count, outcome=2, detail=guests)

    def read(self, split: Split[int], number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        return read_alone(self, split, number, ctx)

    def raw_records(self, _split: object, _rows: object) -> dict[int, str]:
        return {}

    def position_text(self, position: Position) -> str:
        return position.text()

    def parse_position(self, text: str) -> Position:
        raise NotImplementedError


def meet(engine: Engine, folder: Path, partitions: int) -> list[tuple[int, str, int]]:
    """The meetings of two sources, beside an event log whose records depend on no other."""
    log = work_of([write(folder / "log.csv", [event(1, status="N")])], lanes=LANES, tables=[USR])
    first = Meetings((((1, "a"), (2, "b")), ((1, "c"), (3, "d")), ((2, "e"), (1, "f"))))
    second = Meetings((((1, "x"),), ((1, "y"),)))
    sources = [
        SourceWork(
            name=f"{number}",
            source=source,
            splits=tuple(source.splits((), 1)),
            filters=FilterOptions(),
            polls=None,
            identifier_case=IdentifierCase.AS_WRITTEN,
            origin=ORIGIN,
        )
        for number, source in enumerate((first, second))
    ]
    work = replace(log, sources=(*sources, *log.sources), partitions=partitions)
    rows = engine.read(range(len(work.splits())), partial(read_split, work), "a test")
    related = relate_groups(rows, work, folder / "rows").collect()
    assert all(batch.schema.equals(RECORD_SCHEMA) for batch in related)
    records = [row for batch in related for row in batch.to_pylist()]
    assert sum(row["outcome"] == TALLY for row in records) == len(work.splits())
    assert any(row["source"] == 2 and row["outcome"] != TALLY for row in records)
    return sorted(
        (row["source"], row["detail"], row["records"])
        for row in records
        if row["source"] < 2 and row["outcome"] != TALLY
    )


def test_rows_of_a_group_meet_and_records_of_other_sources_pass(
    engine: Engine, tmp_path: Path
) -> None:
    expected = [(0, "a, c, f", 3), (0, "b, e", 2), (0, "d", 1), (1, "x, y", 2)]
    assert meet(engine, tmp_path, 4) == expected
    assert meet(engine, tmp_path, 1) == expected


def test_a_split_alone_ends_with_its_tally() -> None:
    source = Meetings((((1, "a"), (1, "b")),))
    batches = list(source.read(source.splits((), 1)[0], 0, Context(0, 1, JobCatalogue([USR]))))
    assert [row["detail"] for batch in batches for row in batch.to_pylist()] == ["a, b", None]


def every_sample(engine: Engine, folder: Path) -> Work:
    """Samples of all formats as the sources of one run; two event logs once more by event time."""
    folder.mkdir()
    work = work_of([write(folder / "log.csv", [])], lanes=LANES, tables=[USR])
    sources: list[SourceWork] = []
    for sample in SAMPLES:
        is_log = sample.source.format == "event-log"
        polls: list[PollOptions | None] = [PollOptions() if is_log else None]
        polls += [PollOptions(future_events=True)] * (sample.name in BY_TIME)
        for poll in polls:
            place = folder / f"{len(sources):02d}"
            sources.append(prepare(engine, work.rules, sample, place, poll))
    return replace(work, sources=tuple(sources), shared=folder / "ids")


def prepare(
    engine: Engine, rules: Rules, sample: Sample, folder: Path, polls: PollOptions | None
) -> SourceWork:
    folder.mkdir()
    context = PrepareContext(
        wanted=3,
        catalogue=JobCatalogue([USR]),
        tasks=EngineTasks(engine, rules, sample.source),
        stack=ExitStack(),
        staged=folder / "state",
        paths=(sample.make(folder / sample.name),),
    )
    prepared = sample.source.prepare(context)
    return SourceWork(
        name=folder.name,
        source=prepared.source,
        splits=prepared.splits,
        filters=FilterOptions(),
        polls=polls,
        identifier_case=IdentifierCase.AS_WRITTEN,
        origin=ORIGIN,
    )


def plan(engine: Engine, work: Work, folder: Path) -> list[PlannedLane]:
    space = LaneSpace(folder / "staging", folder / "documents", rows=ROWS_IN_MEMORY, bytes=1 << 20)
    return plan_lanes(engine, work, space, "test")


Planned = tuple[list[LaneResult], list[list[object]]]
"""Results and rows of all lanes."""


def plan_samples(engine: Engine, folder: Path) -> Planned:
    """Plans all samples."""
    work = every_sample(engine, folder)
    lanes = plan(engine, work, folder)
    sizes = [lane.rows.read(RECORDS).num_rows for lane in lanes]  # some lanes have files
    assert min(sizes) <= ROWS_IN_MEMORY < max(sizes), sizes
    results = [replace(r, seconds=0.0, tallies=tuple(sorted(r.tallies))) for r, *_ in lanes]
    assert [result.lane for result in results] == list(range(LANES))
    numbers = [source for source, _ in work.splits()]
    splits = [
        [n for n, of in enumerate(numbers) if of == source] for source in range(len(work.sources))
    ]
    assert check_conservation(results, splits) > sum(result.documents for result in results) > 0
    tables = [[*lane.rows.texts(), *map(lane.rows.read, (RECORDS, LOOKUPS))] for lane in lanes]
    return results, tables


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Results and rows of the local engine."""
    return plan_samples(LocalEngine(), tmp_path_factory.mktemp("expected") / "samples")


def test_every_format_gives_the_same_bytes(
    engine: Engine, expected: Planned, tmp_path: Path
) -> None:
    assert plan_samples(engine, tmp_path / "samples") == expected


def test_a_survey_is_in_the_order_of_its_items(engine: Engine, tmp_path: Path) -> None:
    run = work_of([write(tmp_path / "log.csv", [])])
    tasks = EngineTasks(engine, run.rules, run.sources[0].source)
    assert [facts.to_pydict() for facts in tasks.survey(number_as_facts, range(20))] == [
        {"number": [number]} for number in range(20)
    ]


def number_as_facts(number: int, _: Catalogue) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": [number]})


def test_nothing_to_read_gives_empty_lanes(engine: Engine, tmp_path: Path) -> None:
    work = replace(work_of([write(tmp_path / "log.csv", [])], lanes=LANES), sources=())
    results = [lane.result for lane in plan(engine, work, tmp_path)]
    assert [(result.lane, result.documents) for result in results] == [(0, 0), (1, 0), (2, 0)]


def test_the_error_of_a_task_is_raised_and_nothing_stays_staged(
    engine: Engine, tmp_path: Path
) -> None:
    log = write(tmp_path / "log.csv", [event(number) for number in range(1, 9)])
    work = work_of([log], lanes=LANES)
    log.write_text("shorter")
    with pytest.raises(FatalError, match="has changed since the run began; start again"):
        plan(engine, work, tmp_path)
    assert not list(tmp_path.glob("*/*/part-*"))
