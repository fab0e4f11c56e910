"""Filters: loopback, tables and columns that are not wanted, events of the future, the window."""

from __future__ import annotations

import pytest

from publisher.model.catalogue import ChildTable, ColumnKind, JobCatalogue, Table
from publisher.model.change import Object, Outcome, Position, Reason
from publisher.planning.filters import Filter, FilterOptions, PositionRange
from tests.support.planning import DEPT, USR, Event, Rows, Setup, log


def why(event: Event, held_after: int | None = None, **options: object) -> Reason | None:
    changes = log(event)
    filters = FilterOptions(**options)  # type: ignore[arg-type]
    planned = Setup(filters=filters, held_after=held_after, lookup=Rows()).plan(changes)
    if planned.documents or planned.decisions[0].outcome is Outcome.REJECTED:
        return None
    ((_, outcome, reason, *_),) = planned.decisions
    if reason not in (Reason.LOOPBACK, Reason.EXCLUDED, Reason.FUTURE):
        return None
    assert outcome is (Outcome.HELD if reason is Reason.FUTURE else Outcome.IGNORED)
    return reason


def test_without_settings_nothing_is_filtered() -> None:
    assert why(Event(3, "a", "v", perpetrator="idm", time=2**62)) is None


def test_what_the_driver_user_did_is_loopback() -> None:
    assert why(Event(4, perpetrator="idm"), driver_user="idm") is Reason.LOOPBACK


def test_loopback_may_be_allowed() -> None:
    assert why(Event(4, perpetrator="idm"), driver_user="idm", allow_loopback=True) is None


@pytest.mark.parametrize("perpetrator", [None, "", "scott", "IDM", "idm2"])
def test_whatever_another_user_or_nobody_known_did_is_published(perpetrator: str | None) -> None:
    assert why(Event(4, perpetrator=perpetrator), driver_user="idm") is None


@pytest.mark.parametrize("pattern", ["usr", "u*", "indirect.usr", "indirect.*", "*"])
def test_tables_are_excluded_by_pattern_with_or_without_schema(pattern: str) -> None:
    assert why(Event(4), exclude=(pattern,)) is Reason.EXCLUDED


@pytest.mark.parametrize("pattern", ["USR", "Indirect.U*"])
def test_excluded_tables_and_columns_are_matched_in_any_case(pattern: str) -> None:
    assert why(Event(4), exclude=(pattern,)) is Reason.EXCLUDED
    assert why(Event(4), include=(pattern,)) is Reason.EXCLUDED
    assert why(Event(3, "salary", "v"), exclude_columns=("SAL*",)) is Reason.EXCLUDED


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ({"exclude": ("y",)}, {"y.b", "y.unknown"}),
        ({"exclude_columns": ("a",)}, set()),
        ({"exclude_columns": ("b", "unknown")}, {"y.b", "y.unknown"}),
        ({"exclude_columns": ("y.a",)}, {"y.a"}),
        ({"exclude_columns": ("usr.y.*",)}, {"y.a", "y.b", "y.unknown"}),
    ],
)
def test_a_column_with_a_dot_in_its_name_is_no_column_of_a_child(
    options: dict[str, tuple[str, ...]], hidden: set[str]
) -> None:
    """``y.a`` is a column of the table, ``y.b`` one of a child table."""
    text, children = ColumnKind.STRING, {"y": ChildTable({"b": ColumnKind.STRING})}
    table = Table("indirect", "usr", columns={"y.a": text, "y.b": text}, children=children)
    filter_ = Filter(FilterOptions(**options), catalogue=JobCatalogue([table]))  # type: ignore[arg-type]
    names = {"y.a", "y.b", "y.unknown"}
    assert {name for name in names if not filter_.publishes_column(USR, name)} == hidden


@pytest.mark.parametrize(
    ("schema", "table"),
    [
        ("pg_catalog", "pg_authid"),
        ("PG_Catalog", "PG_AUTHID"),
        ("pg_temp_3", "t"),
        ("pg_toast", "pg_toast_2619"),
        ("information_schema", "columns"),
        ("mysql", "user"),
        ("sys", "schema_table_statistics"),
        ("performance_schema", "users"),
    ],
)
def test_system_schemas_are_excluded_unless_they_are_asked_for(schema: str, table: str) -> None:
    event = Event(4, obj=Object(schema, table, "idu=1"))
    assert why(event) is Reason.EXCLUDED
    assert why(event, include=("*",)) is Reason.EXCLUDED
    assert why(event, system_schemas="publish") is None
    assert why(event, system_schemas="publish", exclude=(table,)) is Reason.EXCLUDED


def test_a_table_named_like_a_system_schema_is_published() -> None:
    assert why(Event(4, obj=Object("hr", "mysql", "idu=1"))) is None
    assert why(Event(4, obj=Object(None, "sys", "idu=1"))) is None


@pytest.mark.parametrize("pattern", ["direct.usr", "us", "usr.*"])
def test_other_tables_are_left_alone(pattern: str) -> None:
    assert why(Event(4), exclude=(pattern,)) is None


def test_with_include_only_those_tables_are_published() -> None:
    assert why(Event(4, obj=USR), include=("usr",)) is None
    assert why(Event(4, obj=DEPT), include=("usr",)) is Reason.EXCLUDED


def test_exclude_wins_over_include() -> None:
    assert why(Event(4), include=("*",), exclude=("usr",)) is Reason.EXCLUDED


def test_a_table_without_schema_is_matched_by_its_name() -> None:
    obj = Object(None, "usr", "idu=1")
    assert why(Event(4, obj=obj), exclude=("usr",)) is Reason.EXCLUDED
    assert why(Event(4, obj=obj), exclude=("indirect.usr",)) is None


@pytest.mark.parametrize("pattern", ["a", "?", "usr.a", "usr.*"])
@pytest.mark.parametrize("event_type", [1, 2, 3, 7, 8])
def test_per_field_events_of_an_excluded_column_are_ignored(pattern: str, event_type: int) -> None:
    assert why(Event(event_type, "a"), exclude_columns=(pattern,)) is Reason.EXCLUDED


@pytest.mark.parametrize("event_type", [4, 5, 6])
def test_events_of_rows_are_not_touched_by_excluded_columns(event_type: int) -> None:
    assert why(Event(event_type), exclude_columns=("*",)) is None


def test_with_included_columns_only_those_are_published() -> None:
    assert why(Event(3, "a", "v"), include_columns=("a",)) is None
    assert why(Event(3, "b", "v"), include_columns=("a",)) is Reason.EXCLUDED
    assert why(Event(3, "a", "v"), include_columns=("a",), exclude_columns=("usr.a",)) is (
        Reason.EXCLUDED
    )


def test_a_column_is_excluded_in_its_own_table_alone() -> None:
    assert why(Event(3, "a", "v", obj=DEPT), exclude_columns=("usr.a",)) is None


def test_events_later_than_now_are_held_and_one_of_now_is_not() -> None:
    assert why(Event(4, time=101), held_after=100) is Reason.FUTURE
    assert why(Event(4, time=100), held_after=100) is None


def test_without_future_events_a_later_event_is_published() -> None:
    assert why(Event(4, time=101)) is None


def test_what_will_be_ignored_anyway_is_not_held() -> None:
    event = Event(4, time=101, perpetrator="idm")
    assert why(event, held_after=100, driver_user="idm") is Reason.LOOPBACK


@pytest.mark.parametrize(
    ("first", "last", "inside"),
    [
        (None, None, [1, 2, 3]),
        (2, None, [2, 3]),
        (None, 2, [1, 2]),
        (2, 2, [2]),
        (3, 1, []),
    ],
)
def test_a_window_includes_both_its_ends(
    first: int | None, last: int | None, inside: list[int]
) -> None:
    window = PositionRange(
        *(None if at is None else Position("", at, 0, 0) for at in (first, last))
    )
    changes = log(Event(4), Event(4), Event(4))
    assert [change.position.high for change in changes if window.has(change.position)] == inside


def test_a_window_holds_all_operations_of_the_record_at_its_end() -> None:
    (change,) = log(Event(4, at=5))
    second = change._replace(position=change.position._replace(ordinal=1))
    at = Position("", 5, 0, 0)
    assert PositionRange(at, at).has(second.position)


def test_the_object_of_a_change_is_not_looked_at_by_a_window() -> None:
    (change,) = log(Event(4, at=5, obj=DEPT))
    assert PositionRange(None, Position("", 5, 0, 0)).has(change.position)
    assert USR != DEPT
