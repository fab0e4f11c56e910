"""The promises of every source of files, as tests that each format inherits."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pydantic import TypeAdapter

from publisher.errors import PublisherError
from publisher.formats.contract import CarryOver, Context, PreparedSource, Source
from publisher.formats.files.file_splits import Split
from publisher.formats.live.table_split import TableSplit
from publisher.formats.registry import FORMATS
from publisher.model.change import TALLY, Outcome, Position
from publisher.model.record_schema import RECORD_SCHEMA
from tests.support.event_log_files import Row, Tables
from tests.support.garbage import count_garbage
from tests.support.prepare import prepare_here, read_prepared
from tests.support.raw_records import raw_record

CONTEXT = Context(3, 5, Tables())
TESTED_ELSEWHERE = frozenset(
    {"fingerprint", "is_view", "logged_table", "logged_column", "children"}
)
"""Columns that only rows of live tables, and of child tables and views, fill."""


@dataclass(frozen=True)
class Sample:
    """A small input of a format: how to make it, and how many records a cut of it has."""

    name: str
    source: Source
    make: Callable[[Path], Path]
    records: int
    count: Callable[[bytes], int] | None
    """Records in the first bytes of the file, by rules of its own; ``None``: not counted."""
    unused: frozenset[str] = frozenset()
    """Columns that this format never fills."""


_CSV_PARTS = re.compile(rb'["\r\n]|[^"\r\n]+')


def count_csv(data: bytes) -> int:
    lines, quotes, filled = 0, 0, False
    for part in _CSV_PARTS.findall(data):
        quotes += part == b'"'
        filled = filled or part not in (b"\r", b"\n")
        if part == b"\n" and quotes % 2 == 0:
            lines, filled = lines + filled, False
    return max(0, lines + filled - 1)  # without the header


def count_json(data: bytes) -> int:
    return sum(1 for line in data.split(b"\n") if line.strip())


def write_parts(*parts: bytes) -> Callable[[Path], Path]:
    """Returns the function that writes these parts into a file."""

    def write(path: Path) -> Path:
        path.write_bytes(b"".join(parts))
        return path

    return write


class SourceContract:
    """The promises of a source, one in each test; a format inherits them with samples of its own."""

    samples: ClassVar[Sequence[Sample]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Runs each test with each sample."""
        metafunc.parametrize("sample", self.samples, ids=lambda sample: sample.name)

    def test_splits_are_stable_and_go_to_tasks_and_ledgers(
        self, sample: Sample, tmp_path: Path
    ) -> None:
        path = sample.make(tmp_path / sample.name)
        splits = sample.source.splits([path], 3)
        assert splits == sample.source.splits([path], 3)
        with prepare_here(sample.source, [path], 3, CONTEXT.catalogue) as prepared:
            planned = list(prepared.splits)
        stored = json.loads(json.dumps([asdict(split) for split in planned]))
        kind = FORMATS[sample.source.format].split()
        assert TypeAdapter(list[kind]).validate_python(stored) == planned  # type: ignore[valid-type]
        assert pickle.loads(pickle.dumps(planned)) == planned

    def test_no_record_is_lost_or_doubled(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        records, framed = read(sample.source, path, 1)
        assert framed == sample.records
        assert sum(int(str(record["records"])) for record in records) == sample.records

    def test_the_number_of_splits_changes_nothing(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        expected = content(read(sample.source, path, 1)[0])
        assert expected
        for wanted in (2, 3, 100):
            assert content(read(sample.source, path, wanted)[0]) == expected

    def test_reading_twice_gives_the_same_bytes(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        with prepare_here(sample.source, [path], 2, CONTEXT.catalogue) as prepared:
            for number in range(len(prepared.splits)):
                first, second = (list(prepared.read(number, CONTEXT)) for _ in range(2))
                assert pa.Table.from_batches(first).equals(pa.Table.from_batches(second))
                assert all(batch.schema.equals(RECORD_SCHEMA) for batch in first)

    def test_reading_leaves_nothing_for_the_collector(self, sample: Sample, tmp_path: Path) -> None:
        """Tasks collect garbage rarely: what each page or record leaves would stay in memory."""
        path = sample.make(tmp_path / sample.name)
        with prepare_here(sample.source, [path], 1, CONTEXT.catalogue) as prepared:
            for number in range(len(prepared.splits)):
                assert count_garbage(partial(_read_all, prepared, number)) == 0

    def test_every_column_is_filled_somewhere(self, sample: Sample, tmp_path: Path) -> None:
        records, _ = read(sample.source, sample.make(tmp_path / sample.name), 1)
        empty = {name for name in RECORD_SCHEMA.names if all(r[name] is None for r in records)}
        assert empty == sample.unused | TESTED_ELSEWHERE

    def test_rejects_carry_reason_detail_and_raw_record(
        self, sample: Sample, tmp_path: Path
    ) -> None:
        records, _ = read(sample.source, sample.make(tmp_path / sample.name), 1)
        rejects = [record for record in records if record["outcome"] == Outcome.REJECTED]
        assert rejects
        for record in rejects:
            assert record["reason"]
            assert record["detail"]
            json.loads(str(record["raw"]))

    def test_lanes_are_within_their_number_and_one_for_each_object(
        self, sample: Sample, tmp_path: Path
    ) -> None:
        records, _ = read(sample.source, sample.make(tmp_path / sample.name), 1)
        lanes: dict[object, set[object]] = {}
        for record in records:
            assert 0 <= int(str(record["lane"])) < CONTEXT.lanes
            if record["key"] is not None:
                lanes.setdefault((record["table"], record["key"]), set()).add(record["lane"])
        assert all(len(found) == 1 for found in lanes.values())

    def test_positions_have_a_text_that_is_read_back(self, sample: Sample, tmp_path: Path) -> None:
        records, _ = read(sample.source, sample.make(tmp_path / sample.name), 1)
        for record in records:
            position = Position(
                str(record["part"]), *(int(str(record[n])) for n in ("high", "low", "ordinal"))
            )
            parsed = sample.source.parse_position(sample.source.position_text(position))
            assert parsed == position._replace(ordinal=0)  # users name records

    def test_each_record_can_be_read_again(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        with prepare_here(sample.source, [path], 2, CONTEXT.catalogue) as prepared:
            for number, split in enumerate(prepared.splits):
                assert isinstance(split, Split)
                for batch in prepared.read(number, CONTEXT):
                    for record in batch.to_pylist():
                        if record["outcome"] == TALLY:
                            continue
                        raw = raw_record(sample.source, split, record["row"])
                        assert raw is not None
                        assert record["raw"] in (None, raw)

    def test_a_file_cut_anywhere_is_read_or_refused_in_words(
        self, sample: Sample, tmp_path: Path
    ) -> None:
        whole = sample.make(tmp_path / sample.name).read_bytes()
        path = tmp_path / f"cut-{sample.name}"
        were_read = 0
        sizes = sorted({*range(0, len(whole), max(1, len(whole) // 100)), len(whole)})
        for size in sizes:
            path.write_bytes(whole[:size])
            framed = count_or_refusal(sample.source, path)
            if framed is None:
                continue
            were_read += 1
            # a header that is cut before its first name is a record, as far as anyone can tell
            if sample.count is not None and (framed, sample.count(whole[:size])) != (1, 0):
                assert framed == sample.count(whole[:size])
        assert were_read >= (1 if sample.count is None else len(sizes) // 2)

    def test_any_byte_may_be_wrong(self, sample: Sample, tmp_path: Path) -> None:
        whole = sample.make(tmp_path / sample.name).read_bytes()
        path = tmp_path / f"wrong-{sample.name}"
        for at in range(0, len(whole), max(1, len(whole) // 25)):  # ./run fuzz goes on
            for wrong in (b"\0", b"\xff", b'"', b"\n"):
                path.write_bytes(whole[:at] + wrong + whole[at + 1 :])
                count_or_refusal(sample.source, path)

    def test_a_first_run_reads_what_a_replay_reads(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        for wanted in (1, 3):
            kept = CarryOver(None, tmp_path / f"kept{wanted}")
            first = read(sample.source, path, wanted, kept)
            assert first == read(sample.source, path, wanted)


def count_or_refusal(source: Source, path: Path) -> int | None:
    """Number of records, all of which have their outcome; ``None`` where the file is refused in words."""
    refusal = None
    try:
        records, framed = read(source, path, 2)
    except PublisherError as error:
        refusal = error.message
    if refusal is not None:
        assert str(path) in refusal
        return None
    assert sum(int(str(record["records"])) for record in records) == framed
    return framed


def read(
    source: Source, path: Path, wanted: int, carry_over: CarryOver | None = None
) -> tuple[list[Row], int]:
    """All records of a file, and the sum of the tallies: one of each split, at its end."""
    records: list[Row] = []
    framed = 0
    with prepare_here(source, [path], wanted, CONTEXT.catalogue, carry_over=carry_over) as prepared:
        for number, batches in enumerate(read_prepared(prepared, CONTEXT)):
            rows = [row for batch in batches for row in batch.to_pylist()]
            (total,) = [row for row in rows if row["outcome"] == TALLY]
            assert total["split"] == number
            for row in rows:
                if row["split"] != number:
                    assert_raw_is_found(source, prepared.splits, row)
            framed += total["row"]
            records += [row for row in rows if row is not total]
    return records, framed


def _read_all(prepared: PreparedSource, number: int) -> None:
    for _ in prepared.read(number, CONTEXT):
        pass


def assert_raw_is_found(source: Source, splits: Sequence[Split | TableSplit], row: Row) -> None:
    """A record that the task of another split accounts for carries the number of the split that framed
    it: there the reject, the fate of the file and the trace look for its row."""
    assert row["outcome"] == Outcome.REJECTED.value
    split, number = int(str(row["split"])), int(str(row["row"]))
    framing = splits[split]
    assert isinstance(framing, Split)
    assert raw_record(source, framing, number) == row["raw"]


def content(records: list[Row]) -> list[str]:
    """The records without the number of their split, in the order of their rows."""
    ordered = sorted(records, key=lambda record: int(str(record["row"])))
    return [json.dumps(record | {"split": 0}) for record in ordered]
