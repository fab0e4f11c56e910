"""The files of a lane: decisions in order of arrival, references, and reading them back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.errors import FatalError, InternalError
from publisher.formats.columns.record_batches import batch
from publisher.ledger import records, table_writer, tables
from publisher.ledger.lane_result import Count, LaneResult
from publisher.ledger.lane_writer import LaneSpace, LaneWriter
from publisher.ledger.lookups import LookupAnswer, row_texts
from publisher.ledger.run_reader import RunReader
from publisher.ledger.tables import ARRIVAL_COLUMNS, DOCUMENTS, RECORDS, TABLES
from publisher.model.change import Change, Object, Outcome, Position, Reason
from publisher.reports.selectors import at_position
from tests.support.plan_results import Decision, Document, batch_of_documents, outcomes_of
from tests.support.planning import DEPT, USR, USR_2, Event, log
from tests.support.task_runs import planned_reader


def arrivals(changes: Sequence[Change], records: int = 1) -> pa.RecordBatch:
    """The batch in which changes arrive."""
    return batch(
        len(changes),
        source=0,
        lane=0,
        part="",
        rank=[change.rank for change in changes],
        high=[change.rank for change in changes],
        low=0,
        ordinal=0,
        split=0,
        row=[change.row + 1 for change in changes],
        records=records,
        schema=[change.object.schema for change in changes],
        table=[change.object.table for change in changes],
        key=[change.object.key for change in changes],
        event_type=[change.event_type for change in changes],
        columns=[list(change.columns) for change in changes],
        event_time=[change.event_time for change in changes],
    )


def document(*changes: Change, text: str = "<nds/>") -> Document:
    first = changes[0]
    return Document(
        object=first.object,
        position=first.position,
        poll=0,
        operation="modify",
        association=f"{first.object.key},table={first.object.table}",
        event_id=f"log:{first.rank}",
        text=text,
        rows=tuple(change.row for change in changes),
        records=",".join(str(change.rank) for change in changes),
    )


def supersede(change: Change, by: Change) -> Decision:
    return Decision(change.row, Outcome.SUPERSEDED, Reason.FIELD_QUERY_BACK, by=by.row)


class Lane:
    """Lane 3, in memory or in files in a folder."""

    def __init__(self, folder: Path, *, rows: int = -1, to_sink: bool = False) -> None:
        self.folder = folder
        documents = folder / "documents"
        space = LaneSpace(folder / "staging", documents, to_sink=to_sink, rows=rows, bytes=1 << 30)
        self.writer = LaneWriter(3, space, [Position.text])

    def arrive(self, changes: Sequence[Change]) -> int:
        return self.writer.add_arrivals(arrivals(changes))

    def add_plan(
        self, source: int, documents: Sequence[Document], decisions: Sequence[Decision]
    ) -> None:
        batches = [batch_of_documents(documents)] if documents else []
        self.writer.add_plan(source, batches, [outcomes_of(decisions)])

    def close(self) -> LaneResult:
        self.planned = self.writer.close()
        return self.planned.result

    def records(self) -> list[dict[str, object]]:
        return list(self.planned.rows.read(RECORDS).to_pylist())

    def reader(self) -> RunReader:
        return planned_reader([self.planned], self.folder)


@pytest.fixture(params=["memory", "files", "sink"])
def lane(request: pytest.FixtureRequest, tmp_path: Path) -> Lane:
    rows = -1 if request.param == "files" else 1_000
    return Lane(tmp_path, rows=rows, to_sink=request.param == "sink")


@pytest.fixture
def files(tmp_path: Path) -> Lane:
    return Lane(tmp_path)


ONE, TWO, THREE, FOUR = log(
    Event(3, "a", "1"), Event(8, "a"), Event(3, "b", "2", obj=USR_2), Event(4, obj=DEPT)
)


def test_decisions_stand_in_the_order_of_arrival_whatever_the_order_they_come_in(
    lane: Lane,
) -> None:
    assert lane.arrive([ONE, TWO]) == 0
    lane.writer.advance()
    assert lane.arrive([THREE, FOUR]) == 2
    lane.add_plan(0, [document(THREE), document(FOUR)], [])
    lane.writer.advance()
    lane.add_plan(0, [document(TWO)], [supersede(ONE, TWO)])
    lane.close()
    assert [
        (entry["high"], entry["outcome"], entry["by"], entry["document"])
        for entry in lane.records()
    ] == [(1, 2, 1, -1), (2, 1, -1, 2), (3, 1, -1, 0), (4, 1, -1, 1)]


@pytest.mark.parametrize("rows", [-1, 12, 1_000])
def test_rows_go_to_files_while_the_lane_goes_on(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (table_writer, records):
        monkeypatch.setattr(module, "ROWS_TO_WRITE", 10)
    lane = Lane(tmp_path, rows=rows)
    changes = log(*(Event(4) for _ in range(100)))
    for start in range(0, 100, 5):
        lane.arrive(changes[start : start + 5])
        some = [document(c, text=f"<nds>{c.rank}</nds>") for c in changes[start : start + 5]]
        lane.add_plan(0, some, [])
        lane.writer.advance()
    lane.close()
    is_in_memory = rows == 1_000
    assert (lane.planned.rows.tables is not None) == is_in_memory
    assert (lane.folder / "staging").exists() != is_in_memory
    assert [entry["high"] for entry in lane.records()] == list(range(1, 101))
    assert [entry["document"] for entry in lane.records()] == list(range(100))
    texts = [f"<nds>{number}</nds>" for number in range(1, 101)]
    assert [*lane.planned.rows.texts()] == texts
    assert [*lane.planned.rows.load(with_texts=True).texts()] == texts
    reader = lane.reader()
    found = reader.find_records([(3, row) for row in (0, 9, 10, 55, 99)])
    assert [record.position.high for record in found.values()] == [1, 10, 11, 56, 100]
    assert [record.number for record in reader.records(pc.field("high") == 56)] == [55]


@pytest.mark.parametrize("start", [0, 9, 10, 37, 99, 100])
@pytest.mark.parametrize("rows", [-1, 1_000])
def test_rows_are_read_from_a_row_on(
    rows: int, start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writer, "ROWS_TO_WRITE", 10)
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 7)
    lane = Lane(tmp_path, rows=rows)
    changes = log(*(Event(4) for _ in range(100)))
    lane.arrive(changes)
    for change in changes:
        lane.add_plan(0, [document(change)], [])
    lane.close()
    batches = lane.planned.rows.batches(DOCUMENTS, ["number"], start)
    found = [number for batch in batches for number in batch["number"].to_pylist()]
    assert found == list(range(start, 100))


def test_counts_are_those_of_source_records(lane: Lane) -> None:
    lane.writer.add_arrivals(arrivals([ONE], records=3))
    lane.arrive([THREE, FOUR])
    lane.add_plan(
        0,
        [document(ONE._replace(row=0))],
        [Decision(1, Outcome.IGNORED, Reason.LOOPBACK), Decision(2, Outcome.HELD, Reason.FUTURE)],
    )
    lane.writer.add_tally(7, 5)
    result = lane.close()
    assert set(result.counts) == {
        Count(0, Outcome.PUBLISHED, None, 3),
        Count(0, Outcome.IGNORED, "loopback", 1),
        Count(0, Outcome.HELD, "future", 1),
    }
    assert result.tallies == ((7, 5),)
    assert (result.lane, result.documents, result.operations) == (3, 1, (("modify", 1),))


def test_rejects_have_reason_position_and_raw_record(lane: Lane) -> None:
    lane.arrive([ONE, THREE])
    rejected = Decision(
        1, Outcome.REJECTED, Reason.VALUE, detail="“2” is not an integer: fix it", raw='{"b": "2"}'
    )
    lane.add_plan(0, [document(ONE)], [rejected])
    lane.close()
    (entry,) = [each for each in lane.records() if each["outcome"] == Outcome.REJECTED]
    assert entry["reason"] == "value"
    assert (entry["high"], entry["key"]) == (3, "idu=2")
    assert (entry["detail"], entry["raw"]) == ("“2” is not an integer: fix it", '{"b": "2"}')


def test_a_large_lane_has_a_file_of_each_table(files: Lane) -> None:
    fill_lane(files)
    rows = files.planned.rows
    staged = [path for path in files.folder.rglob("*") if path.is_file()]
    assert sorted(staged) == sorted([*rows.files, rows.part])
    assert {path.stat().st_mode & 0o777 for path in staged} == {0o600}


def test_a_change_without_decision_is_named_at_the_end(lane: Lane) -> None:
    lane.arrive([ONE, TWO, THREE])
    lane.add_plan(0, [document(ONE), document(THREE._replace(row=2))], [])
    with pytest.raises(InternalError, match="change 1 of a lane"):
        lane.close()
    lane.writer.abandon()


def test_a_second_decision_is_refused_also_after_the_first_was_written(lane: Lane) -> None:
    lane.arrive([ONE])
    lane.add_plan(0, [document(ONE)], [])
    for _ in range(2):
        with pytest.raises(InternalError, match="change 0 of a lane was decided twice"):
            lane.add_plan(0, [], [Decision(0, Outcome.IGNORED, Reason.STATUS)])
        lane.writer.advance()
    lane.writer.abandon()


def fill_lane(lane: Lane) -> LaneResult:
    lane.arrive([ONE, TWO, THREE, FOUR])
    lane.writer.lookups.add(0, USR, 0, LookupAnswer.ROW, json.dumps({"idu": "1", "a": None}))
    lane.writer.lookups.add(0, USR, 4, LookupAnswer.GONE, None)
    lane.writer.lookups.add(0, USR_2, 4, LookupAnswer.REFUSED, "overflow: fix the key")
    lane.add_plan(
        0,
        [document(TWO, text="<nds>é\U0001f600</nds>"), document(THREE, FOUR, text="<nds>2</nds>")],
        [supersede(ONE, TWO)],
    )
    return lane.close()


def test_a_reader_finds_records_by_position_with_what_superseded_them(lane: Lane) -> None:
    fill_lane(lane)
    reader = lane.reader()
    (found,) = [*reader.records(at_position(Position("", 1, 0, 0), 0))]
    assert (found.outcome, found.reason) == (Outcome.SUPERSEDED, Reason.FIELD_QUERY_BACK)
    assert (found.object, found.columns, found.event_type) == (USR, ("a",), 3)
    assert (found.lane, found.number, found.row, found.split) == (3, 0, 1, 0)
    winner = reader.find_records([(3, found.by)])[3, found.by]
    assert (winner.position, winner.outcome) == (Position("", 2, 0, 0), Outcome.PUBLISHED)
    document = reader.find_documents([(3, winner.document)])[3, winner.document]
    assert document.text == "<nds>é\U0001f600</nds>"


def test_a_reader_finds_nothing_where_there_is_nothing(lane: Lane) -> None:
    fill_lane(lane)
    reader = lane.reader()
    assert [*reader.records(at_position(Position("", 5, 0, 0), 0))] == []
    assert [*reader.records(at_position(Position("", 1, 0, 0), 1))] == []
    assert [*reader.records(at_position(Position("other.csv", 1, 0, 0), 0))] == []
    assert [*reader.records(pc.field("key") == "idu=3")] == []
    assert reader.lookups([DEPT]) == {}


def test_a_reader_finds_records_by_key(lane: Lane) -> None:
    fill_lane(lane)
    found = lane.reader().records(pc.field("key").isin(["idu=1", "no=1"]))
    assert [entry.number for entry in found] == [0, 1, 3]


def test_a_reader_gives_documents_as_they_were_written(lane: Lane) -> None:
    result = fill_lane(lane)
    reader = lane.reader()
    second = reader.find_documents([(3, 1)])[3, 1]
    assert (second.text, second.records, second.event_id) == ("<nds>2</nds>", "3,4", "log:3")
    assert (second.number, second.part) == (1, "part-00003.xds")
    content = "<nds>é\U0001f600</nds>\n<nds>2</nds>\n".encode()
    assert lane.planned.rows.write_part(lane.folder).read_bytes() == content
    assert second.offset == len("<nds>é\U0001f600</nds>\n".encode())
    assert result.bytes == len(content)


@pytest.mark.parametrize("sizes", [[10, 300_000, 5], [100_000] * 7, [262_143, 1, 0, 600_000]])
def test_long_documents_are_written_in_order(lane: Lane, sizes: Sequence[int]) -> None:
    changes = log(*(Event(4) for _ in sizes))
    texts = [chr(97 + number) * size for number, size in enumerate(sizes)]
    lane.arrive(changes)
    lane.add_plan(0, [document(c, text=t) for c, t in zip(changes, texts, strict=True)], [])
    result = lane.close()
    content = lane.planned.rows.write_part(lane.folder).read_bytes()
    assert content == "".join(f"{text}\n" for text in texts).encode()
    assert result.digest == hashlib.sha256(content).hexdigest()
    assert [document.text for document in lane.reader().documents()] == texts


def test_values_of_undecided_changes_need_no_memory(lane: Lane) -> None:
    (change,) = log(Event(4))
    before = pa.total_allocated_bytes()
    values = pa.array([["x" * 10_000_000]], pa.list_(pa.string()))
    held = arrivals([change])
    held = held.set_column(held.schema.get_field_index("new"), "new", values)
    lane.writer.add_arrivals(held)
    del held, values
    assert pa.total_allocated_bytes() - before < 1_000_000
    lane.writer.abandon()


def test_a_reader_gives_what_was_looked_up(lane: Lane) -> None:
    fill_lane(lane)
    reader = lane.reader()
    first, second = reader.lookups([USR])[0, USR]
    assert (first.poll, first.answer, first.row) == (0, "row", {"idu": "1", "a": None})
    assert (second.poll, second.answer, second.row) == (4, LookupAnswer.GONE, None)
    (refused,) = reader.lookups([USR_2])[0, USR_2]
    assert (refused.answer, refused.detail) == ("refused", "overflow: fix the key")
    assert (0, Object(None, "usr", "idu=1")) not in reader.lookups([USR])


def test_a_record_that_gave_no_change_is_found_where_it_was_read(lane: Lane) -> None:
    row = batch(
        1, source=0, lane=3, part="a.csv", rank=17, high=17, low=0, ordinal=0, split=2, row=17,
        records=1, outcome=5, reason="broken-record", detail="cut", raw='"x"',
    )  # fmt: skip
    lane.writer.add_arrivals(row)
    rejected = Decision(0, Outcome.REJECTED, Reason.BROKEN_RECORD, detail="cut", raw='"x"')
    lane.add_plan(0, [], [rejected])
    lane.close()
    (found,) = [*lane.reader().records(at_position(Position("a.csv", 17, 0, 0), 0))]
    assert (found.object, found.event_type, found.columns) == (None, None, ())
    assert (found.reason, found.detail, found.raw) == (Reason.BROKEN_RECORD, "cut", '"x"')
    assert (found.split, found.row) == (2, 17)


@pytest.mark.parametrize("damage", ["missing", "cut"])
@pytest.mark.parametrize("kind", ["records", "lookups"])
def test_a_damaged_file_is_one_clear_error(kind: str, damage: str, files: Lane) -> None:
    fill_lane(files)
    (path,) = files.folder.rglob(f"lane-00003.{kind}.parquet")
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:100])
    (table,) = (each for each in TABLES if each.name == kind)
    with pytest.raises(FatalError, match=rf"{kind}.parquet .* publish again"):
        files.planned.rows.read(table)


def test_a_part_file_that_is_missing_is_one_clear_error(files: Lane) -> None:
    fill_lane(files)
    files.planned.rows.part.unlink()
    with pytest.raises(FatalError, match=r"part-00003\.xds"):
        files.reader().find_documents([(3, 0)])


def test_a_part_file_of_other_documents_is_refused(files: Lane) -> None:
    fill_lane(files)
    path = files.planned.rows.part
    for content in (path.read_bytes()[:-3], path.read_bytes().replace(b"<nds>2", b"<nd\n>2")):
        path.write_bytes(content)
        with pytest.raises(FatalError, match="does not fit its index at byte"):
            [*files.planned.rows.texts()]


def test_a_row_or_document_that_does_not_exist_is_one_clear_error(lane: Lane) -> None:
    fill_lane(lane)
    for ask in (lane.reader().find_records, lane.reader().find_documents):
        with pytest.raises(FatalError, match="publish again"):
            ask([(3, 9)])


def test_the_columns_of_an_arrival_are_kept(lane: Lane) -> None:
    fill_lane(lane)
    assert list(lane.records()[0])[: len(ARRIVAL_COLUMNS)] == ARRIVAL_COLUMNS


TEXTS = st.lists(
    st.none() | st.text() | st.sampled_from(["\x00\x1f\x7f", '"\\']), min_size=2, max_size=2
)
LISTS = st.lists(st.lists(st.text(), max_size=3), min_size=2, max_size=2)


@given(TEXTS, LISTS)
def test_rows_are_written_as_json(texts: list[str | None], lists: list[list[str]]) -> None:
    names = ("%s", 'a"\\é')
    rows = zip(texts, lists, strict=True)
    expected = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]
    values = [pa.array(texts, pa.string()), pa.array(lists, pa.list_(pa.string()))]
    assert row_texts(names, values).to_pylist() == expected


def test_look_ups_keep_their_order(lane: Lane) -> None:
    lane.writer.lookups.add(0, USR, 0, LookupAnswer.GONE, None)
    objects = pa.RecordBatch.from_pylist([USR._asdict(), USR_2._asdict()])
    values = [pa.array(["1", "2"]), pa.array([None, "x"])]
    lane.writer.lookups.add_rows(0, objects, np.array([1, 1]), ("idu", "a"), values)
    lane.writer.lookups.add(0, USR, 2, LookupAnswer.GONE, None)
    lane.close()
    reader = lane.reader()
    assert [(found.poll, found.row) for found in reader.lookups([USR])[0, USR]] == [
        (0, None), (1, {"idu": "1", "a": None}), (2, None),
    ]  # fmt: skip
    assert [found.row for found in reader.lookups([USR_2])[0, USR_2]] == [{"idu": "2", "a": "x"}]
