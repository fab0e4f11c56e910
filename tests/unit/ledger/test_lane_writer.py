"""The files of a lane: decisions in order of arrival, references, and reading them back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.errors import FatalError, InternalError
from publisher.ledger import records
from publisher.ledger.lane_result import Count, LaneNames, LaneResult
from publisher.ledger.lane_writer import LaneFiles
from publisher.ledger.lookups import LookupAnswer, row_texts
from publisher.ledger.records import ARRIVAL_COLUMNS
from publisher.ledger.run_reader import RunReader
from publisher.model.change import Change, Object, Outcome, Position, Reason
from publisher.reports.selectors import at_position
from publisher.sources.columns.record_batches import batch
from tests.support.plan_results import Decision, Document, batch_of_documents, outcomes_of
from tests.support.planning import DEPT, USR, USR_2, Event, log
from tests.support.task_runs import staged_reader


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
    """The files of lane 3 in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = LaneFiles(3, folder / "staging", folder / "documents", "try", [Position.text])
        self.names = LaneNames(3)

    def arrive(self, changes: Sequence[Change]) -> int:
        return self.files.add_arrivals(arrivals(changes))

    def add_plan(
        self, source: int, documents: Sequence[Document], decisions: Sequence[Decision]
    ) -> None:
        batches = [batch_of_documents(documents)] if documents else []
        self.files.add_plan(source, batches, [outcomes_of(decisions)])

    def records(self) -> list[dict[str, object]]:
        path = self.folder / "staging" / "try-00003" / self.names.records
        return list(pq.read_table(path).to_pylist())

    def reader(self, lookups: int = 1) -> RunReader:
        result = LaneResult(3, "try-00003", 0, 0, (), (), (), "", lookups=lookups)
        return staged_reader([result], self.folder)


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    return Lane(tmp_path)


ONE, TWO, THREE, FOUR = log(
    Event(3, "a", "1"), Event(8, "a"), Event(3, "b", "2", obj=USR_2), Event(4, obj=DEPT)
)


def test_decisions_stand_in_the_order_of_arrival_whatever_the_order_they_come_in(
    lane: Lane,
) -> None:
    assert lane.arrive([ONE, TWO]) == 0
    lane.files.advance()
    assert lane.arrive([THREE, FOUR]) == 2
    lane.add_plan(0, [document(THREE), document(FOUR)], [])
    lane.files.advance()
    lane.add_plan(0, [document(TWO)], [supersede(ONE, TWO)])
    lane.files.close()
    assert [
        (entry["high"], entry["outcome"], entry["by"], entry["document"])
        for entry in lane.records()
    ] == [(1, 2, 1, -1), (2, 1, -1, 2), (3, 1, -1, 0), (4, 1, -1, 1)]


def test_what_is_decided_is_written_while_the_lane_goes_on(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "ROWS_TO_WRITE", 10)
    changes = log(*(Event(4) for _ in range(100)))
    for start in range(0, 100, 5):
        lane.arrive(changes[start : start + 5])
        lane.add_plan(0, [document(change) for change in changes[start : start + 5]], [])
        lane.files.advance()
        assert lane.files.rows_in_memory < 10
    lane.files.close()
    assert [entry["high"] for entry in lane.records()] == list(range(1, 101))
    assert [entry["document"] for entry in lane.records()] == list(range(100))
    reader = lane.reader()
    found = reader.find_records([(3, row) for row in (0, 9, 10, 55, 99)])
    assert [record.position.high for record in found.values()] == [1, 10, 11, 56, 100]
    assert [record.number for record in reader.records(pc.field("high") == 56)] == [55]


def test_counts_are_those_of_source_records(lane: Lane) -> None:
    lane.files.add_arrivals(arrivals([ONE], records=3))
    lane.arrive([THREE, FOUR])
    lane.add_plan(
        0,
        [document(ONE._replace(row=0))],
        [Decision(1, Outcome.IGNORED, Reason.LOOPBACK), Decision(2, Outcome.HELD, Reason.FUTURE)],
    )
    lane.files.add_tally(7, 5)
    result = lane.files.close()
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
    lane.files.close()
    (entry,) = [each for each in lane.records() if each["outcome"] == Outcome.REJECTED]
    assert entry["reason"] == "value"
    assert (entry["high"], entry["key"]) == (3, "idu=2")
    assert (entry["detail"], entry["raw"]) == ("“2” is not an integer: fix it", '{"b": "2"}')


def test_a_lane_has_a_file_of_look_ups_only_if_there_are_any(lane: Lane, tmp_path: Path) -> None:
    full = Lane(tmp_path / "full")
    for each in (lane, full):
        each.arrive([ONE, TWO])
    lane.add_plan(0, [document(ONE, TWO)], [])
    full.add_plan(0, [document(ONE)], [Decision(1, Outcome.REJECTED, Reason.VALUE, detail="bad")])
    full.files.lookups.add(0, USR, 0, LookupAnswer.GONE, None)
    names = lane.names
    always = {names.index, names.records}
    for each, files in ((lane, always), (full, always | {names.lookups})):
        result = each.files.close()
        staged = each.folder / "staging" / "try-00003"
        assert {path.name for path in staged.iterdir()} == files == {*result.files}
    assert lane.reader(lookups=0).lookups([USR]) == {}
    with pytest.raises(FatalError, match="lookups"):  # a file that was lost
        lane.reader().lookups([USR])


def test_a_change_without_decision_is_named_at_the_end(lane: Lane) -> None:
    lane.arrive([ONE, TWO, THREE])
    lane.add_plan(0, [document(ONE), document(THREE._replace(row=2))], [])
    with pytest.raises(InternalError, match="change 1 of a lane"):
        lane.files.close()
    lane.files.abandon()


def test_a_second_decision_is_refused_also_after_the_first_was_written(lane: Lane) -> None:
    lane.arrive([ONE])
    lane.add_plan(0, [document(ONE)], [])
    for _ in range(2):
        with pytest.raises(InternalError, match="change 0 of a lane was decided twice"):
            lane.add_plan(0, [], [Decision(0, Outcome.IGNORED, Reason.STATUS)])
        lane.files.advance()
    lane.files.abandon()


def fill_lane(lane: Lane) -> LaneResult:
    lane.arrive([ONE, TWO, THREE, FOUR])
    lane.files.lookups.add(0, USR, 0, LookupAnswer.ROW, json.dumps({"idu": "1", "a": None}))
    lane.files.lookups.add(0, USR, 4, LookupAnswer.GONE, None)
    lane.files.lookups.add(0, USR_2, 4, LookupAnswer.REFUSED, "overflow: fix the key")
    lane.add_plan(
        0,
        [document(TWO, text="<nds>é\U0001f600</nds>"), document(THREE, FOUR, text="<nds>2</nds>")],
        [supersede(ONE, TWO)],
    )
    return lane.files.close()


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
    path = lane.folder / "documents" / "try-00003" / "part-00003.xds"
    assert path.read_bytes() == "<nds>é\U0001f600</nds>\n<nds>2</nds>\n".encode()
    assert second.offset == len("<nds>é\U0001f600</nds>\n".encode())
    assert result.bytes == path.stat().st_size


@pytest.mark.parametrize("sizes", [[10, 300_000, 5], [100_000] * 7, [262_143, 1, 0, 600_000]])
def test_long_documents_are_written_in_order(lane: Lane, sizes: Sequence[int]) -> None:
    changes = log(*(Event(4) for _ in sizes))
    texts = [chr(97 + number) * size for number, size in enumerate(sizes)]
    lane.arrive(changes)
    lane.add_plan(0, [document(c, text=t) for c, t in zip(changes, texts, strict=True)], [])
    result = lane.files.close()
    content = (lane.folder / "documents" / "try-00003" / "part-00003.xds").read_bytes()
    assert content == "".join(f"{text}\n" for text in texts).encode()
    assert result.digest == hashlib.sha256(content).hexdigest()
    assert [document.text for document in lane.reader().documents()] == texts


def test_values_of_undecided_changes_need_no_memory(lane: Lane) -> None:
    (change,) = log(Event(4))
    before = pa.total_allocated_bytes()
    values = pa.array([["x" * 10_000_000]], pa.list_(pa.string()))
    held = arrivals([change])
    held = held.set_column(held.schema.get_field_index("new"), "new", values)
    lane.files.add_arrivals(held)
    del held, values
    assert pa.total_allocated_bytes() - before < 1_000_000
    lane.files.abandon()


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
    lane.files.add_arrivals(row)
    rejected = Decision(0, Outcome.REJECTED, Reason.BROKEN_RECORD, detail="cut", raw='"x"')
    lane.add_plan(0, [], [rejected])
    lane.files.close()
    (found,) = [*lane.reader().records(at_position(Position("a.csv", 17, 0, 0), 0))]
    assert (found.object, found.event_type, found.columns) == (None, None, ())
    assert (found.reason, found.detail, found.raw) == (Reason.BROKEN_RECORD, "cut", '"x"')
    assert (found.split, found.row) == (2, 17)


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_damaged_file_is_one_clear_error(damage: str, lane: Lane) -> None:
    fill_lane(lane)
    path = lane.folder / "staging" / "try-00003" / lane.names.records
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FatalError, match="publish again"):
        lane.reader().find_records([(3, 0)])


def test_a_part_file_that_is_missing_is_one_clear_error(lane: Lane) -> None:
    fill_lane(lane)
    (lane.folder / "documents" / "try-00003" / "part-00003.xds").unlink()
    with pytest.raises(FatalError, match=r"part-00003\.xds"):
        lane.reader().find_documents([(3, 0)])


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
    lane.files.lookups.add(0, USR, 0, LookupAnswer.GONE, None)
    objects = pa.RecordBatch.from_pylist([USR._asdict(), USR_2._asdict()])
    values = [pa.array(["1", "2"]), pa.array([None, "x"])]
    lane.files.lookups.add_rows(0, objects, np.array([1, 1]), ("idu", "a"), values)
    lane.files.lookups.add(0, USR, 2, LookupAnswer.GONE, None)
    lane.files.close()
    reader = lane.reader()
    assert [(found.poll, found.row) for found in reader.lookups([USR])[0, USR]] == [
        (0, None), (1, {"idu": "1", "a": None}), (2, None),
    ]  # fmt: skip
    assert [found.row for found in reader.lookups([USR_2])[0, USR_2]] == [{"idu": "2", "a": "x"}]
