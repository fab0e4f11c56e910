"""Connections and catalogues that are cached from run to run."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, event

from publisher.database.catalogue import Relation, catalogue_of
from publisher.database.connection_cache import ConnectionCache, keep_connections
from publisher.database.identity import identity_of
from publisher.errors import TableRefusedError
from publisher.formats.live.find_table import LiveTable, relation_of
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions
from tests.services.databases import Place


def relation(place: Place, cache: ConnectionCache, name: str = "usr") -> Relation | None:
    """The table as the next run sees it."""
    cache.run += 1
    return relation_again(place, name)


def relation_again(place: Place, name: str = "usr") -> Relation | None:
    """The table as the same run sees it."""
    with place.database() as database:
        return catalogue_of(database).relation(None, name)


def session(place: Place) -> int:
    """Number of the server's session."""

    def ask(connection: Connection) -> int:
        return int(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())

    with place.database() as database:
        return database.run(ask)


def test_a_closed_database_leaves_its_connection_to_the_next(postgres: Place) -> None:
    with keep_connections():
        first = session(postgres)
        assert session(postgres) == first
        with postgres.database(), postgres.database() as other:
            assert other.run(lambda c: c.exec_driver_sql("SELECT 1").scalar_one()) == 1
    assert session(postgres) != first
    (still_open,) = postgres.query(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {first}")
    assert still_open == (0,)


def test_two_users_at_a_time_have_two_connections(postgres: Place) -> None:
    def ask_again(connection: Connection) -> tuple[int, int]:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        return int(pid), session(postgres)

    with keep_connections(), postgres.database() as database:
        outer, inner = database.run(ask_again)
    assert outer != inner


def test_a_connection_that_the_server_ended_is_replaced(postgres: Place) -> None:
    with keep_connections():
        first = session(postgres)
        postgres.query(f"SELECT pg_terminate_backend({first}, 5000)")
        assert session(postgres) != first


def test_an_unchanged_table_is_read_once(postgres: Place) -> None:
    postgres.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
    with keep_connections() as cache:
        relation(postgres, cache)
        second = relation(postgres, cache)  # the first run had no stamp to compare with
        assert relation(postgres, cache) is second
        postgres.execute("INSERT INTO usr VALUES (1, 'Jack')", "ANALYZE usr")
        assert relation(postgres, cache) is second


@pytest.mark.parametrize(
    ("change", "columns", "key"),
    [
        ("ALTER TABLE usr ADD COLUMN lname TEXT", ["idu", "fname", "lname"], ("idu",)),
        ("ALTER TABLE usr RENAME COLUMN fname TO lname", ["idu", "lname"], ("idu",)),
        ("ALTER TABLE usr DROP COLUMN fname", ["idu"], ("idu",)),
        ("ALTER TABLE usr DROP CONSTRAINT usr_pkey", ["idu", "fname"], ()),
        ("DROP TABLE usr; CREATE TABLE usr (a TEXT)", ["a"], ()),
        ('CREATE TABLE "USR" (b TEXT)', ["b"], ()),
    ],
)
def test_the_next_run_sees_a_changed_definition(
    postgres: Place, change: str, columns: list[str], key: tuple[str, ...]
) -> None:
    postgres.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(9))")
    with keep_connections() as cache:
        for _ in range(3):
            relation(postgres, cache, "USR" if "USR" in change else "usr")
        postgres.execute(*change.split("; "))
        changed = relation(postgres, cache, "USR" if "USR" in change else "usr")
    assert changed is not None
    assert list(changed.types) == columns
    assert changed.table.key == key


def read_identity(place: Place, cache: ConnectionCache) -> tuple[str | None, int]:
    """The identity of the table as the next run sees it, and the number of statements that ask for it."""
    cache.run += 1
    statements: list[str] = []
    with place.database() as database:
        usr = relation_of(database, LiveTable("usr"))
        stamp = catalogue_of(database).stamp

        def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            statements.append(statement)

        event.listen(database.engine, "before_cursor_execute", note)
        identity = identity_of(database, usr, stamp)
        event.remove(database.engine, "before_cursor_execute", note)
    return identity, len(statements)


def test_a_connection_reads_the_identity_of_an_unchanged_table_once(postgres: Place) -> None:
    postgres.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY)")
    with keep_connections() as cache:
        for _ in range(2):
            relation(postgres, cache)
        first, statements = read_identity(postgres, cache)
        assert first is not None
        assert statements == 1
        assert read_identity(postgres, cache) == (first, 0)
        postgres.query(f"SELECT pg_terminate_backend({session(postgres)}, 5000)")
        assert read_identity(postgres, cache) == (first, 1)
        postgres.execute("DROP TABLE usr", "CREATE TABLE usr (idu INTEGER PRIMARY KEY)")
        second, statements = read_identity(postgres, cache)
    assert second not in (None, first)
    assert statements == 1


def test_the_next_run_sees_a_new_type_of_a_column(postgres: Place) -> None:
    postgres.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(9))")
    with keep_connections() as cache:
        for _ in range(3):
            relation(postgres, cache)
        postgres.execute("ALTER TABLE usr ALTER COLUMN fname TYPE BYTEA USING NULL")
        changed = relation(postgres, cache)
    assert changed is not None
    assert changed.casts["fname"] == "bytea"


def test_the_next_run_sees_a_created_and_a_dropped_table(place: Place) -> None:
    with keep_connections() as cache:
        for _ in range(3):
            assert relation(place, cache) is None
        place.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY)")
        for _ in range(3):
            assert relation(place, cache) is not None
        place.execute("DROP TABLE usr")
        assert relation(place, cache) is None


def test_the_next_run_sees_a_new_index(place: Place) -> None:
    place.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(9))")
    with keep_connections() as cache:
        for names in ({"idu"}, {"idu"}, {"idu"}, {"idu", "fname"}):
            if len(names) == 2:
                place.execute("CREATE INDEX by_name ON usr (fname)")
            usr = relation(place, cache)
            assert usr is not None
            with place.database() as database:
                assert catalogue_of(database).index_columns(usr) == names


def test_a_change_during_a_run_waits_for_the_next(postgres: Place) -> None:
    """The tasks of a run agree on the columns of a table."""
    postgres.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY)")
    with keep_connections() as cache:
        for _ in range(3):
            before = relation(postgres, cache)
        postgres.execute("ALTER TABLE usr ADD COLUMN fname TEXT")
        assert relation_again(postgres) is before
        assert relation(postgres, cache) is not before


def test_a_child_table_that_appears_between_two_runs_is_found(postgres: Place) -> None:
    def children() -> list[str]:
        cache.run += 1
        with postgres.database() as database:
            tables = catalogue_of(database)
            classes = ClassCatalogue(tables, (), ClassOptions(), tables.keys_of)
            usr = classes.table(None, "usr")
            assert usr is not None
            return list(usr.children)

    postgres.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
    with keep_connections() as cache:
        assert children() == children() == []
        postgres.execute("CREATE TABLE usr_phone (idu INTEGER REFERENCES usr, phoneno TEXT)")
        assert children() == children() == ["usr_phone"]
        postgres.execute("ALTER TABLE usr_phone ADD COLUMN kind TEXT")
        assert children() == []  # refused: several columns of values
        postgres.execute("ALTER TABLE usr_phone DROP COLUMN kind")
        assert children() == ["usr_phone"]
        postgres.execute("ALTER TABLE usr_phone DROP CONSTRAINT usr_phone_idu_fkey")
        assert children() == []


def test_a_view_whose_columns_and_keys_change_between_two_runs_is_described_again(
    place: Place,
) -> None:
    def described() -> tuple[list[str], dict[str, str]] | str:
        cache.run += 1
        with place.database() as database:
            tables = catalogue_of(database)
            classes = ClassCatalogue(
                tables, (), ClassOptions(), tables.keys_of, tables.key_columns_of
            )
            try:
                view = classes.table(None, "view_usr")
            except TableRefusedError as refused:
                return refused.message
            assert view is not None
            targets = {name: reference.table for name, reference in view.references.items()}
            multiple = [name for name in view.columns if view.is_multiple(name)]
            return multiple, targets

    place.execute("CREATE VIEW view_usr AS SELECT 1 AS pk_idu, 'a' AS mv_a, 7 AS fk__idg__b")
    with keep_connections() as cache:
        assert "refers to idg, the key of no class" in str(described())
        place.execute("CREATE TABLE grp (idg INTEGER PRIMARY KEY)")
        assert described() == described() == (["a"], {"fk_b": "grp"})
        place.execute("CREATE VIEW view_grp AS SELECT 7 AS pk_idg")
        assert "refers to idg, the key of grp and view_grp" in str(described())
        place.execute("DROP VIEW view_grp")
        assert described() == (["a"], {"fk_b": "grp"})
        place.execute(
            "DROP VIEW view_usr", "CREATE VIEW view_usr AS SELECT 1 AS pk_idu, 'a' AS a, 2 AS mv_c"
        )
        assert described() == (["c"], {})
        place.execute("DROP VIEW view_usr", "CREATE VIEW view_usr AS SELECT 1 AS idu, 'a' AS a")
        assert "no column begins with pk_" in str(described())
