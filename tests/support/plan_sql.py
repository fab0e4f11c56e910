"""A second oracle of planning: the SQL of the page on precedence and polls, run in DuckDB.

It shares no code with the program or with ``plan_oracle``.  The page defines which changes are
published, in which operations and documents; texts stay with ``plan_oracle``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from publisher.model.change import Change, Object
from tests.support.documentation import blocks, text_of
from tests.support.plan_cases import PlanCase
from tests.support.plan_oracle import Rules

STATEMENTS = [
    statement.strip()
    for block in blocks(text_of("explanation/precedence-and-polls.md"), "sql")
    for statement in block.rstrip(";\n").split(";\n")
]
"""The definition: tables, rules, and the query of the outcomes."""
WRITABLE = {
    "string": "[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*",
    "int": "[+-]?[0-9]+",
    "octet": "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
}
"""Texts that can be written, by type of value."""

Record = tuple[Any, ...]
Tables = dict[str, list[Record]]


@dataclass
class SqlPlan:
    """The plan of one lane."""

    fates: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    """Outcome, reason and the row of the cause, -1 for none, of each change that is not published."""
    documents: dict[int, dict[tuple[int, str], list[int]]] = field(default_factory=dict)
    """For each document, named by its first row: (first row, kind) of each operation, and its rows."""


def plan(cases: Sequence[PlanCase], statements: Sequence[str] = STATEMENTS) -> list[SqlPlan]:
    """Plans each case in a lane of its own, all of them at once."""
    plans = [SqlPlan() for _ in cases]
    with duckdb.connect(config={"threads": "1"}) as connection:
        for statement in statements:
            if statement.startswith("CREATE TABLE plan "):
                _fill(connection, cases)
            result = connection.execute(statement)
        records = result.fetchall()
    for lane, row, outcome, reason, cause, kind, operation, document in records:
        if outcome == "published":
            operations = plans[lane].documents.setdefault(document, {})
            operations.setdefault((operation, kind), []).append(row)
        else:
            plans[lane].fates[row] = (outcome, reason, -1 if cause is None else cause)
    return plans


def _fill(connection: duckdb.DuckDBPyConnection, cases: Sequence[PlanCase]) -> None:
    tables: Tables = defaultdict(list)
    for lane, case in enumerate(cases):
        _add_lane(tables, lane, case)
    for table, records in tables.items():
        columns = [pa.array(values) for values in zip(*records, strict=True)]
        connection.register("records", pa.table(columns, [f"c{n}" for n in range(len(columns))]))
        connection.execute(f"INSERT INTO {table} FROM records")
        connection.unregister("records")


def _add_lane(tables: Tables, lane: int, case: PlanCase) -> None:
    rules = case.rules
    sizes = (rules.poll_size, rules.poll_slack, rules.batch_size, rules.insert_query_back)
    limits = (rules.driver_user, rules.now, rules.first_position, rules.last_position)
    tables["setting"].append((lane, *sizes, *limits))
    columns: dict[Object, set[str]] = {}
    for change in case.changes:
        columns.setdefault(change.object, set()).update(change.columns)
    numbers = {obj: number for number, obj in enumerate(columns)}
    for change in case.changes:
        number = numbers[change.object]
        place = (change.row, change.position.high, change.rank, number, change.event_type)
        tables["change"].append((lane, *place, *_content(change, rules)))
    for obj, number in numbers.items():
        tables["object"].append((lane, number, obj.table in rules.excluded_tables))
        row = "no-database" if rules.current is None else rules.current[obj] or "row-gone"
        if isinstance(row, str):
            tables["look_up"].append((lane, number, row))
            row = {}
        for order, (name, value) in enumerate(row.items()):
            texts = value if isinstance(value, tuple) else (value,)
            problem = _first_problem((rules.kinds.get(name, "string"), text) for text in texts)
            tables["current_value"].append((lane, number, order, name, problem))
        for name in columns[obj] | row.keys():
            tables["object_column"].append((lane, number, name, *_flags(obj, name, rules)))


def _content(change: Change, rules: Rules) -> Record:
    (name,) = change.columns or (None,)
    (old,), (new,) = change.old or (None,), change.new or (None,)
    kind = rules.kinds.get(name, "string") if name else "string"
    names = [("string", text) for text in (change.object.table, change.object.key, name)]
    problem = _first_problem([*names, (kind, old), (kind, new)])
    return name, old, new, change.event_time, change.perpetrator, problem


def _flags(obj: Object, name: str, rules: Rules) -> tuple[bool, bool, bool]:
    """Says whether a column is excluded, is published with its row, and ends with a delete."""
    keys = {part.partition("=")[0] for part in obj.key.split("+")}
    is_excluded = name in rules.excluded_columns
    is_attribute = name not in keys and "." not in name
    if rules.attributes is not None:
        is_attribute = name in rules.attributes
    ends = name in rules.of_children and rules.child_after_delete == "ignore"
    return is_excluded, is_attribute and not is_excluded, ends


def _first_problem(values: Iterable[tuple[str, str | None]]) -> str | None:
    """The reason why one of the values, given with their types, cannot be written."""
    for kind, text in values:
        if text is not None and not re.fullmatch(WRITABLE[kind], text):
            return "forbidden-character" if kind == "string" else "value"
    return None
