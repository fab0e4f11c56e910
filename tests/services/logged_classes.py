"""Logged classes with child tables and references: random transactions, and the objects that result."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from publisher.consumer import KnownObject
from publisher.model.keys import format_key
from publisher.triggers import Refs, Style, TableRef, TriggerPlan, install, plan
from tests.services.databases import Place
from tests.services.logged_tables import LOG, TakenBackError

TABLES = """
CREATE TABLE {p}dept (idd INTEGER PRIMARY KEY, name VARCHAR(40));
CREATE TABLE {p}grp (idg VARCHAR(20) NOT NULL PRIMARY KEY);
CREATE TABLE {p}usr (idu INTEGER PRIMARY KEY, fname VARCHAR(40), manager INTEGER, dept INTEGER,
  FOREIGN KEY (manager) REFERENCES {p}usr (idu) ON DELETE SET NULL,
  FOREIGN KEY (dept) REFERENCES {p}dept (idd) ON UPDATE CASCADE ON DELETE SET NULL);
CREATE TABLE {p}phone (idu INTEGER, phoneno VARCHAR(40),
  FOREIGN KEY (idu) REFERENCES {p}usr (idu) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE {p}member (idu INTEGER NOT NULL, idg VARCHAR(20),
  FOREIGN KEY (idu) REFERENCES {p}usr (idu) ON UPDATE CASCADE ON DELETE CASCADE,
  FOREIGN KEY (idg) REFERENCES {p}grp (idg) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE {p}mail (idu INTEGER NOT NULL, mail VARCHAR(40),
  FOREIGN KEY (idu) REFERENCES {p}usr (idu));
CREATE TABLE {p}alias (alias VARCHAR(40), idg VARCHAR(20),
  FOREIGN KEY (idg) REFERENCES {p}grp (idg) ON UPDATE CASCADE ON DELETE SET NULL);
CREATE TABLE {p}badge (idb INTEGER PRIMARY KEY, idu INTEGER,
  FOREIGN KEY (idu) REFERENCES {p}usr (idu) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE {p}door (idb INTEGER, door VARCHAR(40),
  FOREIGN KEY (idb) REFERENCES {p}badge (idb) ON DELETE CASCADE);
CREATE TABLE {p}guard (idg VARCHAR(20), badge INTEGER,
  FOREIGN KEY (idg) REFERENCES {p}grp (idg) ON UPDATE CASCADE,
  FOREIGN KEY (badge) REFERENCES {p}badge (idb) ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO {p}grp VALUES ('it'), ('hr;1');
INSERT INTO {p}dept VALUES (1, 'one'), (2, NULL)
"""
"""Child tables: ``phone``, ``member`` and ``mail`` of ``usr``, ``alias`` and ``guard`` of ``grp``, ``door``
of ``badge``."""

CLASSES = ("dept", "grp", "usr", "badge")
CHILDREN = ("phone", "member", "mail", "alias", "guard", "door")
NUMBERS = range(1, 7)
TEXTS = ("111", "222", "a, b", "é", " x", "")
GROUPS = ("it", "hr;1", "x+y", "ü")

ObjectTexts = dict[str, dict[str, set[str]]]
"""Values of the attributes of objects; a reference is the association of its target."""


class LoggedClasses:
    """The classes of one set of tables, whose names begin with ``prefix``."""

    def __init__(
        self, place: Place, prefix: str, style: Style, *, joins_keys: bool = False
    ) -> None:
        self.place, self.prefix = place, prefix
        *tables, groups, departments = TABLES.format(p=prefix).split(";\n")
        place.execute(*tables)
        refs = Refs(tuple(TableRef(None, prefix + name) for name in CLASSES), TableRef(None, LOG))
        database = place.database()
        self.plan: TriggerPlan = plan(database, refs, style, joins_keys=joins_keys)
        install(database, self.plan)
        place.execute(groups, departments)
        metadata = sa.MetaData()
        with place.engine.connect() as connection:
            self._tables = {
                name: sa.Table(prefix + name, metadata, autoload_with=connection)
                for name in (*CLASSES, *CHILDREN)
            }

    def work(self, rng: random.Random, steps: int) -> None:
        """One transaction of random changes; one of five is taken back."""
        actions: list[Callable[[random.Random], Any]] = [
            *[self._insert] * 4, self._delete, *[self._update] * 2, self._change_key,
            *[self._insert_child] * 5, *[self._update_child] * 2, self._delete_child,
        ]  # fmt: skip
        try:
            with self._transaction() as connection:
                for _ in range(steps):
                    statement = rng.choice(actions)(rng)
                    try:
                        with connection.begin_nested():
                            connection.execute(statement)
                    except IntegrityError:
                        pass  # a key that exists, a parent that does not, a row that is referred to
                if rng.random() < 0.2:
                    raise TakenBackError
        except TakenBackError:
            pass

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        with self.place.kept_engine.connect() as connection:
            if self.place.kind == "sqlite":
                driver: Any = connection.connection.driver_connection
                driver.isolation_level = None
                connection.exec_driver_sql("PRAGMA foreign_keys = ON")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if self.place.kind == "sqlite":
                    connection.exec_driver_sql("ROLLBACK")
                raise
            if self.place.kind == "sqlite":
                connection.exec_driver_sql("COMMIT")
            connection.commit()

    def _value(self, rng: random.Random, column: str) -> Any:
        if column in ("idu", "manager"):
            return rng.choice(NUMBERS)
        if column in ("idd", "dept", "idb", "badge"):
            return rng.choice(NUMBERS[:3])
        return rng.choice(GROUPS if column == "idg" else TEXTS)

    def _row(self, rng: random.Random, table: sa.Table) -> dict[str, Any]:
        return {
            column.name: None
            if column.nullable
            and rng.random() < (0.5 if column.name in ("manager", "dept") else 0.2)
            else self._value(rng, column.name)
            for column in table.columns
        }

    def _insert(self, rng: random.Random) -> Any:
        table = self._tables[rng.choice(CLASSES)]
        return table.insert().values(self._row(rng, table))

    def _update(self, rng: random.Random) -> Any:
        table = self._tables[rng.choice(("dept", "badge", "usr", "usr"))]
        key, *others = table.columns
        column = rng.choice(others)
        changed = table.update().values({column.name: self._row(rng, table)[column.name]})
        return changed.where(key <= self._value(rng, key.name)) if rng.random() < 0.9 else changed

    def _change_key(self, rng: random.Random) -> Any:
        table = self._tables[rng.choice(CLASSES)]
        key, *others = table.columns
        values = {key.name: self._value(rng, key.name)}
        if others and rng.random() < 0.5:
            values[others[0].name] = self._value(rng, others[0].name)
        return table.update().values(values).where(key == self._value(rng, key.name))

    def _delete(self, rng: random.Random) -> Any:
        table = self._tables[rng.choice(CLASSES)]
        (key,) = table.primary_key.columns
        return table.delete().where(key == self._value(rng, key.name))

    def _child(self, rng: random.Random) -> sa.Table:
        return self._tables[rng.choice(CHILDREN)]

    def _insert_child(self, rng: random.Random) -> Any:
        table = self._child(rng)
        rows = [self._row(rng, table) for _ in range(rng.choice((1, 1, 2)))]
        return table.insert().values(rows)

    def _where(self, rng: random.Random, table: sa.Table) -> Any:
        column = rng.choice(list(table.columns))
        value = self._value(rng, column.name)
        return column >= value if rng.random() < 0.3 else column == value

    def _update_child(self, rng: random.Random) -> Any:
        table = self._child(rng)
        row = self._row(rng, table)
        chosen = rng.sample(sorted(row), rng.choice((1, 1, 2)))
        return (
            table.update()
            .values({name: row[name] for name in chosen})
            .where(self._where(rng, table))
        )

    def _delete_child(self, rng: random.Random) -> Any:
        table = self._child(rng)
        return table.delete().where(self._where(rng, table))

    def objects(self) -> ObjectTexts:
        """The objects that the tables hold."""
        found: ObjectTexts = {}
        rows = {
            name: self.place.query(f"SELECT * FROM {self.prefix}{name}")
            for name in (*CLASSES, *CHILDREN)
        }
        for idd, name in rows["dept"]:
            found[self._key("dept", "idd", idd)] = {"name": {name}}
        for (idg,) in rows["grp"]:
            found[self._key("grp", "idg", idg)] = {
                self.prefix + "alias.alias": {alias for alias, of in rows["alias"] if of == idg},
                self.prefix + "guard.badge": {
                    badge and self._key("badge", "idb", badge)
                    for of, badge in rows["guard"]
                    if of == idg
                },
            }
        for idb, idu in rows["badge"]:
            found[self._key("badge", "idb", idb)] = {
                "idu": {idu and self._key("usr", "idu", idu)},
                self.prefix + "door.door": {door for of, door in rows["door"] if of == idb},
            }
        for idu, fname, manager, dept in rows["usr"]:
            found[self._key("usr", "idu", idu)] = {
                "fname": {fname},
                "manager": {manager and self._key("usr", "idu", manager)},
                "dept": {dept and self._key("dept", "idd", dept)},
                self.prefix + "phone.phoneno": {no for of, no in rows["phone"] if of == idu},
                self.prefix + "mail.mail": {mail for of, mail in rows["mail"] if of == idu},
                self.prefix + "member.idg": {
                    idg and self._key("grp", "idg", idg) for of, idg in rows["member"] if of == idu
                },
            }
        return {
            key: {name: some for name, values in attributes.items() if (some := values - {None})}
            for key, attributes in found.items()
        }

    def _key(self, table: str, column: str, value: object) -> str:
        key = format_key([(column, str(value))])
        schema = ",schema=public" if self.place.kind == "postgresql" else ""
        return f"{key},table={self.prefix}{table}{schema}"

    def known(self, objects: Mapping[str, KnownObject]) -> ObjectTexts:
        """A consumer's objects of these tables."""
        return {
            key: {
                name: {value.association_ref or value.text for value in values}
                for name, values in known.attributes.items()
            }
            for key, known in objects.items()
            if known.class_name.startswith(self.prefix)
        }
