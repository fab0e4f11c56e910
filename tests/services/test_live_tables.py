"""Reading an event log live: one moment, exact values, flat memory."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pyarrow as pa
import pytest
import sqlalchemy as sa

from publisher.database.connection import Database
from publisher.errors import FatalError, UnreachableError
from publisher.formats.live.find_table import LiveTable, describe
from publisher.formats.live.table_reader import moment, ranges, read
from publisher.formats.live.table_split import TableSplit
from publisher.xds.values import text_of
from tests.services.databases import Place

pytestmark = pytest.mark.usefixtures("reuse_connections")

LOG = LiveTable("log", order="record_id", where=("status", "N"))


def make_log(place: Place) -> None:
    place.execute(
        "CREATE TABLE log (record_id INTEGER, status CHAR(1), old_value TEXT, new_value TEXT)",
        "INSERT INTO log VALUES (1, 'N', NULL, ''), (2, 'S', 'x', 'y'), (3, 'N', '\"', 'a,\"b\"'),"
        " (40, 'N', 'NULL', '\\N'), (41, 'N', ' ', '.')",
    )


def rows(database: Database, table: LiveTable, split: TableSplit, **more: int) -> list[tuple]:
    frames = list(read(database, table, split, text_of, **more))
    for frame in frames:
        assert frame.broken == ()
        assert all(field.type == pa.string() for field in frame.batch.schema)
    numbers = [int(number) for frame in frames for number in frame.rows]
    assert numbers == list(range(1, len(numbers) + 1))
    return [tuple(row.values()) for frame in frames for row in frame.batch.to_pylist()]


def all_rows(place: Place, table: LiveTable = LOG, tasks: int = 3) -> list[tuple]:
    with moment(place.database(), table, tasks) as splits:
        sent = pickle.loads(pickle.dumps((place.database(), splits)))
        return sorted(
            (row for split in sent[1] for row in rows(sent[0], table, split)),
            key=lambda row: int(row[0] or 0),
        )


def test_values_are_exact_and_only_the_asked_rows_come(place: Place) -> None:
    make_log(place)
    backslash = "N" if place.kind == "mariadb" else "\\N"
    assert all_rows(place) == [
        ("1", "N", None, ""),
        ("3", "N", '"', 'a,"b"'),
        ("40", "N", "NULL", backslash),
        ("41", "N", " ", "."),
    ]
    assert len(all_rows(place, LiveTable("log"))) == 5


def test_columns_are_described_in_their_order(place: Place) -> None:
    make_log(place)
    database = place.database()
    assert describe(database, LOG) == ("record_id", "status", "old_value", "new_value")
    with pytest.raises(FatalError, match="no table or view nothing"):
        describe(database, LiveTable("nothing"))
    with pytest.raises(FatalError, match="no column state"):
        list(read(database, LiveTable("log", where=("state", "N")), TableSplit(0), text_of))


def test_line_breaks_and_any_text_come_through(place: Place) -> None:
    place.execute("CREATE TABLE log (record_id INTEGER, v TEXT)")
    texts = ["a\nb", "a\r\nb", "\r", '"\n"', "Zoë 😀", "\t", "%s %(a)s {} ?", "\\.", ",", "\ufeff"]
    engine = sa.create_engine(place.url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        log = sa.table("log", sa.column("record_id"), sa.column("v"))
        values = [{"record_id": n, "v": text} for n, text in enumerate(texts)]
        connection.execute(log.insert(), values)
    got = all_rows(place, LiveTable("log", order="record_id"))
    assert [row[1] for row in got] == texts


def test_rows_without_a_record_id_are_read_once(place: Place) -> None:
    make_log(place)
    place.execute("INSERT INTO log VALUES (NULL, 'N', 'a', 'b')")
    assert len(all_rows(place)) == 5


def test_hostile_names_and_values(place: Place) -> None:
    mark = "`" if place.kind == "mariadb" else '"'
    name = "lo%g \"n`a'me; :x %(k0)s {} ?"
    quoted = mark + name.replace(mark, mark * 2) + mark
    place.execute(
        f"CREATE TABLE {quoted} ({quoted} INTEGER, s VARCHAR(30))",
        f"INSERT INTO {quoted} VALUES (1, '%s''{{}}'), (2, '%s''{{}}'), (3, 'N')",
    )
    table = LiveTable(name, order=name, where=("s", "%s'{}"))
    assert all_rows(place, table) == [("1", "%s'{}"), ("2", "%s'{}")]


def test_frames_are_cut_by_size(place: Place) -> None:
    place.execute("CREATE TABLE log (record_id INTEGER, v TEXT)")
    values = ", ".join(f"({n}, '{'x' * 1000}')" for n in range(200))
    place.execute(f"INSERT INTO log VALUES {values}")
    database = place.database()
    frames = list(read(database, LiveTable("log"), TableSplit(0), text_of, batch_bytes=50_000))
    assert len(frames) > 2
    assert all(frame.batch.nbytes < 130_000 for frame in frames)
    assert sum(frame.batch.num_rows for frame in frames) == 200


def test_no_rows_give_no_frames(place: Place) -> None:
    place.execute("CREATE TABLE log (record_id INTEGER, status CHAR(1))")
    assert all_rows(place) == []


def test_lookups_go_on_while_rows_are_read(place: Place) -> None:
    make_log(place)
    database = place.database()
    for _ in read(database, LOG, TableSplit(0), text_of):
        database.check_reachable()


def test_schema_may_stand_in_the_name(postgres: Place) -> None:
    postgres.execute(
        "DROP SCHEMA IF EXISTS direct CASCADE",
        "CREATE SCHEMA direct",
        "CREATE TABLE direct.direct_process (record_id INTEGER)",
    )
    database = postgres.database()
    assert describe(database, LiveTable("direct.direct_process")) == ("record_id",)
    assert describe(database, LiveTable("direct_process", "direct")) == ("record_id",)
    postgres.execute("DROP SCHEMA direct CASCADE")


def test_tasks_see_the_moment_and_nothing_later(postgres: Place) -> None:
    make_log(postgres)
    with moment(postgres.database(), LOG, 2) as splits:
        assert len(splits) == 2
        postgres.execute(
            "INSERT INTO log VALUES (5, 'N', '', ''), (99, 'N', '', '')",
            "DELETE FROM log WHERE record_id = 41",
        )
        seen = [rows(postgres.database(), LOG, split) for split in splits]
        again = [rows(postgres.database(), LOG, split) for split in splits]
    assert [[row[0] for row in part] for part in seen] == [["1", "3"], ["40", "41"]]
    assert again == seen
    assert [row[0] for row in all_rows(postgres)] == ["1", "3", "5", "40", "99"]


def test_split_of_a_moment_that_has_ended_says_so(postgres: Place) -> None:
    make_log(postgres)
    database = postgres.database()
    with moment(database, LOG, 2) as splits:
        pass
    with pytest.raises(
        UnreachableError, match=r"the snapshot that all tasks share no longer exists, .* try again"
    ):
        rows(database, LOG, splits[0])


def test_native_types_come_as_text_of_the_log(postgres: Place) -> None:
    postgres.execute(
        "CREATE TABLE log (t TIMESTAMP, z TIMESTAMPTZ, b BYTEA, f BOOLEAN, n NUMERIC)",
        "INSERT INTO log VALUES ('2026-01-02 03:04:05.6', '2026-01-02 03:04:05+02', "
        "decode(repeat('ab', 90), 'hex'), TRUE, 1.50), ('infinity', NULL, '', NULL, 'NaN')",
    )
    first, second = rows(postgres.database(), LiveTable("log"), TableSplit(0))
    assert first[:2] == ("2026-01-02 03:04:05.6", "2026-01-02 01:04:05+00")
    assert first[2] == "q6ur" * 30
    assert first[3:] == ("true", "1.50")
    assert second == ("infinity", None, "", None, "NaN")


def test_connection_lost_while_rows_come_ends_the_read_clearly(postgres: Place) -> None:
    postgres.execute(
        "CREATE TABLE log (record_id INTEGER, v TEXT)",
        "INSERT INTO log SELECT i, repeat('x', 10000) FROM generate_series(1, 3000) i",
    )
    frames = read(postgres.database(), LiveTable("log"), TableSplit(0), text_of, 100_000)
    next(frames)
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'xds-publisher' AND state = 'active'"
    )
    with pytest.raises(UnreachableError, match=r"postgresql database \w+ on \S+ cannot be reached"):
        for _ in frames:
            pass


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("ends", [(1, 1), (1, 2), (-5, 17), (0, 2**62)])
def test_ranges_hold_each_integer_once(ends: tuple[int, int], tasks: int) -> None:
    parts = ranges(ends, tasks)
    assert 1 <= len(parts) <= tasks
    assert parts[0][0] is None
    assert parts[-1][1] is None
    for (_, high), (low, _) in pairwise(parts):
        assert high == low
        assert high is not None
    inner = [high for _, high in parts if high is not None]
    assert inner == sorted(set(inner))
    assert all(ends[0] < bound <= ends[1] for bound in inner)


@pytest.mark.parametrize(("tasks", "shares"), [(1, False), (2, True)])
def test_one_task_that_reads_once_shares_no_snapshot(
    postgres: Place, tasks: int, shares: bool
) -> None:
    postgres.execute(
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY)", "INSERT INTO usr VALUES (1), (2), (3)"
    )
    table = LiveTable("usr", order="idu")
    with moment(postgres.database(), table, tasks, is_read_once=True) as splits:
        assert len(splits) == tasks
        assert [split.snapshot is not None for split in splits] == [shares] * tasks
        frames = [
            frame for split in splits for frame in read(postgres.database(), table, split, text_of)
        ]
    assert sum(frame.batch.num_rows for frame in frames) == 3
