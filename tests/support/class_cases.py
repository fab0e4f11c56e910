"""Random databases of classes, and random event logs on their tables, named in every permitted way."""

from __future__ import annotations

import base64
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.support.class_oracle import (
    SCHEMA,
    Classes,
    ClassRules,
    DataRow,
    Link,
    LoggedEvent,
    PlainTable,
    Refused,
    quote,
)
from tests.support.event_log_files import Row, event
from tests.support.plan_oracle import Rules

TABLES = ["usr", "Grp", "a.b", 'q"t', "o'hara", "x y", "dept", "Stra\u00dfe"]
COLUMNS = ["v", "name", "y.x", "Note", 'c"d', "l'x", "usr.z", "\u00e9t\u00e9", "size", "b c"]
KEYS = ["id", "No", "k.y", 'k"', "part=", "k s"]
TEXTS = ["a", "A b", "x,y", 'q"', "<&>", "01", "\u00e9", " b", "\\"]
VALUES: dict[str, Sequence[str | None]] = {
    "int": [None, "1", "02", "3", "bad"],
    "string": [None, "", *TEXTS],
    "octet": [None, "", "qqo=", "AAEC"],
}
STORED: dict[str, Sequence[str]] = {
    "int": ["1", "2", "3", "10"],
    "string": TEXTS,
    "octet": ["qqo=", ""],
}
_TYPES = {"int": "INTEGER", "string": "TEXT", "octet": "BLOB"}


@dataclass(frozen=True)
class ClassCase:
    """A database, its settings, and a log."""

    classes: Classes
    rules: Rules
    events: list[LoggedEvent]
    rows: list[Row]
    """The events as they are logged."""


class CaseMaker:
    """Makes one case."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._names = self._rng.sample(TABLES, len(TABLES))
        self._tables: dict[str, PlainTable] = {}

    def case(self) -> ClassCase:
        rng = self._rng
        parents = [self._add_parent() for _ in range(rng.randint(1, 3))]
        for parent in parents:
            self._add_references(parent)
        is_list = rng.random() < 0.3
        for _ in range(rng.randint(0, 4)):
            self._add_child(parents, is_list)
        for table in self._tables.values():
            self._add_rows(table)
        classes = Classes(self._tables, self._class_rules(is_list))
        rules = Rules(
            poll_size=rng.choice([3, 7, 10_000]),
            poll_slack=rng.randint(0, 2),
            batch_size=rng.choice([1, 1, 1, 3]),
            insert_query_back=rng.choice(["modify", "add"]),
            child_after_delete=rng.choice(["ignore", "publish"]),
        )
        events, rows = [], []
        record_id = 0
        for _ in range(rng.randint(1, 30)):
            record_id += rng.choice([1, 1, 1, 2])
            meant = self._event(record_id, classes)
            events.append(meant)
            rows.append(EventWriter(rng, classes).row(meant))
        return ClassCase(classes, rules, events, rows)

    def _add(self, kinds: list[tuple[str, str]], key: Sequence[str], links: list[Link]) -> None:
        columns = self._rng.sample(kinds, len(kinds))
        name = self._names.pop()
        order = [column for column, _ in columns if column in key]
        self._tables[name] = PlainTable(name, dict(columns), tuple(order), links)

    def _add_parent(self) -> str:
        rng = self._rng
        key = rng.sample(KEYS, rng.choice([1, 1, 1, 2]))
        kinds = [(name, rng.choice(["int", "int", "string"])) for name in key]
        own = rng.sample(COLUMNS[:5], rng.randint(1, 3))
        kinds += [(name, rng.choice(["int", "string", "octet"])) for name in own]
        self._add(kinds, key, [])
        return list(self._tables)[-1]

    def _add_references(self, name: str) -> None:
        """Adds foreign keys to a class: to another one, to itself, to a column that is no key."""
        rng, table = self._rng, self._tables[name]
        for column in rng.sample(COLUMNS[5:8], rng.choice([0, 1, 1, 2])):
            target = self._tables[rng.choice(list(self._tables))]
            if len(target.key) > 1 and rng.random() < 0.7:
                continue
            targets = list(target.key) if rng.random() < 0.9 else list(target.kinds)[:1]
            names = [column, f"{column}2"][: len(targets)]
            kinds = {own: target.kinds[key] for own, key in zip(names, targets, strict=True)}
            items = list((table.kinds | kinds).items())
            table.kinds = dict(rng.sample(items, len(items)))
            table.key = tuple(column for column in table.kinds if column in table.key)
            table.links.append(Link(tuple(names), target.name, tuple(targets)))

    def _add_child(self, parents: list[str], is_list: bool) -> None:
        rng = self._rng
        parent = self._tables[rng.choice(parents)]
        targets = list(parent.key)
        if rng.random() < 0.1:
            targets = list(parent.kinds)[:1]
        same_name = rng.random() < 0.5
        link = [name if same_name else f"of {name}" for name in targets]
        kinds = {own: parent.kinds[key] for own, key in zip(link, targets, strict=True)}
        links = [Link(tuple(link), parent.name, tuple(targets))]
        is_keyed = is_list and rng.random() < 0.3
        counts = [1, 1, 1, 1, 2, 2] if is_keyed else [1, 1, 1, 1, 2, 2, 0]
        free = [column for column in COLUMNS if column not in kinds]
        for column in rng.sample(free, rng.choice(counts)):
            kinds[column] = rng.choice(["int", "string", "octet"])
            target = self._tables[rng.choice(parents)]
            if rng.random() < 0.4 and len(target.key) == 1:
                kinds[column] = target.kinds[target.key[0]]
                links.append(Link((column,), target.name, rng.choice([(), target.key])))
        if is_keyed:
            kinds["row"] = "int"
        self._add(list(kinds.items()), ["row"] if is_keyed else [], links)

    def _add_rows(self, table: PlainTable) -> None:
        rng = self._rng
        rows: dict[object, DataRow] = {}
        for number in range(rng.randint(0, 8)):
            row = {
                name: rng.choice([*STORED[kind], *([] if name in table.key else [None])])
                for name, kind in table.kinds.items()
            }
            rows[tuple(row[name] for name in table.key) or number] = row
        table.rows = list(rows.values())

    def _class_rules(self, is_list: bool) -> ClassRules:
        rng = self._rng
        keyed = [name for name, table in self._tables.items() if table.key]
        parents = [name for name in keyed if "row" not in self._tables[name].kinds]
        children = [name for name in self._tables if name not in parents]
        columns = {name for table in self._tables.values() for name in table.kinds}
        names = [*columns, *(f"{name}.{column}" for name in children for column in columns)]
        names += ["y", "usr", "a"]
        reads_rows = rng.random() < 0.5
        return ClassRules(
            listed=frozenset(rng.sample(parents, rng.randint(1, len(parents))))
            if is_list
            else None,
            declared=frozenset(name for name in children if name in keyed and rng.random() < 0.7),
            child_columns=rng.choice(["reject", "each"]),
            child_row_events="read" if reads_rows else "reject",
            enable_refs=rng.random() < 0.8,
            reference_text=rng.choice(["association", "key", "empty"]),
            excluded_tables=frozenset(rng.sample(TABLES, rng.choice([0, 0, 0, 1, 2]))),
            excluded_columns=frozenset(
                rng.sample(names, 0 if reads_rows else rng.choice([0, 1, 2]))
            ),
        )

    def _event(self, record_id: int, classes: Classes) -> LoggedEvent:
        rng = self._rng
        table = self._tables[rng.choice(list(self._tables))]
        try:
            parent = classes.parent_of(table) or table
        except Refused:
            parent = table
        of_child = parent is not table
        key = {name: rng.choice(STORED[parent.kinds[name]][:2]) for name in parent.key}
        kind = rng.choice([1, 1, 2, 2, 2, 3, 7, 8] if of_child else [1, 2, 2, 3, 4, 5, 6, 7, 8])
        if of_child and rng.random() < 0.1:
            kind = rng.choice([4, 5, 6])
        columns = classes.values_of(table) if of_child else _without_key(table)
        if kind in (4, 5, 6) or not columns:
            kind = kind if kind in (4, 5, 6) else 6
            return LoggedEvent(record_id, kind, table.name, key)
        column = rng.choice(columns)
        values = VALUES[table.kinds[column]]
        old, new = rng.choice(values), rng.choice(values)
        through = of_child and rng.random() < 0.5
        return LoggedEvent(
            record_id, kind, table.name, key, column, old, new, through, self._fault()
        )

    def _fault(self) -> str | None:
        if self._rng.random() > 0.06:
            return None
        return self._rng.choice(["column-name", "table-key"])


def _without_key(table: PlainTable) -> list[str]:
    return [name for name in table.kinds if name not in table.key]


class EventWriter:
    """Writes events as rows of a log, with one of the forms of each name."""

    def __init__(self, rng: random.Random, classes: Classes) -> None:
        self._rng = rng
        self._classes = classes

    def row(self, meant: LoggedEvent) -> Row:
        table = self._classes.tables[meant.table]
        named = table
        if meant.through_parent:
            assert table.owner is not None
            named = self._classes.tables[table.owner.table]
        column = None if meant.column is None else self._column(meant, table)
        if meant.fault == "column-name":
            others = [one for one in self._classes.tables.values() if one.key and one is not named]
            column = self._rng.choice(
                ["nope", "no.pe", f"{named.name}.nope", "nope.v"]
                + [f"{other.name}.{name}" for other in others for name in other.key]
            )
        return event(
            meant.record_id,
            event_type=meant.type,
            table_key=self._key(meant) or "x=1",
            table_name=self._table(named.name),
            column_name=column,
            old_value=meant.old,
            new_value=meant.new,
        )

    def _table(self, name: str) -> str:
        rng = self._rng
        forms = [self._quoted(name), f"{SCHEMA}.{self._quoted(name)}"]
        forms += [f'"{SCHEMA}".{self._quoted(name)}', f"hr.{SCHEMA}.{self._quoted(name)}"]
        if _is_plain(name):
            forms += [name, f"{SCHEMA}.{name}", self._in_any_case(name)]
        return rng.choice(forms)

    def _column(self, meant: LoggedEvent, table: PlainTable) -> str:
        assert meant.column is not None
        name, owner = meant.column, table.name
        last = name if _is_plain(name) else self._quoted(name)
        forms = [f"{self._quoted(owner)}.{last}", f"{SCHEMA}.{self._quoted(owner)}.{last}"]
        if _is_plain(owner):
            forms += [f"{owner}.{last}", f"{self._in_any_case(owner)}.{last}"]
        if meant.through_parent:
            forms.append(f"{owner}.{name}")
        else:
            forms += [name, self._in_any_case(name), f"{name} "]
        return self._rng.choice(forms)

    def _key(self, meant: LoggedEvent) -> str:
        rng = self._rng
        parts = []
        for name, value in rng.sample(list(meant.key.items()), len(meant.key)):
            column = f"of {name}" if meant.fault == "table-key" else self._in_any_case(name)
            text = quote(value)
            if text == value and value.isdigit():
                text = rng.choice([value, f'"{value}"', f" {value} "])
            parts.append(f"{quote(column)}={text}")
        return "+".join(parts)

    def _quoted(self, name: str) -> str:
        opening, closing = self._rng.choice([('"', '"'), ("[", "]"), ("`", "`")])
        return opening + name.replace(closing, closing * 2) + closing

    def _in_any_case(self, name: str) -> str:
        """The name in another case, if this is the same name in any language."""
        other = name.swapcase()
        same = other.lower() == name.lower() and other.isascii()
        return other if same and self._rng.random() < 0.3 else name


def _is_plain(name: str) -> bool:
    return not any(mark in name for mark in '."`[]')


def write_database(case: ClassCase, path: Path) -> str:
    """Creates the tables of a case in SQLite; returns the URL."""
    with closing(sqlite3.connect(path)) as connection:
        for table in case.classes.tables.values():
            connection.execute(_create(table))
            marks = ", ".join("?" for _ in table.kinds)
            connection.executemany(
                f"INSERT INTO {_sql(table.name)} VALUES ({marks})",
                [
                    [_stored(kind, row[name]) for name, kind in table.kinds.items()]
                    for row in table.rows
                ],
            )
        connection.commit()
    return f"sqlite:///{path}"


def _create(table: PlainTable) -> str:
    items = [f"{_sql(name)} {_TYPES[kind]}" for name, kind in table.kinds.items()]
    if table.key:
        items.append(f"PRIMARY KEY ({', '.join(map(_sql, table.key))})")
    for link in table.links:
        target = f" ({', '.join(map(_sql, link.target))})" if link.target else ""
        own = ", ".join(map(_sql, link.columns))
        items.append(f"FOREIGN KEY ({own}) REFERENCES {_sql(link.table)}{target}")
    return f"CREATE TABLE {_sql(table.name)} ({', '.join(items)})"


def _sql(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _stored(kind: str, text: str | None) -> object:
    if text is None or kind == "string":
        return text
    return int(text) if kind == "int" else base64.b64decode(text)
