"""Tables whose owner made the types of their columns: reading them runs no code of the owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa

from publisher.database.catalogue import catalogue_of, sql_table_of
from publisher.database.connection import Database
from publisher.database.copy import copy_table
from publisher.database.lookup import DatabaseLookup
from publisher.database.options import DatabaseOptions
from publisher.database.ordered_ranges import Bounds, Span, as_text, span_condition
from publisher.formats.event_log.backlog import EventLogBacklog
from publisher.formats.event_log.options import EventLogOptions
from publisher.model.change import Object
from publisher.planning.query_back import CurrentRow, RefusedLookup
from tests.services.databases import Place
from tests.support.planning import answers_of

OWNER, READER = "xds_mallory", "xds_reader"
TRAP = f"""
CREATE SCHEMA {OWNER} AUTHORIZATION {OWNER};
SET ROLE {OWNER};
SET search_path TO {OWNER};
CREATE TYPE pair AS (a text, b text);
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN moody AS mood;
CREATE FUNCTION caught(text) RETURNS text LANGUAGE plpgsql AS
  $$BEGIN RAISE EXCEPTION '% ran as %', $1, current_user; END$$;
CREATE FUNCTION pair_text(pair) RETURNS text LANGUAGE sql AS $$SELECT {OWNER}.caught('pair')$$;
CREATE FUNCTION mood_text(mood) RETURNS text LANGUAGE sql AS $$SELECT {OWNER}.caught('mood')$$;
CREATE FUNCTION moods_text(mood[]) RETURNS text LANGUAGE sql AS $$SELECT {OWNER}.caught('moods')$$;
CREATE FUNCTION text_mood(text) RETURNS mood LANGUAGE plpgsql AS
  $$BEGIN PERFORM {OWNER}.caught('text'); RETURN 'sad'; END$$;
CREATE CAST (pair AS text) WITH FUNCTION pair_text(pair) AS ASSIGNMENT;
CREATE CAST (mood AS text) WITH FUNCTION mood_text(mood) AS ASSIGNMENT;
CREATE CAST (mood[] AS text) WITH FUNCTION moods_text(mood[]) AS ASSIGNMENT;
CREATE CAST (text AS mood) WITH FUNCTION text_mood(text) AS ASSIGNMENT;
CREATE TABLE usr (idu mood PRIMARY KEY, p pair, m mood, d moody, ms mood[], ok text, yes boolean);
INSERT INTO usr VALUES ('glad', ('x', NULL), 'sad', 'glad', '{{sad,glad}}', 'x', true),
                       ('sad', (NULL, NULL), NULL, NULL, NULL, NULL, NULL);
CREATE TABLE log (record_id bigint, table_key text, status text, event_type int, event_time pair,
  perpetrator text, table_name text, column_name text, old_value text, new_value text);
INSERT INTO log VALUES (1, 'idu=1', 'N', 3, ('2026-05-04', '08:00:00'), 'hr', 'usr', 'x', NULL, 'y');
GRANT USAGE ON SCHEMA {OWNER} TO {READER};
GRANT SELECT ON usr, log TO {READER};
RESET ROLE;
"""


@pytest.fixture
def trap(postgres: Place) -> Iterator[DatabaseOptions]:
    """A database as its reader sees it, with tables of another role."""
    engine = sa.create_engine(postgres.url, poolclass=sa.NullPool)
    drop = f"DROP SCHEMA IF EXISTS {OWNER} CASCADE"
    try:
        with engine.begin() as connection:
            for role in (OWNER, READER):
                connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
            connection.exec_driver_sql(TRAP.replace("%", "%%"))
        url = sa.make_url(postgres.url).set(username=READER)
        yield DatabaseOptions(url=url.render_as_string(hide_password=False), schema=OWNER)
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql(drop)
            for role in (OWNER, READER):
                connection.exec_driver_sql(f"DROP ROLE IF EXISTS {role}")


def test_the_trap_works(trap: DatabaseOptions) -> None:
    with (
        Database(trap) as database,
        pytest.raises(sa.exc.DBAPIError, match=f"pair ran as {READER}"),
    ):
        database.run(
            lambda connection: connection.exec_driver_sql(
                f"SELECT CAST(p AS text) FROM {OWNER}.usr"
            ).all()
        )


def test_rows_are_looked_up_without_casts_of_their_owner(trap: DatabaseOptions) -> None:
    with Database(trap) as database:
        objects = [Object(OWNER, "usr", f"idu={m}") for m in ("glad", "sad")]
        answers = answers_of(DatabaseLookup(database), objects)
    glad, sad = (answers[one] for one in objects)
    assert isinstance(glad, CurrentRow)
    assert isinstance(sad, CurrentRow)
    assert glad.values == ("glad", "(x,)", "sad", "glad", "{sad,glad}", "x", "true")
    assert sad.values == ("sad", "(,)", None, None, None, None, None)


def test_implicit_casts_refuse_rows_and_run_nothing(trap: DatabaseOptions, postgres: Place) -> None:
    postgres.execute(
        f"DROP CAST ({OWNER}.mood AS text)",
        f"CREATE CAST ({OWNER}.mood AS text) WITH FUNCTION {OWNER}.mood_text({OWNER}.mood) AS IMPLICIT",
    )
    with Database(trap) as database:
        one = Object(OWNER, "usr", "idu=glad")
        answer = answers_of(DatabaseLookup(database), [one])[one]
    assert isinstance(answer, RefusedLookup)
    assert "operator is not unique" in answer.detail


def test_marks_and_waiting_rows_are_read_without_casts_of_their_owner(
    trap: DatabaseOptions,
) -> None:
    with Database(trap) as database:
        relation = catalogue_of(database).relation(OWNER, "usr")
        assert relation is not None
        for name in ("p", "m", "ms"):
            span = Span(name, after=None, upto="~", form="^.*$", others=False)
            statement = (
                sa.select(as_text(relation, name))
                .select_from(sql_table_of(relation))
                .where(span_condition(span, relation))
            )
            rows = database.run(lambda c, s=statement: c.execute(s).all())  # type: ignore[misc]
            assert len(rows) >= 1
            bounds = Bounds(None, None, None, None, span=span)
            with database.connect() as connection:
                (batch,) = copy_table(connection, relation, bounds, None, 1 << 20)
            assert batch.num_rows == len(rows)
    with closing(EventLogBacklog(EventLogOptions(), trap, f"{OWNER}.log")) as backlog:
        assert backlog.count().rows == 1
