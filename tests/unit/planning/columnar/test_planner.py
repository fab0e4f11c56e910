"""Planning by the column gives the bytes of planning change by change."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.engine import lane_tasks
from publisher.engine.lane_tasks import plan_lane
from publisher.engine.shuffle_pieces import KEYS, unpack
from publisher.engine.tasks import Work
from publisher.journal.object_states import StatesBefore
from publisher.masking.masker import Masking
from publisher.masking.options import MaskingOptions
from publisher.model.catalogue import ChildTable, ColumnKind, Reference, Table
from publisher.model.change import Change
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.planning.columnar import ColumnarPlanner, query_back
from publisher.planning.columnar.rows_ahead import RowsAhead
from publisher.planning.filters import FilterOptions
from publisher.planning.lane_planner import LanePlanner
from publisher.planning.planner import Planner, PlanResult
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import RowLookups
from publisher.xds.document import DocumentOptions
from tests.support.event_log_files import Row, event, write
from tests.support.task_runs import SingleLanePlanner, read_all, work_of

COLUMNS = {
    "idu": ColumnKind.INT,
    "a": ColumnKind.STRING,
    "n": ColumnKind.INT,
    "p": ColumnKind.OCTET,
    "boss": ColumnKind.INT,
}
TABLES = [
    Table("s", "dept", ("idu",), COLUMNS),
    Table(
        "s",
        "usr",
        ("idu",),
        COLUMNS,
        children={
            "tag": ChildTable({"v": ColumnKind.STRING}),
            "member": ChildTable({"dept": ColumnKind.INT}),
        },
        references={"boss": Reference("usr"), "member.dept": Reference("dept")},
    ),
]
VALUES = [None, "", "1", "qqo=", "<&>\n", "\x01", "\ue001 ", "01"]

events = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 2, 2, 3, 3, 4, 1, 2, 3, 4, 5, 6, 6, 7, 8]),
        st.sampled_from(["usr", "usr", "usr", "tag", "member", "dept", "secret", "<\ue002>"]),
        st.sampled_from(["idu=1", "idu=2", "idu=3", "idu=4", "idu=5+b=x", "idu=\x02", 'b="<&>"']),
        st.sampled_from(["a", "a", "boss", "n", "p", "x", "tag.v", "v", "dept", "\x03", "\ue000"]),
        st.sampled_from(VALUES),
        st.sampled_from(VALUES),
        st.sampled_from([1, 1, 1, 1, 2, 3, 9, 0]),
        st.sampled_from([None, None, None, None, "hr", "idm"]),
    ),
    max_size=40,
)


def rows_of(
    drawn: list[tuple[int, str, str, str, str | None, str | None, int, str | None]],
) -> list[Row]:
    at, rows = 1, []
    for event_type, table, key, column, old, new, gap, user in drawn:
        at += gap
        rows.append(
            event(
                at,
                event_type=event_type,
                table_name=table,
                table_key=key,
                column_name=column if event_type not in {4, 5, 6} else None,
                old_value=old,
                new_value=new,
                perpetrator=user,
            )
        )
    return rows


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Current rows of ``usr`` and its child tables; ``dept`` is empty."""
    path = tmp_path_factory.mktemp("database") / "rows.db"
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            create table dept (idu integer primary key);
            create table usr (idu integer primary key, a text, n integer, p blob,
                              boss integer references usr);
            create table tag (idu integer references usr, v text);
            create table member (idu integer references usr, dept integer references dept);
            insert into tag values (1, '<b>'), (1, 'a'), (2, null), (4, char(1)), (4, 'c');
            insert into member values (1, 20), (1, 3), (4, 7);
        """)
        connection.executemany(
            "insert into usr values (?, ?, ?, ?, ?)",
            [
                *((1, "<Jack> ", 7, b"abc", 2), (2, None, None, None, None)),
                *((3, "\x01", 1, b"", 3), (4, "x", 1, b"", 1)),
            ],
        )
    connection.close()
    return f"sqlite:///{path}"


def staged_files(work: Work, batches: list[pa.RecordBatch], folder: Path) -> dict[str, bytes]:
    """Names and content of all files of a lane."""
    result = plan_lane(
        work,
        batches,
        lane=0,
        staging=folder / "staging",
        documents=folder / "documents",
        attempt="try",
    )
    files = {path.name: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    for lookups in folder.rglob("*.lookups.parquet"):  # in the order of asking, which may differ
        asked = sorted(map(_parent_of, pq.read_table(lookups).to_pylist()))
        files[lookups.name] = "".join(asked).encode()
    return files | {"result": replace(result, seconds=0.0).to_json().encode()}


def _parent_of(lookup: dict[str, Any]) -> str:
    """A look-up with the columns of the parent's row only.

    A query-back of a field reads child tables only if another look-up at that moment needs them; what is
    published of them is in the documents.
    """
    if lookup["text"] is None or lookup["answer"] != "row":
        return str(lookup)
    values = json.loads(lookup["text"])
    return str(lookup | {"text": {name: values[name] for name in values if "." not in name}})


logs = st.tuples(
    events,
    st.integers(1, 7),
    st.integers(0, 3),
    st.sampled_from([None, "idm"]),
    st.sampled_from([(), ("x", "usr.n")]),
    st.booleans(),
    st.booleans(),
)
"""A log, size and slack of polls, loopback user, hidden columns, ranks by place, rows read back."""

MASKING = MaskingOptions(hash=("idu", "b", "boss", "a", "tag.*"), redact=("p",), key_env="MASK_KEY")
few_rows = st.sampled_from([0, 0, 3])
"""No rows are too few to be planned by the column, or some batches have too few."""


def read_log(
    drawn: Any, path: Path, database: str, masking: Masking | None = None
) -> tuple[Work, pa.RecordBatch]:
    """The work of a run over a log, and its records."""
    log, size, slack, user, hidden, by_place, read_back = drawn
    work = work_of(
        [write(path, rows_of(log))],
        polls=PollOptions(size, slack, future_events=by_place),
        clock=2**60,
        filters=FilterOptions(driver_user=user, exclude=("secret",), exclude_columns=hidden),
        tables=() if read_back else TABLES,
        database=database if read_back else None,
        masking=masking,
    )
    pieces = read_all(work).sort_by([(key, "ascending") for key in KEYS])
    records = pa.Table.from_batches(unpack(pieces.to_batches()), RECORD_SCHEMA)
    if by_place:  # as events are ranked by time: the same record twice has two ranks
        places = pa.array(range(1, records.num_rows + 1), pa.int64())
        records = records.set_column(records.schema.get_field_index("rank"), "rank", places)
    return work, records.combine_chunks()


@settings(max_examples=120, deadline=None)
@given(logs, st.integers(1, 15), few_rows, st.booleans())
def test_planning_by_the_column_gives_the_same_files(
    database: str, drawn: object, cut: int, few: int, is_masked: bool
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASK_KEY", "k" * 32)
        masking = Masking.of(MASKING) if is_masked else None
        folder = Path(name)
        work, records = read_log(drawn, folder / "log.jsonl", database, masking)
        batches = records.to_batches(max_chunksize=cut)
        patch.setattr(RowsAhead, "rows_at_once", 2)
        patch.setattr(RowsAhead, "short_rows_at_once", 3)
        patch.setattr(RowsAhead, "first_rows", 1)
        patch.setattr(LanePlanner, "few_rows", few)
        in_bulk = staged_files(work, batches, folder / "bulk")
        patch.setattr(lane_tasks, "LanePlanner", SingleLanePlanner)
        singly = staged_files(work, batches, folder / "singly")
    assert in_bulk == singly


@settings(max_examples=120, deadline=None)
@given(
    st.tuples(logs, logs),
    st.integers(1, 15),
    st.booleans(),
    st.sampled_from(["modify", "add"]),
    st.sampled_from([None, *range(270, 500, 10)]),
    few_rows,
)
def test_minimal_planning_by_the_column_gives_the_same_files_and_states(
    database: str,
    drawn: tuple[object, object],
    cut: int,
    is_complete: bool,
    insert: Any,
    limit: int | None,
    few: int,
) -> None:
    """The states are those that an earlier run leaves, planned one by one; sinks may refuse documents."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = StatesBefore(is_complete=is_complete, limit=limit)
        for number, log in enumerate(drawn):
            work, records = read_log(log, folder / f"{number}.jsonl", database)
            documents = DocumentOptions(minimal=True, insert_query_back=insert)
            rules = replace(work.rules, documents=documents)
            work = replace(work, rules=rules, states=before)
            batches = records.to_batches(max_chunksize=cut)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(RowsAhead, "rows_at_once", 2)
                patch.setattr(RowsAhead, "short_rows_at_once", 3)
                patch.setattr(RowsAhead, "first_rows", 1)
                patch.setattr(LanePlanner, "few_rows", few)
                in_bulk = staged_files(work, batches, folder / f"bulk{number}")
                patch.setattr(lane_tasks, "LanePlanner", SingleLanePlanner)
                singly = staged_files(work, batches, folder / f"singly{number}")
            assert in_bulk == singly
            states = tuple(map(str, (folder / f"singly{number}").rglob("*.objects.db")))
            before = replace(before, files=states)


@pytest.mark.parametrize("minimal", [False, True])
def test_most_of_a_usual_log_is_planned_by_the_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minimal: bool
) -> None:
    rows = [
        event(at, table_key=f"idu={at // 3}", event_type=1 + at // 3 % 4, new_value="x <y>")
        for at in range(3, 3000)
    ]
    work = work_of(
        [write(tmp_path / "log.csv", rows)],
        polls=PollOptions(1000, 10),
        documents=DocumentOptions(minimal=minimal),
    )
    work = replace(work, states=StatesBefore() if minimal else None)
    pieces = read_all(work).sort_by([(key, "ascending") for key in KEYS])
    singly: list[Change] = []
    add = Planner.add

    def add_and_count(self: Planner, changes: Iterable[Change]) -> PlanResult:
        kept = list(changes)
        singly.extend(kept)
        return add(self, kept)

    monkeypatch.setattr(Planner, "add", add_and_count)
    staged_files(work, list(unpack(pieces.to_batches())), tmp_path)
    assert 0 < len(singly) < 0.05 * len(rows)


@pytest.mark.parametrize("again", range(6, 13))
@pytest.mark.parametrize("first", [4, 5])
def test_a_poll_that_goes_on_in_the_next_batch_is_planned_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, again: int
) -> None:
    """Polls have five places; an event within two places of the last of its object stays in its poll.

    Whether the batch ends with that object's last change does not matter."""
    rows = [
        event(at, table_key=f"idu={0 if at in (first, again) else at}", event_type=3, new_value=at)
        for at in range(1, 14)
    ]
    work = work_of([write(tmp_path / "log.csv", rows)], polls=PollOptions(5, 2))
    pieces = read_all(work).sort_by([(key, "ascending") for key in KEYS])
    records = pa.Table.from_batches(unpack(pieces.to_batches()), RECORD_SCHEMA)
    batches = records.combine_chunks().to_batches(max_chunksize=10)  # tallies are records, too
    singly: list[int] = []
    add = Planner.add

    def add_and_note(self: Planner, changes: Iterable[Change]) -> PlanResult:
        kept = list(changes)
        singly.extend(change.position.high for change in kept)
        return add(self, kept)

    monkeypatch.setattr(LanePlanner, "few_rows", 0)
    monkeypatch.setattr(Planner, "add", add_and_note)
    in_bulk = staged_files(work, batches, tmp_path / "bulk")
    assert singly == ([first, again] if again <= 7 else [])
    monkeypatch.setattr(lane_tasks, "LanePlanner", SingleLanePlanner)
    assert in_bulk == staged_files(work, batches, tmp_path / "singly")


@pytest.mark.parametrize("few", [2, 3])
def test_few_rows_are_planned_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    rows = [event(at, table_key=f"idu={at}", event_type=1, new_value="x") for at in (1, 2, 3)]
    work = work_of([write(tmp_path / "log.csv", rows)])
    by_column: list[int] = []
    plan = ColumnarPlanner.plan

    def plan_and_count(self: ColumnarPlanner, batch: Any, *args: Any, **options: Any) -> Any:
        by_column.append(batch.num_rows)
        return plan(self, batch, *args, **options)

    monkeypatch.setattr(ColumnarPlanner, "plan", plan_and_count)
    monkeypatch.setattr(LanePlanner, "few_rows", few)
    staged_files(work, list(unpack(read_all(work).to_batches())), tmp_path)
    assert by_column == ([3] if few == 2 else [])


def test_a_column_whose_name_xml_forbids_rejects_its_query_backs_only(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as connection:
        connection.execute('create table usr (idu integer primary key, "a\x01" text)')
        connection.execute("insert into usr values (1, 'x'), (2, 'y')")
    connection.close()
    rows = [event(at, event_type=6, table_name="usr", table_key=f"idu={at}") for at in (1, 2, 3)]
    work = work_of([write(tmp_path / "log.jsonl", rows)], database=f"sqlite:///{path}")
    batches = list(unpack(read_all(work).to_batches()))
    files = staged_files(work, batches, tmp_path / "staged")
    assert json.loads(files["result"])["documents"] == 0
    assert b"U+0001" in files["lane-00000.rejects.jsonl"]


def test_masked_look_ups_by_the_column_have_the_same_files(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASK_KEY", "k" * 32)
    monkeypatch.setattr(LanePlanner, "few_rows", 0)
    by_column: list[int] = []

    def count_and_make(objects: pa.RecordBatch, *values: Any) -> RowLookups:
        by_column.append(objects.num_rows)
        return RowLookups(objects, *values)

    monkeypatch.setattr(query_back, "RowLookups", count_and_make)
    rows = [event(at, event_type=6, table_name="usr", table_key=f"idu={at}") for at in range(1, 7)]
    log = write(tmp_path / "log.jsonl", rows)
    work = work_of([log], database=database, masking=Masking.of(MASKING))
    batches = list(unpack(read_all(work).to_batches()))
    in_bulk = staged_files(work, batches, tmp_path / "bulk")
    assert sum(by_column) == 4
    monkeypatch.setattr(lane_tasks, "LanePlanner", SingleLanePlanner)
    assert staged_files(work, batches, tmp_path / "singly") == in_bulk
    assert b"Jack" not in b"".join(in_bulk.values())
