"""``bench planning``: one lane of an event log, planned in this process: no reading, no files."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from publisher.model.catalogue import ColumnKind, JobCatalogue, Table
from publisher.model.key_changes import KeyHistory
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.planning.query_back import NO_NAMED_COLUMNS, Answers, CurrentRows, NamedColumns
from tests.bench.processes import peak_size
from tests.bench.report import Report
from tests.support.planning import Setup

EVENTS = 225_000
ROWS = 16_000
"""Rows of a batch, as lanes get them."""
MIB = 1 << 20
LIKE_PLAIN = 3.0
"""Bound of the processor time of other logs beside a log of plain field events."""
SAME_MEMORY = 1.15
COLUMNS = ("fname", "lname", "photo")
KINDS = (ColumnKind.STRING, ColumnKind.STRING, ColumnKind.OCTET)
TABLE = Table(
    "indirect", "usr", ("idu",), dict(zip(("idu", *COLUMNS), (ColumnKind.INT, *KINDS), strict=True))
)


@dataclass(frozen=True, slots=True)
class Lane:
    """The changes of a lane: the event types of each object in turn."""

    types: tuple[int, ...]
    one_object: bool = False

    def batches(self, events: int) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
        """Row numbers and changes."""
        for start in range(0, events, ROWS):
            rows = np.arange(start, min(start + ROWS, events))
            yield rows, self._batch(rows)

    def _batch(self, rows: np.ndarray) -> pa.RecordBatch:
        count, each = len(rows), len(self.types)
        objects = np.zeros(count, np.int64) if self.one_object else rows // each
        types = np.array(self.types)[rows % each]
        fields = types < 4
        columns = {
            **dict.fromkeys(
                ("source", "lane", "low", "ordinal", "event_time"), np.zeros(count, int)
            ),
            "rank": rows + 1,
            "high": rows + 1,
            "part": [""] * count,
            "schema": ["indirect"] * count,
            "table": ["usr"] * count,
            "key": [f"idu={number}" for number in objects.tolist()],
            "event_type": types,
            "columns": [[COLUMNS[n % 3]] if f else [] for n, f in zip(rows, fields, strict=True)],
            "old": [["Jack"] if kind == 2 else None for kind in types.tolist()],
            "new": [
                ["O'Neil & Sons" if n % 3 == 1 else "qqo="] if f else None
                for n, f in zip(rows, fields, strict=True)
            ],
        }
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in RECORD_SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)


LANES = {
    "plain field events": Lane((1, 2, 3)),
    "every third event reads the row": Lane((3, 3, 6)),
    "all of one object": Lane((1, 2, 3), one_object=True),
}


class Rows:
    """Current rows that cost nothing."""

    def read(self, objects: pa.RecordBatch, named: NamedColumns = NO_NAMED_COLUMNS) -> Answers:
        count = objects.num_rows
        values = [pa.repeat(text, count) for text in ("1", "Jack", "O'Neil & Sons", "qqo=")]
        return Answers([CurrentRows(np.arange(count), ("idu", *COLUMNS), values)], {})


def run(*, runs: int = 3, events: int | None = None, **_: int | None) -> Report:
    """Processor time of each lane, then the memory of a lane of ten times the events."""
    count = events or EVENTS
    report = Report("planning")
    seconds = {}
    for name, lane in LANES.items():
        batches = list(lane.batches(count))
        best = report.add_seconds(name, [_plan(iter(batches)) for _ in range(runs)])
        report.add(f"{name}: an event", best / count * 1e6, "µs")
        seconds[name] = best
    plain, *others = seconds.items()
    for name, best in others:
        report.add(f"{name} / plain", best / plain[1], "", bound=LIKE_PLAIN)
    small, large = (_peak(events) for events in (count, 10 * count))
    report.add("memory", small / MIB, "MiB")
    report.add("memory of ten times the events", large / MIB, "MiB")
    report.add("ten times / memory", large / small, "", bound=SAME_MEMORY)
    return report


def _plan(batches: Iterator[tuple[np.ndarray, pa.RecordBatch]]) -> float:
    setup = Setup(catalogue=JobCatalogue([TABLE]), lookup=Rows())
    planner = setup.lane_planner(KeyHistory())
    start = time.process_time()
    for rows, batch in batches:
        for _ in planner.add(rows, batch):
            pass
    for _ in planner.finish():
        pass
    seconds = time.process_time() - start
    planner.close()
    return seconds


def _peak(events: int) -> int:
    """The peak memory of a process that plans a lane, bytes."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_plan_alone, (events,))


def _plan_alone(events: int) -> int:
    _plan(LANES["plain field events"].batches(events))
    size = peak_size(os.getpid())
    assert size is not None
    return size
