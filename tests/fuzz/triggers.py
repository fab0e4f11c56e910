"""Random tables and statements in two databases, one with triggers of ``ddl``.

A statement must give the same result in both: rows, number of rows, text of the error.  What the log says,
told event by event, must be the rows of the table at the end.
"""

from __future__ import annotations

import base64
import random
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from click.testing import CliRunner

from publisher.cli.main import cli

Row = dict[str, str | None]
STYLES = ("per-field", "per-field", "per-field", "per-row", "query-back")


@dataclass(frozen=True)
class Type:
    """A type of a column; ``text`` is SQL of a value's text in the log, ``None`` if that is not compared."""

    sql: str
    values: tuple[str, ...]
    text: str | None = "CAST({} AS CHAR)"
    may_be_key: bool = True


TEXTS = (
    "'a'",
    "'A'",
    "''",
    "' b '",
    "'x=1+y=\"2\"'",
    "'ö,;<>'",
    "'it''s'",
    "'%s %(x)s :b'",
    "'a\nb'",
)
NUMBERS = ("0", "1", "-7", "42", "2147483647", "1 + 1", "NULL")
TYPES: dict[str, tuple[Type, ...]] = {
    "postgresql": (
        Type("integer", (*NUMBERS, "2147483648", "'x'"), "concat({})"),
        Type("bigint", NUMBERS, "concat({})"),
        Type("numeric(8,2)", ("1", "1.50", "-0.00", "99999999", "'NaN'", "NULL"), "concat({})"),
        Type("varchar(12)", (*TEXTS, "'longer than twelve'", "NULL"), "concat({})"),
        Type("text", (*TEXTS, "repeat('long ', 500)", "NULL"), "concat({})"),
        Type("char(4)", ("'a'", "'abcd'", "''", "'abcde'", "NULL"), "concat({})"),
        Type("boolean", ("true", "false", "NULL", "'maybe'"), "{}::text"),
        Type("date", ("'2024-02-29'", "'infinity'", "'0044-03-15 BC'", "'2023-02-29'", "NULL"), "concat({})"),
        Type("timestamp", ("'2024-02-29 01:02:03.4'", "'-infinity'", "NULL"), "concat({})"),
        Type("timestamptz", ("'2024-02-29 01:02:03+05'", "'epoch'", "NULL"), "concat({})"),
        Type("time", ("'01:02:03'", "'24:00'", "NULL"), "concat({})"),
        Type("interval", ("'1 day 2 hours'", "'1 mon'", "NULL"), "concat({})"),
        Type("float8", ("0.1", "1e300", "'Infinity'", "'NaN'", "NULL"), "concat({})"),
        Type("bytea", (r"'\x00ff'", "''", "decode(repeat('ab', 300), 'hex')", "NULL"),
             "replace(encode({}, 'base64'), chr(10), '')"),
        Type("uuid", ("'123e4567-e89b-12d3-a456-426655440000'", "'x'", "NULL"), "concat({})"),
        Type("inet", ("'10.0.0.1'", "'10.0.0.0/8'", "'::1'", "NULL"), "concat({})"),
        Type("jsonb", ("'{\"a\": [1]}'", "'null'", "'{'", "NULL"), "concat({})"),
        Type("integer[]", ("'{1,NULL,3}'", "'{}'", "NULL"), "concat({})"),
        Type("int4range", ("'[1,5)'", "'empty'", "NULL"), "concat({})"),
        Type("mood", ("'sad'", "'so, so'", "'none'", "NULL"), "concat({})"),
        Type("small", ("1", "99", "100", "NULL"), "concat({})"),
        Type("xml", ("'<a/>'", "'<a'", "NULL"), "concat({})", may_be_key=False),
        Type("point", ("'(1,2)'", "NULL"), "concat({})", may_be_key=False),
    ),
    "mariadb": (
        Type("int", (*NUMBERS, "2147483648", "'x'")),
        Type("bigint unsigned", (*NUMBERS, "18446744073709551615")),
        Type("decimal(8,2)", ("1", "1.50", "-0.00", "99999999", "NULL")),
        Type("varchar(12)", (*TEXTS, "'longer than twelve'", "NULL")),
        Type("varchar(12) character set latin1", (*TEXTS, "'žluť'", "NULL")),
        Type("text", (*TEXTS, "repeat('long ', 500)", "NULL"), may_be_key=False),
        Type("char(4)", ("'a'", "'abcd'", "''", "'abcde'", "NULL")),
        Type("date", ("'2024-02-29'", "'0000-00-00'", "'2024-00-00'", "'2023-02-29'", "NULL")),
        Type("datetime(3)", ("'2024-02-29 01:02:03.4'", "0", "NULL")),
        Type("timestamp", ("'2024-02-29 01:02:03'", "0", "NULL"), None),
        Type("time", ("'01:02:03'", "'-838:59:59'", "'900:00:00'", "NULL")),
        Type("year", ("2024", "0", "1900", "NULL")),
        Type("double", ("0.1", "1e300", "1e400", "NULL"), may_be_key=False),
        Type("tinyint(1)", ("0", "1", "2", "200", "NULL"), None),
        Type("bit(9)", ("0", "b'101'", "600", "NULL"), None),
        Type("varbinary(12)", ("x'00ff'", "''", "x'000102030405060708090a0b0c'", "NULL"),
             "REPLACE(TO_BASE64({}), CHAR(10), '')"),
        Type("blob", ("x'00ff'", "repeat(x'ab', 300)", "NULL"),
             "REPLACE(TO_BASE64({}), CHAR(10), '')", may_be_key=False),
        Type("enum('a','b,c')", ("'a'", "'b,c'", "'z'", "1", "NULL")),
        Type("set('x','y')", ("'x'", "'x,y'", "''", "'q'", "NULL")),
        Type("json", ("'{\"a\": [1]}'", "'{'", "NULL"), may_be_key=False),
        Type("uuid", ("'123e4567-e89b-12d3-a456-426655440000'", "'x'", "NULL")),
        Type("inet6", ("'::1'", "'10.0.0.1'", "'x'", "NULL")),
        Type("point", ("point(1, 2)", "'x'", "NULL"), None, may_be_key=False),
        Type("longblob", ("repeat('x', 13000000)", "'a'", "NULL"), None, may_be_key=False),
    ),
    "sqlite": (
        Type("INTEGER", (*NUMBERS, "'x'", "1.5"), "CAST({} AS TEXT)"),
        Type("TEXT", (*TEXTS, "x'00ff'", "7", "NULL"), "CAST({} AS TEXT)"),
        Type("VARCHAR(12)", (*TEXTS, "'longer than twelve'", "NULL"), "CAST({} AS TEXT)"),
        Type("NUMERIC(8,2)", ("1", "1.5", "'abc'", "99999999", "NULL"), "CAST({} AS TEXT)"),
        Type("DATE", ("'2024-02-29'", "'never'", "NULL"), "CAST({} AS TEXT)"),
        Type("REAL", ("0.1", "1e300", "9e999", "NULL"), None),
        Type("BOOLEAN", ("0", "1", "2", "'t'", "NULL"), None),
        Type("BLOB", ("x'00ff'", "x''", "zeroblob(300)", "'text'", "NULL"), "base64"),
        Type("", ("1", "'a'", "x'00ff'", "NULL"), None),
    ),
}  # fmt: skip
"""Types with values, some of which the database refuses."""
_UNLINKED = ("mood", "small", "BLOB", "varbinary(12)")
"""Types of keys that no child table refers to."""


@dataclass
class Table:
    """A random table."""

    name: str
    key: dict[str, Type]
    columns: dict[str, Type]
    generated: tuple[str, ...] = ()
    create: list[str] = field(default_factory=list)
    child: str | None = None
    """A child table with columns ``link`` and ``v``."""


class Session:
    """One connection that commits each statement; SQL begins and ends transactions."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind, self.url = kind, url
        self._engine = sa.create_engine(url, poolclass=sa.NullPool)
        self._raw = self._engine.raw_connection()
        driver: Any = self._raw.driver_connection
        self.database = sa.make_url(url).database or ""
        if kind == "sqlite":
            driver.isolation_level = None
            driver.text_factory = lambda raw: raw.decode(errors="surrogateescape")
        elif kind == "mariadb":
            driver.autocommit(True)
        else:
            driver.autocommit = True
        self._cursor = driver.cursor()

    def run(self, statement: str) -> tuple[str, object, Any]:
        """The result of a statement: rows or the text of its error."""
        try:
            self._cursor.execute(statement)
            rows = list(self._cursor.fetchall()) if self._cursor.description else None
        except Exception as error:  # noqa: BLE001 -- errors are results
            text = str(error.args[-1] if self.kind == "mariadb" else error)
            return "failed", type(error).__name__, text.replace(self.database, "DATABASE")
        count: object = self._cursor.rowcount
        if statement.startswith("REPLACE"):
            count = (
                None  # MariaDB counts a row that replaces an equal one twice if there are triggers
            )
        elif self.kind == "mariadb":
            count = count, self._cursor.lastrowid
        return "done", count, rows

    def rows(self, statement: str) -> list[Any]:
        """The rows of a query, which must not fail."""
        state, problem, rows = self.run(statement)
        assert state == "done", (statement, problem, rows)
        found: list[Any] = rows
        return found

    def close(self) -> None:
        self._raw.close()
        self._engine.dispose()


@contextmanager
def two_databases(kind: str, url: str | None) -> Iterator[tuple[Session, Session]]:
    """Two empty databases: without and with triggers."""
    with tempfile.TemporaryDirectory(prefix="xds-triggers-") as folder:
        urls = []
        for name in ("xds_plain", "xds_logged"):
            if url is None:
                urls.append(f"sqlite:///{Path(folder) / name}.db")
                continue
            engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
            with engine.connect() as connection:
                connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name}")
                connection.exec_driver_sql(f"CREATE DATABASE {name}")
            urls.append(sa.make_url(url).set(database=name).render_as_string(hide_password=False))
        sessions = [Session(kind, each) for each in urls]
        for session in sessions:
            if kind == "postgresql":
                session.run("CREATE TYPE mood AS ENUM ('sad', 'so, so')")
                session.run("CREATE DOMAIN small AS integer CHECK (VALUE < 100)")
                session.run("SET timezone TO 'UTC'")
            elif kind == "mariadb":
                session.run("SET time_zone = '+00:00'")
                # NULL in a column of the type timestamp is the present second, which may differ
                session.run("SET timestamp = 1770000000")
            else:
                session.run("PRAGMA recursive_triggers = ON")
                session.run("PRAGMA foreign_keys = ON")
                session.run("PRAGMA synchronous = OFF")
        try:
            yield sessions[0], sessions[1]
        finally:
            for session in sessions:
                session.close()
            if url is not None:
                with engine.connect() as connection:
                    for name in ("xds_plain", "xds_logged"):
                        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name}")


class Trial:
    """Some random tables of one database, logged by one command."""

    def __init__(self, kind: str, rng: random.Random, number: int, tables: int) -> None:
        self.kind, self.rng = kind, rng
        self.style = rng.choice(STYLES)
        self.key_change = rng.choice(("delete-and-insert", "modify-association"))
        self.tables = [self._table(f"t{number}_{place}") for place in range(tables)]

    def quote(self, name: str) -> str:
        mark = "`" if self.kind == "mariadb" else '"'
        return mark + name.replace(mark, mark * 2) + mark

    def _table(self, name: str) -> Table:
        rng, types = self.rng, TYPES[self.kind]
        # SQLAlchemy warns of constraints on names with the quoting character of MariaDB
        quoted = 'q"' if self.kind == "mariadb" else 'q"`'
        name += rng.choice(("", "", " x", "ü", quoted, "_" + "long" * 11))
        keys = [type_ for type_ in types if type_.may_be_key]
        count = rng.choice((1, 1, 1, 2))
        key = {f"k{n}": types[0] if rng.random() < 0.4 else rng.choice(keys) for n in range(count)}
        columns = {
            rng.choice((f"c{n}", f"C {n}", f"old_key{n}")): rng.choice(types)
            for n in range(rng.randrange(5))
        }
        table = Table(name, key, columns)
        parts = [
            f"{self.quote(column)} {type_.sql}{self._constraint(table, column, type_)}"
            for column, type_ in (key | columns).items()
        ]
        number = next((c for c, t in columns.items() if t is types[0]), None)
        if number is not None and rng.random() < 0.5:
            kinds = ("STORED",) if self.kind == "postgresql" else ("STORED", "VIRTUAL")
            total = f"({self.quote(number)} / 2 + 1) {rng.choice(kinds)}"
            parts.append(f"total {types[0].sql} GENERATED ALWAYS AS {total}")
            table.generated = ("total",)
        parts.append(f"PRIMARY KEY ({', '.join(map(self.quote, key))})")
        end = ""
        if rng.random() < 0.15 and (self.kind == "sqlite" or "UNIQUE" not in " ".join(parts)):
            end = {
                "postgresql": f" PARTITION BY HASH ({self.quote('k0')})",
                "mariadb": " PARTITION BY KEY () PARTITIONS 3",
                "sqlite": " WITHOUT ROWID",
            }[self.kind]
        place = self.quote(name)
        table.create.append(f"CREATE TABLE {place} ({', '.join(parts)}){end}")
        if end and self.kind == "postgresql":
            table.create += [
                f"CREATE TABLE {self.quote(name[:40] + f'_p{n}')} PARTITION OF {place}"
                f" FOR VALUES WITH (MODULUS 2, REMAINDER {n})"
                for n in (0, 1)
            ]
        elif not end and count == 1 and key["k0"].sql not in _UNLINKED and rng.random() < 0.3:
            self._add_child(table)
        return table

    def _constraint(self, table: Table, column: str, type_: Type) -> str:
        rng, is_key = self.rng, column in table.key
        if not is_key and rng.random() < 0.15:
            # PyMySQL cannot read the definition of a table with a default of other bytes than UTF-8
            is_binary = type_.sql.startswith("varbinary") or not type_.may_be_key
            if self.kind == "mariadb" and is_binary:
                return " NOT NULL"
            return rng.choice((" NOT NULL", " UNIQUE", f" DEFAULT {type_.values[0]}"))
        if self.kind == "sqlite" and is_key and rng.random() < 0.3:
            return " NOT NULL"
        if self.kind == "mariadb" and type_.sql == "int" and table.key == {column: type_}:
            return rng.choice(("", " AUTO_INCREMENT"))
        if self.kind == "mariadb" and type_.sql == "timestamp":
            return " NOT NULL DEFAULT '2024-01-01'" if is_key else " NULL"
        return ""

    def _add_child(self, table: Table) -> None:
        rng, name = self.rng, table.name
        table.child = f"child of {name}"[:60]
        action = rng.choice(("", " ON DELETE CASCADE", " ON DELETE SET NULL"))
        action += rng.choice(("", " ON UPDATE CASCADE")) if self.kind != "mariadb" else ""
        if self.kind == "postgresql" and rng.random() < 0.3:
            action += " DEFERRABLE INITIALLY DEFERRED"
        columns = f"link {table.key['k0'].sql}, v varchar(12)"
        link = f"FOREIGN KEY (link) REFERENCES {self.quote(name)} (k0)"
        table.create += [
            f"CREATE TABLE {self.quote(table.child)} ({columns}, {link}{action})",
            f"CREATE INDEX {self.quote('i ' + name[:50])} ON {self.quote(table.child)} (link)",
        ]

    def value(self, type_: Type) -> str:
        return self.rng.choice(type_.values)

    def row(self, table: Table) -> tuple[str, str]:
        """Names and values of a random row."""
        chosen = {
            name: type_
            for name, type_ in (table.key | table.columns).items()
            if self.rng.random() < (0.97 if name in table.key else 0.8)
        } or table.key
        names = ", ".join(map(self.quote, chosen))
        return names, ", ".join(map(self.value, chosen.values()))

    def condition(self, table: Table) -> str:
        name = self.rng.choice(list(table.key | table.columns))
        type_ = (table.key | table.columns)[name]
        if type_.sql in ("xml", "point", "json", "jsonb") or self.rng.random() < 0.2:
            return self.rng.choice(("1 = 1", f"{self.quote(name)} IS NOT NULL"))
        operator = self.rng.choice(("=", "=", "<>", ">"))
        return f"{self.quote(name)} {operator} {self.value(type_)}"

    def change(self, table: Table) -> str:
        """Assignments of an update."""
        all_columns = table.key | table.columns
        names = self.rng.sample(
            list(all_columns), min(len(all_columns), self.rng.choice((1, 1, 2)))
        )
        parts = []
        for name in names:
            value = self.value(all_columns[name])
            # SQLite changes rows in another order if there are triggers
            has_order = self.kind == "sqlite" and name in table.key
            if (
                all_columns[name] is TYPES[self.kind][0]
                and not has_order
                and self.rng.random() < 0.4
            ):
                value = f"{self.quote(name)} + 1"
            parts.append(f"{self.quote(name)} = {value}")
        return ", ".join(parts)

    def statement(self, table: Table) -> list[str]:
        """A random statement, or a transaction of some."""
        if self.rng.random() < 0.15:
            inner = [s for _ in range(self.rng.randrange(1, 4)) for s in self._single(table)]
            if self.rng.random() < 0.3:
                inner = [*inner[:1], "SAVEPOINT s", *inner[1:], "ROLLBACK TO SAVEPOINT s"]
            return ["BEGIN", *inner, self.rng.choice(("COMMIT", "COMMIT", "ROLLBACK"))]
        return self._single(table)

    def _single(self, table: Table) -> list[str]:
        place, rng = self.quote(table.name), self.rng
        if table.child is not None and rng.random() < 0.4:
            return [self._child_statement(table, self.quote(table.child))]
        names, values = self.row(table)
        insert = one = f"INTO {place} ({names}) VALUES ({values})"
        # BEFORE triggers of parents precede what SQLite then leaves or replaces
        fails, replaces = ("OR FAIL", "OR REPLACE") if table.child is None else ("", "")
        _, more = self.row(table)
        # SQLite without triggers keeps the first rows of an INSERT of which a later one has another type
        if self.kind != "sqlite" and more.count(", ") == values.count(", ") and rng.random() < 0.2:
            insert += f", ({more})"
        where, change = self.condition(table), self.change(table)
        key = ", ".join(map(self.quote, table.key))
        matched = "t.k0 = s.k0 WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT "
        matched += f"({names}) VALUES ({values})"
        common = [
            *[f"INSERT {insert}"] * 6,
            *[f"UPDATE {place} SET {change} WHERE {where}"] * 4,
            f"UPDATE {place} SET {change}",
            f"DELETE FROM {place} WHERE {where}",
            f"INSERT {insert} RETURNING *",
            f"DELETE FROM {place} WHERE {where} RETURNING {key}",
            f"INSERT INTO {place} ({names}) SELECT {names} FROM {place}",
        ]
        own = {
            "postgresql": [
                *[f"INSERT {insert} ON CONFLICT DO NOTHING"] * 2,
                *[f"INSERT {insert} ON CONFLICT ({key}) DO UPDATE SET {change.split(', ')[0]}"] * 3,
                f"UPDATE {place} SET {change} WHERE {where} RETURNING *",
                f"MERGE INTO {place} AS t USING (SELECT {values}) AS s ({names}) ON {matched}",
                f"TRUNCATE {place}",
                f"TRUNCATE {place} CASCADE",
            ],
            "mariadb": [
                *[f"REPLACE {insert}"] * 3,
                *[f"INSERT IGNORE {insert}"] * 2,
                *[f"INSERT {insert} ON DUPLICATE KEY UPDATE {change}"] * 3,
                f"UPDATE IGNORE {place} SET {change} WHERE {where}",
                f"DELETE FROM {place} LIMIT 1",
                f"UPDATE {place} SET {change} ORDER BY k0 DESC",
                "SET sql_mode = ''",
                "SET sql_mode = DEFAULT",
                "SELECT LAST_INSERT_ID()",
            ],
            "sqlite": [
                *[f"INSERT OR REPLACE {insert}"] * 2,
                f"UPDATE {replaces} {place} SET {change} WHERE {where}",
                f"INSERT OR IGNORE {one}",
                f"INSERT {insert} ON CONFLICT DO NOTHING",
                f"INSERT {insert} ON CONFLICT ({key}) DO UPDATE SET {change.split(', ')[0]}",
                f"UPDATE {fails} {place} SET {change}",
                "SELECT changes()",
            ],
        }[self.kind]
        return [rng.choice(common + own)]

    def _child_statement(self, table: Table, child: str) -> str:
        link, value = self.value(table.key["k0"]), self.rng.choice(TEXTS)
        return self.rng.choice((
            *[f"INSERT INTO {child} SELECT k0, {value} FROM {self.quote(table.name)}"] * 2,
            f"INSERT INTO {child} VALUES ({link}, {value})",
            f"UPDATE {child} SET v = {value}",
            f"UPDATE {child} SET link = {link}",
            f"DELETE FROM {child} WHERE v = {value}",
        ))  # fmt: skip


def run_trial(
    trial: Trial, plain: Session, logged: Session, statements: int
) -> tuple[int, str | None]:
    """Runs random statements; returns the number of tables, and what was wrong."""
    made = []
    for table in trial.tables:
        results = [[session.run(sql) for sql in table.create] for session in (plain, logged)]
        if all(state == "done" for state, *_ in results[1]):
            made.append(table)
    words = []
    for table in made:
        quoted = table.name.replace('"', '""')
        words += ["--table", f'"{quoted}"']
    words += ["--style", trial.style, "--key-change", trial.key_change, "--apply"]
    outcome = CliRunner().invoke(cli, ["ddl", "--database", logged.url, *words])
    if outcome.exit_code:
        creates = "\n".join(sql for table in made for sql in table.create)
        return 0, f"ddl ended with {outcome.exit_code}: {outcome.output}\n{creates}"
    for table in made:
        problem = _try_table(trial, table, plain, logged, statements)
        if problem is not None:
            return len(made), problem
    for table in made:
        for session in (plain, logged):
            for name in (table.child, table.name):
                if name is not None:
                    session.run(f"DROP TABLE {trial.quote(name)}")
    return len(made), None


def _try_table(
    trial: Trial, table: Table, plain: Session, logged: Session, statements: int
) -> str | None:
    """Runs random statements on a table; returns what was wrong, with all statements."""
    log_before, history, problem = _last_id(logged), [], None
    for _ in range(statements):
        for sql in trial.statement(table):
            history.append(sql[:300])
            both = plain.run(sql), logged.run(sql)
            if repr(both[0]) != repr(both[1]):  # NaN differs from itself
                problem = problem or f"{sql[:300]}: {both[0]} became {both[1]} with triggers"
    try:
        _compare(trial, table, plain, logged, log_before)
    except AssertionError as error:
        problem = problem or f"{error}"[:2000]
    if problem is None:
        return None
    return "\n".join([problem, trial.style, trial.key_change, *table.create, *history])


def _last_id(session: Session) -> int:
    return int(session.rows("SELECT coalesce(max(record_id), 0) FROM event_log")[0][0])


def _compare(trial: Trial, table: Table, plain: Session, logged: Session, after: int) -> None:
    """Compares both tables with each other, and the log with the rows.  Raises ``AssertionError``."""
    for session in (plain, logged):
        session.run("ROLLBACK")
    rows = _texts(trial, table, logged)
    assert _texts(trial, table, plain) == rows, "the tables differ"
    if any(type_.text is None for type_ in table.key.values()):
        return
    padded = {name for name, type_ in table.key.items() if type_.sql == "char(4)"}
    objects = replay(logged, after, padded, is_per_field=trial.style == "per-field")
    known: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        if all(row[name] is not None for name in table.key):
            key = "+".join(
                f"{name}={_quoted(_unpadded(table.key[name], row[name]))}" for name in table.key
            )
            values = {
                n: {v} for n in (*table.columns, *table.generated) if (v := row[n]) is not None
            }
            known[key] = values
    if table.child is not None:
        type_ = table.key["k0"]
        sql = f"SELECT {_or_null(type_, 'link')}, v FROM {trial.quote(table.child)} WHERE v IS NOT NULL"
        for link, value in logged.rows(sql):
            if link is not None:
                key = f"k0={_quoted(_unpadded(type_, link))}"
                assert key in known, f"a child row of {key}, but the table has {sorted(known)}"
                known[key].setdefault("v", set()).add(value)
    assert set(objects) == set(known), f"the log has {sorted(objects)}, the table {sorted(known)}"
    uncompared = {name for name, type_ in table.columns.items() if type_.text is None}
    for key, told in objects.items():
        if told is not None and trial.style == "per-field":
            one, other = (
                {name: texts for name, texts in side.items() if texts and name not in uncompared}
                for side in (told, known[key])
            )
            assert one == other, f"{key}: the log has {one}, the table {other}"


def _text(type_: Type, quoted: str) -> str:
    return quoted if type_.text in (None, "base64") else type_.text.format(quoted)


def _or_null(type_: Type, quoted: str) -> str:
    return f"CASE WHEN {quoted} IS NOT NULL THEN {_text(type_, quoted)} END"


def _texts(trial: Trial, table: Table, session: Session) -> list[Row]:
    types = table.key | table.columns | dict.fromkeys(table.generated, TYPES[trial.kind][0])
    columns = ", ".join(_or_null(type_, trial.quote(name)) for name, type_ in types.items())
    found = session.rows(f"SELECT {columns} FROM {trial.quote(table.name)}")
    return sorted(
        (
            {n: _shown(value, types[n]) for n, value in zip(types, row, strict=True)}
            for row in found
        ),
        key=repr,
    )


def _shown(value: Any, type_: Type) -> str | None:
    if type_.text == "base64" and value is not None:
        value = base64.b64encode(value if isinstance(value, bytes) else str(value).encode())
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return None if value is None else str(value)


def _unpadded(type_: Type, text: str | None) -> str:
    assert text is not None
    return text.rstrip(" ") if type_.sql == "char(4)" else text


def _quoted(text: str) -> str:
    if text and not re.search("[,;'+\"=\\\\<>\0]", text) and text == text.strip(" \t\r\n"):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_PART = re.compile(r'([^=+]+)=("(?:[^"\\]|\\.)*"|[^+]*)(?:\+|$)', re.DOTALL)


def replay(
    session: Session, after: int, padded: set[str], *, is_per_field: bool
) -> dict[str, dict[str, set[str]] | None]:
    """The values of objects by key as events tell them; ``None`` for objects that have to be looked up."""
    objects: dict[str, dict[str, set[str]] | None] = {}
    sql = "SELECT table_key, event_type, column_name, old_value, new_value FROM event_log"
    last = ""
    for key, event_type, column, old, new in session.rows(
        f"{sql} WHERE record_id > {after} ORDER BY record_id"
    ):
        event = (key, event_type, column, old, new)
        parts = dict(_PART.findall(key))
        if "" in parts.values():
            continue  # NULL: rejected
        if event_type in (1, 5, 7):
            assert key not in objects or last == key, f"{event} of an object that exists"
            values = objects.setdefault(key, {})
        else:
            assert key in objects, f"{event} of an object that does not exist"
            values = objects[key]
        last = key
        if event_type == 4:
            del objects[key]
            last = ""
        elif event_type == 2 and column in parts:
            text = new.rstrip(" ") if column in padded else new
            renamed = "+".join(
                f"{name}={_quoted(text) if name == column else value}"
                for name, value in parts.items()
            )
            assert renamed not in objects, f"{event}: an object has the new key"
            objects[renamed] = objects.pop(key)
        elif event_type >= 5 or not is_per_field:
            objects[key] = None
        elif values is not None:
            texts = values.setdefault(column, set())
            if old is not None:
                # equal child rows that one statement changes log the removal of their value twice
                assert old in texts or column == "v", f"{event}: the object has {texts}"
                texts.discard(old)
            if new is not None:
                texts.add(new)
    return objects


def try_tables(
    kind: str, url: str | None, tables: int, seed: str, statements: int = 15
) -> list[str]:
    """Tries random tables; returns what was wrong."""
    problems: list[str] = []
    number = done = 0
    with two_databases(kind, url) as (plain, logged):
        while done < tables and len(problems) < 5:
            size = min(10, tables - done)
            trial = Trial(kind, random.Random(f"{seed} {kind} {number}"), number, size)
            made, problem = run_trial(trial, plain, logged, statements)
            if problem is not None:
                problems.append(f"{kind}, seed {seed!r}, trial {number}: {problem}")
            done, number = done + made, number + 1
    return problems
