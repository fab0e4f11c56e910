"""The SQL on the page about precedence and polls gives the same plans as the rules by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from lxml import etree

from publisher.model.change import Object
from tests.support import plan_oracle, plan_sql
from tests.support.plan_cases import COLUMNS, KINDS, OBJECTS, SECRET, VALUES, PlanCase
from tests.support.plan_oracle import Row, Rules
from tests.support.plan_sql import SqlPlan
from tests.support.planning import Event, log

LOGGED = {**VALUES, "idu": [None, "1"]}
"""Values of all columns, the key included."""
GOOD: dict[str, list[str | None]] = {
    "a": ["u", None],
    "b": ["u", None],
    "n": ["1", "02"],
    "p": ["qqo="],
    "x": ["secret"],
}
UPDATES = [statement for statement in plan_sql.STATEMENTS if statement.startswith("UPDATE plan ")]


def random_lanes(count: int) -> list[PlanCase]:
    """Draws the same lanes in each run, of 0 to 24 events."""
    chance = Random(count)
    return [
        PlanCase(log(*_random_events(chance, chance.randint(0, 24))), _random_rules(chance))
        for _ in range(count)
    ]


def _random_events(chance: Random, count: int) -> Iterator[Event]:
    objects = chance.choices([*OBJECTS, SECRET], [8, 4, 4, 2, 1], k=2)
    columns = chance.choices(sorted(LOGGED), k=4)  # few, so that events meet
    types = chance.choices(range(1, 9), k=5)
    at = 0
    for _ in range(count):
        at += chance.choice([1, 1, 1, 1, 2, 3, 4])
        column = chance.choice(columns)
        event = Event(
            chance.choice(types),
            column,
            chance.choice(LOGGED[column]),
            chance.choice(LOGGED[column]),
            chance.choice(objects),
            at,
            time=100 if chance.random() < 0.06 else 0,
            perpetrator="idm" if chance.random() < 0.06 else None,
        )
        yield event
        if chance.random() < 0.06:
            yield event
        if chance.random() < 0.06:
            yield event._replace(event_type=event.event_type % 8 + 1)


def _random_rules(chance: Random) -> Rules:
    is_class = chance.random() < 0.5
    rows = {obj: _random_row(chance, obj, is_class) for obj in (*OBJECTS, SECRET)}
    return Rules(
        poll_size=chance.choice([1, 2, 3, 4, 7, 15, 30]),
        poll_slack=chance.randint(0, 3),
        batch_size=chance.choice([1, 2, 3, 128]),
        insert_query_back=chance.choice(["modify", "add"]),
        event_id=True,  # shows where an operation begins
        driver_user=chance.choice([None, "idm"]),
        excluded_tables=frozenset({SECRET.table}),
        excluded_columns=frozenset(chance.choice(["", "", "x", "x", "abnpx"])),
        now=chance.choice([None, 50]),
        first_position=chance.choice([None, None, None, 5]),
        last_position=chance.choice([None, None, None, 20]),
        kinds=KINDS,
        current=rows if chance.random() < 0.8 else None,
        attributes=frozenset({*COLUMNS, "child.no"}) if is_class else None,
        of_children=frozenset({"child.no", "b"}),
        child_after_delete=chance.choice(["ignore", "publish"]),
    )


def _random_row(chance: Random, obj: Object, is_class: bool) -> Row | str | None:
    if chance.random() < 0.2:
        return chance.choice([None, "database-refused"])
    values = GOOD if chance.random() < 0.7 else VALUES
    row: dict[str, str | tuple[str, ...] | None] = {obj.key.split("=")[0]: "1"}
    row |= {column: chance.choice(values[column]) for column in COLUMNS}
    if is_class:
        row["child.no"] = ("1", "2")
    return row


def _differences(lanes: Sequence[PlanCase], plans: Sequence[SqlPlan]) -> Iterator[PlanCase]:
    for case, planned in zip(lanes, plans, strict=True):
        if _comparable(case, planned) != _by_hand(case, planned):
            yield case


def _by_hand(case: PlanCase, planned: SqlPlan) -> tuple[Any, ...]:
    """Fates, and each document's rows and operations, as kinds and the positions where they begin."""
    twins = frozenset(row for row, fate in planned.fates.items() if fate[1] == "double-record")
    expected = plan_oracle.plan(case.changes, case.rules, twins)
    documents = []
    for _, _, text, rows in expected.documents:
        operations = etree.fromstring(text).find("input")
        assert operations is not None
        begins = [(one.tag, int(str(one.get("event-id")).rpartition(":")[2])) for one in operations]
        documents.append((list(rows), begins))
    return expected.fates, documents


def _comparable(case: PlanCase, planned: SqlPlan) -> tuple[Any, ...]:
    positions = {change.row: change.position.high for change in case.changes}
    documents = []
    for _, operations in sorted(planned.documents.items()):
        rows = [row for rows in operations.values() for row in rows]
        documents.append((rows, [(kind, positions.get(first)) for first, kind in operations]))
    return planned.fates, documents


@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.long)])
def test_the_sql_gives_what_the_rules_give_by_hand(count: int) -> None:
    lanes = random_lanes(count)
    assert not list(_differences(lanes, plan_sql.plan(lanes)))


def test_lanes_planned_together_are_planned_as_alone() -> None:
    lanes = random_lanes(300)[:3]
    assert plan_sql.plan(lanes) == [plan for case in lanes for plan in plan_sql.plan([case])]


def test_the_comparison_fails_without_any_of_the_rules() -> None:
    lanes = random_lanes(300)
    needless = []
    for update in UPDATES:
        others = [statement for statement in plan_sql.STATEMENTS if statement != update]
        if not any(_differences(lanes, plan_sql.plan(lanes, others))):
            needless.append(update)
    assert not needless
