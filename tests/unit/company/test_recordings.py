"""The company's recordings read as its story; its comparison of documents."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.consumer import Operation
from publisher.errors import InternalError
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.linkexpress.options import LinkexpressOptions
from publisher.formats.linkexpress.types import parse_item
from publisher.ledger.lane_rows import LaneRows
from publisher.ledger.tables import DOCUMENTS
from publisher.model.catalogue import ChildTable, ColumnKind, Table
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions
from publisher.runs.sample import RECORDS, sample_of
from tests.support import change_table_files, dispatch_queue_files, linkexpress_files
from tests.support.company.acts import COLUMNS, KEYS, PARENTS, Act, RowChange, act_of
from tests.support.company.compare import EARLIER_UPDATE, KINDS, form_of, kind_of, lines
from tests.support.company.consumer import agreed_objects
from tests.support.company.dispatch_rows import decimal
from tests.support.company.episodes import delete_and_read_back, effective_later, nothing_new
from tests.support.company.extracts import pack_decimal, recorded_acts
from tests.support.company.job import JOB_FILE
from tests.support.company.log import Subject, Trigger
from tests.support.company.opening import user_acts, user_stories
from tests.support.company.people import employee, log_text
from tests.support.company.recorded_sources import RecordedSource, write_recordings
from tests.support.company.recordings import (
    Operations,
    association,
    operations,
    recordings,
)
from tests.support.company.story import Story, write_story
from tests.support.event_log_files import Row, Tables

Change = tuple[Any, ...]
PHOTO = {"photo": ColumnKind.OCTET}
USR = Table(
    *(None, "usr", ("idu",), PHOTO),
    children={"usr_phone": ChildTable({"phoneno": ColumnKind.STRING}, ("idu",), ("idu",))},
)
EMPLOYEE = Table(
    *(None, "employee", ("empno",), PHOTO),
    children={"employee_phone": ChildTable({"phoneno": ColumnKind.STRING}, ("empno",), ("empno",))},
)
CLASSES = ClassCatalogue(
    Tables({"usr": USR, "employee": EMPLOYEE}, closed=False), [USR, EMPLOYEE], ClassOptions()
)


class Recordings:
    """The story and its recordings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.story: Story = write_story()
        job = Path(shutil.copy(JOB_FILE, folder / "company.toml"))
        self.sources: list[RecordedSource] = write_recordings(job, self.story)
        self.settings: Settings = load(job)

    def options(self, name: str) -> Any:
        return next(source.options for source in self.settings.sources if source.name == name)

    def count_records(self, name: str) -> int:
        """The records that the builder says it wrote."""
        (source,) = (source for source in self.sources if source.name == name)
        return sum(source.counts.values())

    def changes(self, name: str) -> list[RowChange]:
        """The changes of rows as a source recorded them."""
        (source,) = (source for source in self.sources if source.name == name)
        return [change for act in source.acts for change in act.changes]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    return Recordings(tmp_path_factory.mktemp("recorded"))


def read(record: Row) -> Change:
    """A decoded change: event type, object, and its columns with what they were and are."""
    images = [record["old"] or record["columns"], record["new"] or record["columns"]]
    columns = frozenset(zip(record["columns"], *images, strict=True))  # type: ignore[call-overload]
    return record["event_type"], record["table"], record["key"], columns


def must_be(change: RowChange, event_type: int, names: tuple[str, ...]) -> Change:
    """Returns a change of the story in the form of a record; rows of child tables are values."""
    key = association(change).partition(",table=")[0]
    before, after = change.before or {}, change.after or {}
    if change.table in PARENTS:
        phones = before.get("phoneno"), after.get("phoneno")
        return 2, change.class_name, key, frozenset({(f"{change.table}.phoneno", *phones)})
    row = {**dict(zip(KEYS[change.table], change.key, strict=True)), **after}
    old = {name: log_text(before[name]) if event_type == 2 else name for name in names}
    columns = frozenset((name, old[name], log_text(row[name])) for name in names)
    return event_type, change.table, _by_name(key), columns


def flag_values(change: Change) -> Change:
    """Linkexpress has no booleans: ``active`` is a number there."""
    *rest, columns = change
    words = {"0": "false", "1": "true"}
    return *rest, frozenset(
        (n, old, words[new] if n == "active" else new) for n, old, new in columns
    )


def spell_values(change: Change) -> Change:
    """LINTER has no dates without time, and DISPATCH_ATTRS no scale of decimals."""
    *rest, columns = change

    def one(name: str, text: str | None) -> str | None:
        if text and name in ("hired", "since"):
            return text.removesuffix(" 00:00:00")
        return f"{Decimal(text):.2f}" if text and name == "salary" and text != name else text

    return *rest, frozenset((name, one(name, old), one(name, new)) for name, old, new in columns)


def _by_name(key: str) -> str:
    """The canonical key of a membership has its parts by name."""
    group, plus, number = key.rpartition("+")
    return f"{number}+{group}" if plus else key


def test_change_tables_read_as_what_was_done(written: Recordings) -> None:
    options = written.options("change-tables")
    assert isinstance(options, ChangeTableOptions)
    paths = sorted(p for p in (written.folder / "recorded").glob("*__ct/*") if p.suffix != ".dfm")
    assert {path.suffix for path in paths} == {".csv", ".jsonl"}
    records = change_table_files.read(paths, options, tables=CLASSES)
    found = [read(row) for row in records]
    expected = []
    for change in written.changes("change-tables"):
        if change.after is None:
            expected.append(must_be(change, 4, ()))
        elif change.before is None:
            names = (*KEYS[change.table], *COLUMNS[change.table])
            expected.append(must_be(change, 1, names))
        else:
            expected.append(must_be(change, 2, change.changed_columns))
    assert found == expected
    records_ = sum(int(str(row["records"])) for row in records)
    assert records_ == written.count_records(
        "change-tables"
    )  # before images count with their updates


def test_an_extract_reads_as_what_was_done(written: Recordings) -> None:
    options = written.options("extract")
    assert isinstance(options, LinkexpressOptions)
    path = written.folder / "recorded" / "people.dat"
    records, framed = linkexpress_files.read(options, path, written.folder, catalogue=CLASSES)
    found = [flag_values(read(row)) for row in records if row["outcome"] is None]
    expected = []
    for change in written.changes("extract"):
        if change.after is None:
            expected.append(must_be(change, 4, ()))
        else:
            kind = 1 if change.before is None else 3
            expected.append(must_be(change, kind, COLUMNS[change.table]))
    assert found == expected
    held = [flag_values(read(row)) for row in records if row["outcome"] == 4]
    assert held == [must_be(written.story.unfinished, 3, COLUMNS["employee"])]
    assert framed == written.count_records("extract")


def test_a_queue_reads_as_what_was_done(written: Recordings) -> None:
    options = written.options("queue")
    assert isinstance(options, DispatchQueueOptions)
    path = written.folder / "recorded" / "queue.dat"
    records, framed = dispatch_queue_files.read(options, path, written.folder, catalogue=CLASSES)
    found = [read(row) for row in records if row["outcome"] is None]
    expected = []
    for change in written.changes("queue"):
        kind = 4 if change.after is None else 1 if change.before is None else 2
        names = change.changed_columns if kind == 2 else COLUMNS[change.table] if kind == 1 else ()
        expected.append(must_be(change, kind, names))
    assert [spell_values(change) for change in found] == expected
    reasons = Counter(row["reason"] for row in records if row["outcome"] is not None)
    assert reasons == {"commit": len(written.story.acts), "rollback": 2, "open-transaction": 1}
    assert framed == written.count_records("queue")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", "00" + "00" * 15),
        ("4197.34", "02" + "00000000000000004197" + "3400000000"),
        ("-12.5", "01" + "00000000000000000012" + "5000000000"),
    ],
)
def test_decimals_of_a_queue(value: str, expected: str) -> None:
    assert decimal(Decimal(value)).hex() == expected


@pytest.mark.parametrize(
    ("value", "item", "expected"),
    [
        ("4197.34", "pay DECIMAL(10,2)", "00000419734c"),
        ("-1.5", "pay DECIMAL(5,2)", "00150d"),
        ("7", "pay DECIMAL(3)", "007c"),
    ],
)
def test_decimals_of_an_extract(value: str, item: str, expected: str) -> None:
    assert pack_decimal(Decimal(value), parse_item(item)).hex() == expected


def trigger(new: bool = False) -> Trigger:
    random = Random(4)
    row = employee(random)
    return Trigger(random, Subject("employee", 7), "empno=7", row, COLUMNS["employee"], new)


def test_a_row_that_is_replaced_is_changed_deleted_and_inserted() -> None:
    played = trigger()
    act = act_of(played, delete_and_read_back(played))
    assert act is not None
    first, gone, back = act.changes
    assert first.changed_columns
    assert gone.before == first.after
    assert gone.after is back.before is None
    assert back.after == played.row


@pytest.mark.parametrize("episode", [effective_later, nothing_new])
def test_what_does_not_change_the_row_is_recorded_by_the_log_alone(episode: Any) -> None:
    played = trigger()
    assert act_of(played, episode(played)) is None


def test_every_kind_of_act_is_in_the_story(written: Recordings) -> None:
    assert {kind_of(act) for act in written.story.acts} >= set(KINDS) - {EARLIER_UPDATE}


DOCUMENT = (
    "<nds><source/><input><{0} class-name='usr'><association>idu=1,table=usr</association>{1}</{0}>"
    "</input></nds>"
)


def operations_text(kind: str, inside: str = "") -> Operations:
    return tuple(operations(DOCUMENT.format(kind, inside)))


def put(name: str, new: str, old: str | None = None) -> str:
    gone = "<remove-all-values/>"
    if old is not None:
        gone = f"<remove-value><value type='string'>{old}</value></remove-value>"
    value = f"<value type='string'>{new}</value>"
    return f"<modify-attr attr-name='{name}'>{gone}<add-value>{value}</add-value></modify-attr>"


def one(operations_: Operations) -> Operation:
    (found,) = operations_
    return found


def test_operations_are_the_same_in_any_order_of_attributes() -> None:
    ab = operations_text("modify", put("fname", "Jim") + put("lname", "Doe"))
    assert ab == operations_text("modify", put("lname", "Doe") + put("fname", "Jim"))
    assert ab != operations_text("modify", put("lname", "Doe") + put("fname", "Jim", "Jack"))


def test_numbers_are_the_same_without_zeros_at_their_end() -> None:
    assert operations_text("modify", put("pay", "12.50")) == operations_text(
        "modify", put("pay", "12.5")
    )
    assert operations_text("modify", put("pay", "120")) != operations_text(
        "modify", put("pay", "12")
    )


def test_forms_are_named() -> None:
    three = "".join(put(name, "x") for name in COLUMNS["usr"])
    assert form_of(one(operations_text("modify", three)), "usr") == "whole row"
    assert form_of(one(operations_text("modify", put("fname", "x"))), "usr") == "new"
    assert form_of(one(operations_text("modify", put("fname", "x", "y"))), "usr") == "old → new"
    both = put("fname", "x", "y") + put("lname", "x")
    assert form_of(one(operations_text("modify", both)), "usr") == "some of each"
    assert form_of(
        one(operations_text("modify", three + put("usr_phone.phoneno", "1"))), "usr"
    ) == ("whole object")
    phone = "<modify-attr attr-name='usr_phone.phoneno'><add-value><value>1</value></add-value></modify-attr>"
    assert form_of(one(operations_text("modify", phone)), "usr") == "one value"
    assert form_of(one(operations_text("delete")), "usr") == "delete"


def acts() -> list[Act]:
    """The first two of user 1, without those of phones: inserted, then all columns changed."""
    return [replace(act, changes=act.changes[:1]) for act in user_acts(user_stories())[:2]]


ADD = operations_text(
    "add", "<add-attr attr-name='fname'><value type='string'>Jack</value></add-attr>"
)


def test_a_line_says_which_documents_are_the_same() -> None:
    log = [ADD, operations_text("modify", put("fname", "John"))]
    images = [ADD, operations_text("modify", put("fname", "John", "Jack"))]
    inserted, changed = lines(acts(), [log, images, log])
    assert [cell.letter for cell in inserted.cells] == ["A", "A", "A"]
    assert [cell.letter for cell in changed.cells] == ["A", "", "A"]
    assert [cell.form for cell in changed.cells] == ["new", "old → new", "new"]


def test_consumers_of_all_recordings_end_up_with_the_same_rows() -> None:
    log = [ADD, operations_text("modify", put("fname", "John"))]
    images = [ADD, operations_text("modify", put("fname", "John", "Jack"))]
    assert agreed_objects(acts(), [log, images]) == 1
    with pytest.raises(InternalError, match="disagree"):
        agreed_objects(acts(), [log, [ADD, operations_text("modify", put("fname", "Jon"))]])
    with pytest.raises(InternalError, match="should be Jim"):
        agreed_objects(acts(), [log, [ADD, operations_text("modify", put("fname", "John", "Jim"))]])
    with pytest.raises(InternalError, match="disagree"):
        agreed_objects(acts(), [log, [ADD, operations_text("delete")]])


def test_linkexpress_records_another_phone_as_a_delete_and_an_insert(written: Recordings) -> None:
    options = written.options("extract")
    changes = recorded_acts(options, user_acts(user_stories()))[1].changes
    assert [(change.table, change.before, change.after) for change in changes[1:]] == [
        ("usr_phone", {"phoneno": "111-1111"}, None),
        ("usr_phone", None, {"phoneno": "333-3333"}),
    ]
    assert changes[0].before is not None
    assert changes[0].after is not None


def test_a_consumer_knows_the_values_of_a_child_table_only_if_a_document_shows_all() -> None:
    added = "<modify-attr attr-name='usr_phone.phoneno'><add-value><value>2</value></add-value></modify-attr>"
    partial = operations_text("modify", added)
    whole = operations_text("modify", put("usr_phone.phoneno", "1"))
    phone_acts = acts()[1:]
    assert agreed_objects(phone_acts, [[partial], [whole]]) == 1
    with pytest.raises(InternalError, match="disagree"):
        agreed_objects(phone_acts, [[(*whole, *partial)], [whole]])


def lane_of(documents: list[tuple[int, str, str]]) -> list[LaneRows]:
    """A ledger of one lane: source, records and text of each document, all of user 1."""
    rows = [
        {
            "source": source,
            "association": "idu=1,table=usr,schema=indirect",
            "records": records,
            "offset": 0,
            "length": len(text),
            "text": text,
        }
        for source, records, text in documents
    ]
    tables = {DOCUMENTS.name: pa.Table.from_pylist(rows, DOCUMENTS.schema)}
    return [LaneRows(0, Path(), Path(), tables)]


def numbered_acts() -> list[Act]:
    """``acts`` with record ids from 1 to 11."""
    acts_ = acts()
    for number, event in enumerate((e for act in acts_ for e in act.events), 1):
        event.record_id = number
    return acts_


ADDED = DOCUMENT.format("add", "<add-attr attr-name='fname'><value>Jack</value></add-attr>")
GONE = DOCUMENT.format("delete", "")


def test_documents_go_to_the_acts_that_they_are_of() -> None:
    listed = [
        (0, "1,2,3", ADDED),
        (0, "7,8,9", GONE),
        (1, "a", ADDED),
        (1, "b", GONE),
        (0, "12", GONE),
    ]
    log, other = recordings(lane_of(listed), [numbered_acts()] * 2)
    assert log == other == [tuple(operations(ADDED)), tuple(operations(GONE))]


@pytest.mark.parametrize(
    ("documents", "problem"),
    [([ADDED], "no document of a change"), ([ADDED, GONE, GONE], "without an act: idu=1")],
)
def test_a_source_that_tells_more_or_less_is_found(documents: list[str], problem: str) -> None:
    listed = [(0, "1", ADDED), *((1, "", text) for text in documents)]
    with pytest.raises(InternalError, match=problem):
        recordings(lane_of(listed), [numbered_acts()] * 2)


def test_check_shows_what_comes_out_of_each_recording(written: Recordings) -> None:
    settings = replace(written.settings, database=None)
    firsts = {}
    for source in settings.sources:
        if source.snapshots:
            paths = tuple(source.reader.files(source.snapshots))
            sample = sample_of(settings, replace(source, snapshots=paths))
            assert (sample.records, sample.rejected) == (RECORDS, 0)
            firsts[source.name] = sample.first or ""
    shown = "insert field of idu=1 in indirect.usr"
    assert firsts.keys() == {"change-tables", "queue", "extract"}
    for name in ("queue", "extract"):
        assert shown in firsts[name]
