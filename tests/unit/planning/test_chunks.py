"""Chunks and batches of any size give the same plans, and bound what is kept in memory."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.formats.record_packing import KEYS, unpack
from publisher.formats.work import Work
from publisher.ledger.lane_writer import LaneSpace
from publisher.ledger.object_states import StatesBefore
from publisher.ledger.tables import LOOKUPS, RECORDS
from publisher.masking.masker import Masking
from publisher.masking.options import MaskingOptions
from publisher.model.catalogue import ChildTable, ColumnKind, Reference, Table
from publisher.model.change import Change, EventType, Object
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.planning.filters import FilterOptions
from publisher.planning.lane import LanePlanner
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import CurrentRow
from publisher.runs.plan_lane import plan_lane
from publisher.xds.document import DocumentOptions
from tests.support.event_log_files import Row, event, write
from tests.support.plan_cases import PlanCase, cases
from tests.support.planning import (
    DEPT,
    USR,
    USR_2,
    Event,
    PlannedDocuments,
    Rows,
    Setup,
    add,
    documents_of,
    log,
    outcomes,
)
from tests.support.published_objects import StatesInMemory
from tests.support.task_runs import read_all, work_of


class Sizes(NamedTuple):
    """Sizes of chunks, and of the batches in which changes come; 0 for one batch."""

    fields: int = 20_000
    reads: int = 2_000
    size: int = 8 << 20
    batch: int = 0

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(LanePlanner, "fields_at_once", self.fields)
        patch.setattr(LanePlanner, "reads_at_once", self.reads)
        patch.setattr(LanePlanner, "bytes_at_once", self.size)


AT_ONCE = Sizes()
any_sizes = st.builds(
    Sizes,
    st.sampled_from([1, 3, 20, 20_000]),
    st.sampled_from([1, 2, 2_000]),
    st.sampled_from([1, 1_000, 8 << 20]),
    st.sampled_from([1, 7, 0]),
)


# plans


@st.composite
def cases_with_key_changes(draw: st.DrawFn) -> PlanCase:
    """Random cases in which many deletes are changes of the key."""
    case = draw(cases())
    changes: list[Change] = []
    for change in case.changes:
        name, _, old = change.object.key.partition("=")
        new = draw(st.sampled_from(["", "1", "2", "3", "\x01"])) if change.event_type == 4 else ""
        if new and new != old:
            changes.append(
                change._replace(
                    event_type=EventType.KEY_CHANGE, columns=(name,), old=(old,), new=(new,)
                )
            )
        else:
            changes.append(change)
    return PlanCase(changes, case.rules)


def plan(case: PlanCase, sizes: Sizes, *, minimal: bool) -> tuple[Any, ...]:
    """Documents, decisions, look-ups, and the states that minimal modifies leave."""
    states = StatesInMemory() if minimal else None
    with pytest.MonkeyPatch.context() as patch:
        sizes.patch(patch)
        planned = replace(case.setup, published=states).plan(case.changes, sizes.batch)
    return (*_sort(planned), states)


def _sort(planned: PlannedDocuments) -> tuple[Any, ...]:
    """Only documents have an order."""
    lookups = sorted(planned.lookups, key=lambda each: (each.object.key, *map(str, each)))
    return planned.documents, sorted(planned.decisions), lookups


@settings(max_examples=40, deadline=None)
@given(cases(), any_sizes, st.booleans())
def test_sizes_change_no_plan(case: PlanCase, sizes: Sizes, minimal: bool) -> None:
    assert plan(case, sizes, minimal=minimal) == plan(case, AT_ONCE, minimal=minimal)


@settings(max_examples=40, deadline=None)
@given(cases_with_key_changes(), any_sizes, st.booleans())
def test_sizes_change_no_plan_with_changes_of_keys(
    case: PlanCase, sizes: Sizes, minimal: bool
) -> None:
    assert plan(case, sizes, minimal=minimal) == plan(case, AT_ONCE, minimal=minimal)


def test_a_window_that_is_complete_is_not_divided_at_one_that_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The window of the first object lasts from 1 to 5, that of the second begins at 4 and goes on."""
    changes = log(
        Event(6, at=1),
        Event(3, "b", "v", obj=USR_2, at=4),
        Event(6, at=5),
        Event(3, "b", "w", obj=USR_2, at=7),
        Event(4, obj=DEPT, at=8),
        Event(3, "b", "x", obj=USR_2, at=9),
    )
    Sizes(fields=4).patch(monkeypatch)
    setup = Setup(polls=PollOptions(7, 2), lookup=DATABASE, published=StatesInMemory())
    planned = setup.plan(changes, batch=5)
    assert outcomes(planned, changes)[2] == "superseded: row-query-back by 0"


# files

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
MASKING = MaskingOptions(hash=("idu", "b", "boss", "a", "tag.*"), redact=("p",), key_env="MASK_KEY")

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


def read_log(
    drawn: Any, path: Path, database: str, masking: Masking | None = None
) -> tuple[Work, pa.RecordBatch]:
    """The work of a run over a log, and its records."""
    rows, size, slack, user, hidden, by_place, read_back = drawn
    work = work_of(
        [write(path, rows_of(rows))],
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


def stage(work: Work, records: pa.RecordBatch, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Result, documents and rows of a lane."""
    space = LaneSpace(folder / "staging", folder / "documents", rows=sizes.batch, bytes=1 << 30)
    with pytest.MonkeyPatch.context() as patch:
        sizes.patch(patch)
        batches = iter(records.to_batches(max_chunksize=sizes.batch or None))
        lane = plan_lane(work, space, 0, batches)
    lookups = lane.rows.read(LOOKUPS).to_pylist()
    return {
        "result": replace(lane.result, seconds=0.0),
        "splits": lane.splits,
        "texts": [*lane.rows.texts()],
        "records": lane.rows.read(RECORDS),
        "lookups": sorted(map(_parent_of, lookups)),  # in the order of asking, which differs
        "states": [path.read_bytes() for path in folder.rglob("*.objects.db")],
    }


def _parent_of(lookup: dict[str, Any]) -> str:
    """A look-up with the columns of the parent's row only.

    A query-back of a field reads child tables only if another look-up at that moment needs them; what is
    published of them is in the documents.
    """
    if lookup["text"] is None or lookup["answer"] != "row":
        return str(lookup)
    values = json.loads(lookup["text"])
    return str(lookup | {"text": {name: values[name] for name in values if "." not in name}})


@settings(max_examples=25, deadline=None)
@given(logs, any_sizes, st.booleans())
def test_sizes_change_no_file(database: str, drawn: object, sizes: Sizes, is_masked: bool) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASK_KEY", "k" * 32)
        masking = Masking.of(MASKING) if is_masked else None
        folder = Path(name)
        work, records = read_log(drawn, folder / "log.jsonl", database, masking)
        files = stage(work, records, folder / "chunks", sizes)
        assert files == stage(work, records, folder / "once", AT_ONCE)
        shown = [
            each.to_pylist() if isinstance(each, pa.Table) else each for each in files.values()
        ]
        assert not is_masked or "Jack" not in repr(shown)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(logs, logs),
    any_sizes,
    st.booleans(),
    st.sampled_from(["modify", "add"]),
    st.sampled_from([None, *range(270, 500, 10)]),
)
def test_sizes_change_no_file_and_no_state_of_minimal_modifies(
    database: str,
    drawn: tuple[object, object],
    sizes: Sizes,
    is_complete: bool,
    insert: Any,
    limit: int | None,
) -> None:
    """The states are those that an earlier run leaves; sinks may refuse documents."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = StatesBefore(is_complete=is_complete, limit=limit)
        for number, each in enumerate(drawn):
            work, records = read_log(each, folder / f"{number}.jsonl", database)
            documents = DocumentOptions(minimal=True, insert_query_back=insert)
            rules = replace(work.rules, documents=documents)
            work = replace(work, rules=rules, states=before)
            files = stage(work, records, folder / f"chunks{number}", sizes)
            assert files == stage(work, records, folder / f"once{number}", AT_ONCE)
            states = tuple(map(str, (folder / f"once{number}").rglob("*.objects.db")))
            before = replace(before, files=states)


def test_a_column_whose_name_xml_forbids_rejects_its_query_backs_only(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as connection:
        connection.execute('create table usr (idu integer primary key, "a\x01" text)')
        connection.execute("insert into usr values (1, 'x'), (2, 'y')")
    connection.close()
    rows = [event(at, event_type=6, table_name="usr", table_key=f"idu={at}") for at in (1, 2, 3)]
    work = work_of([write(tmp_path / "log.jsonl", rows)], database=f"sqlite:///{path}")
    records = pa.Table.from_batches(unpack(read_all(work).to_batches()), RECORD_SCHEMA)
    files = stage(work, records.combine_chunks(), tmp_path / "staged", AT_ONCE)
    assert not files["texts"]
    records = files["records"]
    assert all("U+0001" in detail for detail in records["detail"].to_pylist() if detail)
    assert records["detail"].null_count < records.num_rows


# memory


def count_kept(setup: Setup, changes: Sequence[Change]) -> Iterator[int]:
    """Yields the number of changes without an outcome after each one."""
    kept = 0
    with closing(setup.lane_planner()) as planner:
        for change in changes:
            results = add(planner, [change])
            kept += 1 - sum(len(document.rows) for document in documents_of(results))
            kept -= sum(len(outcomes.row) for result in results for outcomes in result.outcomes)
            yield kept


def number_objects(count: int, changes_each: int = 1) -> list[Change]:
    return log(
        *(
            Event(3, "a", "v", obj=Object("indirect", "usr", f"idu={rank // changes_each}"))
            for rank in range(count)
        )
    )


@pytest.mark.parametrize("changes_each", [1, 3, 1_000])
def test_some_chunks_of_a_long_log_are_kept(
    changes_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LanePlanner, "fields_at_once", 50)
    setup = Setup(polls=PollOptions(100, 10))
    assert max(count_kept(setup, number_objects(1_000, changes_each))) <= 4 * 110


def test_an_object_that_changes_without_an_end_keeps_a_bounded_number_of_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Documents leave in the order of positions, so that a poll that goes on keeps those behind it."""
    monkeypatch.setattr(LanePlanner, "fields_at_once", 10)
    size, slack = 20, 5
    changes = [
        change._replace(object=USR) if rank % slack == 0 else change
        for rank, change in enumerate(number_objects(1_000))
    ]
    kept = list(count_kept(Setup(polls=PollOptions(size, slack)), changes))
    assert max(kept) <= 4 * size * slack


def test_large_values_are_kept_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LanePlanner, "bytes_at_once", 10_000)
    changes = log(*[Event(8, "a"), Event(3, "b", "x" * 1_000)] * 100)
    setup = Setup(lookup=DATABASE, polls=PollOptions(2, 0))
    assert max(count_kept(setup, changes)) <= 60


DATABASE = Rows({USR: CurrentRow(("idu", "a", "b"), ("1", "A", None))})


@pytest.mark.parametrize("batch", [0, 7])
def test_rows_are_asked_for_in_lots(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LanePlanner, "reads_at_once", 100)
    database = Rows()
    changes = [change._replace(event_type=6) for change in number_objects(250)]
    Setup(lookup=database, polls=PollOptions(1, 0)).plan(changes, batch)
    lots = [len(objects) for objects in database.asked]
    assert (sum(lots), len(lots)) == (250, 3)
    assert max(lots) <= 100


def test_a_poll_that_goes_on_does_not_make_look_ups_single(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Changes of an open poll stay in memory; they are no reason to ask for each object by itself."""
    monkeypatch.setattr(LanePlanner, "fields_at_once", 10)
    changes: list[Event] = []
    for at in range(1, 601, 3):
        changes += [
            Event(3, "a", str(at), at=at),  # one object without an end
            Event(4, obj=Object("indirect", "usr", f"idu={at}1"), at=at + 1),
            Event(6, obj=Object("indirect", "usr", f"idu={at}2"), at=at + 2),
        ]
    database = Rows()
    Setup(lookup=database, polls=PollOptions(1_000, 3)).plan(
        [change._replace(rank=change.rank + 900) for change in log(*changes)], batch=50
    )
    assert len(database.asked) <= 200 / 10 + 1
