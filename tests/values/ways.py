"""Publishes the values of many columns by every way, and reads how each of them ends."""

from __future__ import annotations

import json
import random
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from publisher.consumer import Add, AddValue, Modify, part_files, read_files
from tests.support.programs import start_program
from tests.values.servers import SETUP, Server

STYLES = {"field": "per-field", "row": "per-row", "query": "query-back"}
WAYS = (*STYLES, "compare")
TYPES = ("string", "decimal", "octet", "int", "state", "date", "time", "timestamp")


_ANY_VALUE = (
    "numeric",
    "real",
    "double precision",
    "text",
    "double",
    "float",
    "TEXT",
    "REAL",
    "NUMERIC",
)
_CHARACTERS = "aZ09 ,;+=<>&ä€Ж😀\t\n\r\u0085\u00a0"


DECLARED = ("none", *TYPES)


class Value(NamedTuple):
    """A value of the table: its row in the database, its column, and how SQL writes it."""

    row: int
    column: int
    literal: str


@dataclass(frozen=True, slots=True)
class TypeTable:
    """Types of one database with their values."""

    types: tuple[str, ...]
    kinds: tuple[str, ...]
    """Kind of each type's columns where nobody declares them."""
    values: tuple[Value, ...]

    @classmethod
    def read(cls, kind: str) -> TypeTable:
        """Reads the types of a database from ``types.toml``."""
        sections = tomllib.loads(Path(__file__).with_name("types.toml").read_text())[kind]
        lines = [
            (type_, name, values)
            for name, section in sections.items()
            for type_, values in section.items()
        ]
        cells = [
            (column, literal) for column, (_, _, values) in enumerate(lines) for literal in values
        ]
        return cls(
            tuple(type_ for type_, _, _ in lines),
            tuple(name for _, name, _ in lines),
            tuple(Value(row, *cell) for row, cell in enumerate(cells, 1)),
        )

    def with_random(self, rng: random.Random, count: int) -> TypeTable:
        """Adds random values to columns that take any number, or any text."""
        literals = {
            "decimal": lambda: str(rng.choice([1, -1]) * rng.random() * 10.0 ** rng.randint(-4, 7)),
            "string": lambda: f"'{''.join(rng.choices(_CHARACTERS, k=rng.randint(0, 12)))}'",
        }
        values = list(self.values)
        for column, (type_, kind) in enumerate(zip(self.types, self.kinds, strict=True)):
            if type_.split("(")[0] in _ANY_VALUE and kind in literals:
                first = len(values) + 1
                values += [
                    Value(row, column, literals[kind]()) for row in range(first, first + count)
                ]
        return replace(self, values=tuple(values))

    def name(self, value: Value) -> str:
        """Names a value as ``types.toml`` does."""
        return f"{self.types[value.column]} {value.literal}"


class Cell(NamedTuple):
    """A value on its way through the program."""

    way: str
    declared: str
    row: int


class Published(NamedTuple):
    """Type and text of a published value."""

    type: str
    text: str


class Rejected(NamedTuple):
    """Reason of a rejected record, and its message without the place."""

    reason: str
    detail: str


@dataclass(slots=True)
class Outcomes:
    """The ends of all cells, and the result of ``verify``."""

    declared: tuple[str, ...]
    texts: Mapping[int, str | None]
    """What the database itself prints, by row."""
    cells: dict[Cell, Published | Rejected] = field(default_factory=dict)
    tables: list[dict[str, Any]] = field(default_factory=list)
    """The tables of ``verify``."""
    problems: list[str] = field(default_factory=list)

    def add(self, cell: Cell, end: Published | Rejected) -> None:
        """Adds the end of a cell."""
        if cell in self.cells:
            self.problems.append(f"{cell}: {end} after {self.cells[cell]}")
        self.cells[cell] = end


def run(*words: str) -> str:
    """Runs the program; returns what it prints.  Fails if it refuses the command."""
    process = start_program([*words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, errors = process.communicate(timeout=500)
    assert process.returncode in (0, 3, 4), f"{words}: {process.returncode}\n{errors}\n{output}"
    return str(output)


def publish(
    server: Server, table: TypeTable, directory: Path, declared: tuple[str, ...]
) -> Outcomes:
    """Publishes all values by all ways in one run, and verifies them.

    Each row of a table has one value.  The tables of logs get the values by one update after their triggers.
    """
    _prepare(server, table, declared)
    for way, style in STYLES.items():
        tables = [word for name in declared for word in ("--table", f"{way}_{name}")]
        options = ["--style", style, "--log-table", f"log_{way}", "--apply"]
        run("ddl", "--database", server.url, *tables, *options)
    count = len(table.types)
    server.execute(server.fill(f"{way}_{name}", count) for way in STYLES for name in declared)
    job = directory / "job.toml"
    job.write_text(_job(directory, server.hostile_url(), count, declared))
    run("publish", "-c", str(job))
    columns = {value.row: value.column for value in table.values}
    outcomes = Outcomes(declared, server.texts(columns, table))
    _read_documents(directory / "out", outcomes)
    _read_rejects(directory / "out", outcomes)
    verified = json.loads(run("verify", "-c", str(job), "--json", "--examples", "1000"))
    outcomes.tables = verified["outcome"]["tables"]
    return outcomes


def _prepare(server: Server, table: TypeTable, declared: Sequence[str]) -> None:
    statements = [*SETUP.get(server.kind, ())]
    statements += server.create("base", table.types, "SELECT 0" + ", NULL" * len(table.types))
    statements += [
        f"INSERT INTO base (id, c{value.column}) VALUES ({value.row}, {value.literal})"
        for value in table.values
    ]
    for name in declared:
        for way in STYLES:
            statements += server.create(f"{way}_{name}", table.types, "(id) SELECT id FROM base")
        statements += server.create(f"compare_{name}", table.types, "SELECT * FROM base")
    server.execute(statements)


def _job(directory: Path, url: str, count: int, declared: Sequence[str]) -> str:
    lines = []
    for way in STYLES:
        lines += ["[[sources]]", f'name = "{way}"', f'table = "log_{way}"']
    tables = [f"compare_{name}" for name in declared]
    lines += ["[[sources]]", 'name = "compare"', 'format = "triggerless"', f"tables = {tables}"]
    lines += ["[database]", f"url = {json.dumps(url)}"]
    lines += ["[dispatch]", f"path = {json.dumps(str(directory / 'out'))}"]
    lines += ["[ledger]", f"path = {json.dumps(str(directory / 'ledger_run'))}"]
    lines += ["[documents]", "time_syntax = 3", "[run]", 'engine = "local"']
    for way in WAYS:
        for name in declared[1:]:
            columns = ", ".join(f'c{place} = "{name}"' for place in range(count))
            lines += [f"[tables.{way}_{name}]", f"columns = {{{columns}}}"]
    return "\n".join(lines)


def _read_documents(directory: Path, outcomes: Outcomes) -> None:
    for delivery in read_files(part_files(directory)):
        for operation in delivery.operations:
            assert isinstance(operation, (Add, Modify))
            parts = dict(part.split("=", 1) for part in operation.association.split(","))
            cell = _cell(parts["table"], f"id={parts['id']}")
            for change in operation.changes:
                if isinstance(change, AddValue):
                    outcomes.add(cell, Published(str(change.value.type), change.value.text))


def _read_rejects(directory: Path, outcomes: Outcomes) -> None:
    for path in directory.glob("runs/*/rejects.jsonl"):
        for line in path.read_text().split("\n")[:-1]:
            record = json.loads(line)
            raw = json.loads(record["raw"])
            if "object" in raw:
                cell = _cell(raw["object"]["table"], raw["object"]["key"])
            elif "table_key" in raw:
                cell = _cell(raw["table_name"], raw["table_key"])
            else:
                table = record["position"].split(":")[0]
                cell = _cell(table, raw["key"] if "key" in raw else f"id={raw['id']}")
            outcomes.add(cell, Rejected(record["reason"], record["detail"]))


def _cell(table: str, key: str) -> Cell:
    way, _, declared = table.rsplit(".", maxsplit=1)[-1].partition("_")
    return Cell(way, declared, int(key.removeprefix("id=")))


def differences(table: TypeTable, outcomes: Outcomes) -> list[str]:
    """Lists values whose ends are not the same by all ways, or not what the database prints."""
    found = list(outcomes.problems)
    for value in table.values:
        for declared in outcomes.declared:
            ends = {way: outcomes.cells.get(Cell(way, declared, value.row)) for way in WAYS}
            name = f"{table.name(value)}, declared {declared}"
            compared = {end[0] if isinstance(end, Rejected) else end for end in ends.values()}
            if len(compared) > 1 or None in compared:
                found.append(f"{name}: {ends}")
            found += [
                f"{name}: {way} does not name c{value.column}: {end.detail}"
                for way, end in ends.items()
                if isinstance(end, Rejected) and f"c{value.column}" not in end.detail
            ]
            expected = _expected(table, value, outcomes.texts[value.row], declared)
            if expected is not None and ends["compare"] != expected:
                found.append(f"{name}: {ends['compare']}, but the database prints {expected}")
    return found + list(_verified(outcomes))


def _expected(table: TypeTable, value: Value, text: str | None, declared: str) -> Published | None:
    """Returns the end of a value whose text is published as the database prints it."""
    kind = table.kinds[value.column]
    assert text is not None
    if any(ord(character) in (*range(9), 0xFFFF) for character in text):
        return None  # XML forbids the character
    if declared == "string" or (declared == "none" and kind in ("string", "decimal")):
        return Published("string", text)
    if declared == "none" and kind == "octet":
        return Published("octet", text)
    if declared in ("none", "int") and kind == "int" and re.fullmatch("-?[0-9]+", text):
        return Published("int", str(int(text)))
    return None


def _verified(outcomes: Outcomes) -> Iterator[str]:
    """Lists what ``verify`` finds wrong; rejected values are never published."""
    rejected = Counter(
        f"{cell.way}_{cell.declared}"
        for cell, end in outcomes.cells.items()
        if isinstance(end, Rejected)
    )
    names = {f"{way}_{name}" for way in WAYS for name in outcomes.declared}
    if {table["table"].split(".")[-1] for table in outcomes.tables} != names:
        yield f"verify compares {[table['table'] for table in outcomes.tables]}"
    for table in outcomes.tables:
        name = table["table"].split(".")[-1]
        wrong = {
            kind: count for kind, count in table["counts"].items() if kind != "never-published"
        }
        if wrong:
            yield f"verify of {name}: {wrong} {table['attributes']} {table['examples']}"
        if table["unwritable"] + table["unreadable_rows"] != rejected[name]:
            counts = f"{table['unwritable']} + {table['unreadable_rows']}"
            yield f"verify of {name}: {counts} unwritable, but {rejected[name]} rejected"
