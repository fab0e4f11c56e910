"""The road from a database to documents in a topic, as ``init`` shows it: no step fails."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from publisher.cli.main import cli
from tests.services.databases import Place
from tests.services.topics import Topics

TABLES = (
    "CREATE TABLE users (id int PRIMARY KEY, name text, boss int REFERENCES users)",
    "CREATE TABLE phones (id int NOT NULL REFERENCES users, number text NOT NULL, UNIQUE (id, number))",
    "INSERT INTO users VALUES (7, 'Eve', NULL)",
)


@pytest.fixture
def owner(postgres: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """An ordinary role with a schema of its own."""
    monkeypatch.chdir(tmp_path)
    postgres.execute(
        "CREATE ROLE newcomer LOGIN PASSWORD 'geheim'",
        "CREATE SCHEMA newcomer AUTHORIZATION newcomer",
    )
    url = sa.make_url(postgres.url).set(username="newcomer", password="geheim")
    place = Place("postgresql", url.render_as_string(hide_password=False))
    place.execute(*TABLES)
    monkeypatch.setenv("DATABASE_URL", place.url)
    yield place
    place.disconnect()
    postgres.execute("DROP OWNED BY newcomer CASCADE", "DROP ROLE newcomer")


def run(line: str, place: Place) -> str:
    """Runs a line of a shell; returns what it prints."""
    words = shlex.split(line.replace("$DATABASE_URL", place.url))
    assert words[0] == "xds-publisher"
    return CliRunner().invoke(cli, words[1:]).output


def test_a_role_without_rights_reaches_its_topic(owner: Place, kafka: Topics) -> None:
    topic = "first-road-new"
    init = f'xds-publisher init --database "$DATABASE_URL" --to kafka://{kafka.bootstrap}/{topic} -o hr.toml'
    (ddl,) = re.findall(r"xds-publisher ddl .* --apply", run(init, owner))
    assert "created or replaced in" in run(ddl, owner)
    *_, check, publish = run(init, owner).splitlines()
    assert "geheim" not in Path("hr.toml").read_text()
    assert "\ncreate_topics = true\n" in Path("hr.toml").read_text()
    assert "FAILED" not in run(check.strip(), owner)
    # the rows that were there before need no published document
    loaded = run("xds-publisher verify --repair --baseline -c hr.toml", owner)
    assert "1 never published" in loaded
    assert "documents  1 (1 add)" in loaded
    owner.execute("UPDATE users SET name = 'Eva'", "INSERT INTO phones VALUES (7, '111')")
    assert " --follow " in publish
    assert ": published" in run(publish.strip().replace(" --follow", ""), owner)
    assert re.search(
        r"users: 1 equal$", run("xds-publisher verify -c hr.toml", owner), re.MULTILINE
    )


def test_an_existing_topic_is_not_created(owner: Place, kafka: Topics) -> None:
    run('xds-publisher ddl --database "$DATABASE_URL" --table users --apply', owner)
    topic = kafka.make()
    init = f'xds-publisher init --database "$DATABASE_URL" --to kafka://{kafka.bootstrap}/{topic} -o hr.toml'
    check = run(init, owner).splitlines()[-2]
    assert "create_topics" not in Path("hr.toml").read_text()
    assert "FAILED" not in run(check.strip(), owner)
