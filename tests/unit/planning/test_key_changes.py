"""Changes of keys in planning: documents of their own, and barriers of precedence."""

from __future__ import annotations

import pytest

from publisher.model.change import Change, EventType, Object, Position, Reason
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import CurrentRow
from publisher.xds.document import DocumentOptions
from tests.support.event_ids import plain_ids
from tests.support.planning import USR, Event, Rows, Setup, log, operation_texts, outcomes, reason

USR_5 = Object("indirect", "usr", "idu=5")
A, B = (f"<association>idu={n},table=usr,schema=indirect</association>" for n in (1, 5))


def with_key_change(*events: Event | None) -> list[Change]:
    """The changes of a log in which ``None`` is a change of the key from 1 to 5."""
    changes = log(*(event or Event(4) for event in events))
    return [
        change
        if event is not None
        else change._replace(
            event_type=EventType.KEY_CHANGE, columns=("idu",), old=("1",), new=("5",)
        )
        for change, event in zip(changes, events, strict=True)
    ]


def rows(**names: str) -> Rows:
    answers = {USR: names.get("old"), USR_5: names.get("new")}
    columns = ("idu", "a")
    return Rows(
        {obj: CurrentRow(columns, (obj.key[4:], a)) for obj, a in answers.items() if a is not None}
    )


def test_a_change_of_the_key_is_a_modify_association() -> None:
    (document,) = Setup().plan(with_key_change(None)).documents
    assert f"<input><modify-association>{A}{B}</modify-association></input>" in document.text
    assert document.association == "idu=1,table=usr,schema=indirect"
    assert document.new_association == "idu=5,table=usr,schema=indirect"
    assert (document.operation, plain_ids(document.event_id)) == ("modify-association", "log:1")


def test_it_has_an_event_id() -> None:
    setup = Setup(documents=DocumentOptions(event_id=True))
    (document,) = setup.plan(with_key_change(None)).documents
    assert f'<modify-association event-id="log:1">{A}{B}</modify-association>' in plain_ids(
        document.text
    )


@pytest.mark.parametrize("size", [1, 128])
def test_it_is_alone_in_its_document(size: int) -> None:
    changes = with_key_change(Event(2, "a", "x"), None, Event(2, "a", "y"))
    planned = Setup(documents=DocumentOptions(batch_size=size)).plan(changes)
    assert operation_texts(planned) == ["modify a+x", "modify-association", "modify a+y"]
    assert [document.new_association is None for document in planned.documents] == [
        True,
        False,
        True,
    ]


def test_precedence_does_not_join_changes_across_it() -> None:
    changes = with_key_change(Event(2, "a", "x"), None, Event(8, "a"), Event(2, "a", "z"))
    planned = Setup(lookup=rows(old="old", new="new")).plan(changes)
    assert operation_texts(planned) == ["modify a+x", "modify-association", "modify a!+old"]
    assert outcomes(planned, changes)[3] == "superseded: field-query-back by 2"


def test_query_backs_before_it_read_the_row_under_its_new_key() -> None:
    changes = with_key_change(Event(6), None, Event(5))
    planned = Setup(lookup=rows(old="another row", new="same row")).plan(changes)
    assert operation_texts(planned) == [
        "modify a!+same row",
        "modify-association",
        "modify a!+another row",
    ]


def test_a_row_that_is_gone_under_its_new_key_is_ignored() -> None:
    changes = with_key_change(Event(6), None)
    planned = Setup(lookup=rows(old="another row")).plan(changes)
    assert operation_texts(planned) == ["modify-association"]
    assert reason(planned, 0)[1] == Reason.ROW_GONE


def test_a_key_of_forbidden_characters_is_rejected() -> None:
    (change,) = with_key_change(None)
    planned = Setup().plan([change._replace(new=("\x01",))])
    assert planned.documents == []
    assert reason(planned, 0)[1] == Reason.FORBIDDEN_CHARACTER


@pytest.mark.parametrize(
    "filters", [FilterOptions(exclude_columns=("idu",)), FilterOptions(include_columns=("a",))]
)
def test_filters_of_columns_do_not_drop_it(filters: FilterOptions) -> None:
    planned = Setup(filters=filters).plan(with_key_change(None))
    assert operation_texts(planned) == ["modify-association"]


def renames(*changes: tuple[int, str, str]) -> list[Change]:
    """Changes of keys, each as its record, the old key and the new value of ``idu``."""
    return [
        Change(
            row=at,
            object=Object("indirect", "usr", f"idu={old}"),
            position=Position("", at, 0, 0),
            rank=at,
            event_type=EventType.KEY_CHANGE,
            columns=("idu",),
            old=(old,),
            new=(new,),
        )
        for at, old, new in changes
    ]


def test_query_backs_follow_all_later_changes_of_the_key() -> None:
    """In later polls, too, and through the keys of other objects."""
    first, *_ = log(Event(6))
    changes = [first, *renames((200, "1", "2"), (400, "2", "5"))]
    planned = Setup(polls=PollOptions(100, 0), lookup=rows(new="here")).plan(changes)
    assert operation_texts(planned) == ["modify a!+here", *["modify-association"] * 2]


PART = Object(None, "part", "a=1+b=2")


def part_log(*columns: str | int) -> list[Change]:
    """Changes of the key columns named, and events of the types given, of the object ``PART``."""
    changes = log(*(Event(9 if isinstance(c, str) else c, "c", "x", obj=PART) for c in columns))
    return [
        change._replace(columns=(column,), old=({"a": "1", "b": "2"}[column],), new=("7",))
        if isinstance(column, str)
        else change
        for change, column in zip(changes, columns, strict=True)
    ]


def test_neighbouring_records_of_a_compound_key_are_one_change() -> None:
    (document,) = Setup().plan(part_log("a", "b")).documents
    old, new = (f"<association>a={n}+b={m},table=part</association>" for n, m in ((1, 2), (7, 7)))
    assert f"<modify-association>{old}{new}</modify-association>" in document.text
    assert (document.rows, document.records) == ((0, 1), "1,2")


def test_the_old_key_of_another_object_is_not_joined() -> None:
    changes = part_log("a", 1, "b")
    documents = Setup().plan(changes).documents
    assert [document.new_association for document in documents] == [
        "a=7+b=2,table=part",
        None,
        "a=1+b=7,table=part",
    ]


@pytest.mark.parametrize("polls", [PollOptions(), PollOptions(1, 0)])
def test_parts_of_a_change_that_are_no_neighbours_are_rejected(polls: PollOptions) -> None:
    changes = part_log("a", 3, "b")
    planned = Setup(polls=polls).plan(changes)
    rejected = {d.row: d for d in planned.decisions}
    assert set(rejected) == ({0, 2} if polls.poll_size > 1 else {2})
    assert rejected[2].reason == Reason.KEY_CHANGE
    assert "records 1 and 3 change columns of the key a=1+b=2 and are no" in str(rejected[2].detail)
    assert "modify c!+x" in operation_texts(planned)


def test_a_key_that_another_object_got_in_between_is_not_joined() -> None:
    a, other, b = part_log("a", "a", "b")
    other = other._replace(object=Object(None, "part", "a=3+b=2"), old=("3",), new=("1",))
    documents = Setup().plan([a, other, b]).documents
    assert [document.new_association for document in documents] == [
        "a=7+b=2,table=part",
        "a=1+b=2,table=part",
        "a=1+b=7,table=part",
    ]


def test_a_whole_change_is_rejected_if_one_of_its_values_is_forbidden() -> None:
    a, b = part_log("a", "b")
    planned = Setup().plan([a, b._replace(new=("\x01",))])
    assert planned.documents == []
    assert [d.reason for d in planned.decisions] == [Reason.FORBIDDEN_CHARACTER] * 2
