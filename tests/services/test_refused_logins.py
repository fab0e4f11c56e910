"""Logins that real servers refuse: the message names the wrong part of the URL once; exit code 1."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions
from tests.services import servers
from tests.services.databases import Place
from tests.services.topics import Topics

RIGHT = "Tr0ub4dor!x"
WRONG = "Wr0ng!p4ss"
JOB = """
[[sources]]
table = "log"
[database]
url = "{url}"
retries = 0
[dispatch]
path = "out"
"""


def refusal(folder: Path, url: sa.URL) -> str:
    job = folder / "job.toml"
    job.write_text(JOB.format(url=url.render_as_string(hide_password=False)))
    result = CliRunner().invoke(cli, ["status", "-c", str(job)])
    assert result.exit_code == 1
    checked = CliRunner().invoke(cli, ["check", "-c", str(job)])
    assert checked.exit_code == 3
    assert checked.stdout.count("refuses the login") == 1
    return result.stdout


@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
def test_an_unknown_database(place: Place, tmp_path: Path) -> None:
    message = refusal(tmp_path, sa.make_url(place.url).set(database="nope"))
    assert "check the name of the database in its URL" in message
    assert message.count("nope") == 2  # the URL's, and the server's word


@pytest.fixture(scope="module")
def with_passwords() -> Iterator[sa.URL]:
    """A user of a PostgreSQL server that asks for passwords; only its superuser needs none."""
    try:
        with servers.postgresql() as server:
            engine = sa.create_engine(server.url, poolclass=sa.NullPool)
            with engine.begin() as connection:
                connection.exec_driver_sql(f"CREATE ROLE pub LOGIN PASSWORD '{RIGHT}'")
                rules = Path(str(connection.exec_driver_sql("SHOW hba_file").scalar()))
                rules.write_text(
                    "host all tester 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
                )
                connection.exec_driver_sql("SELECT pg_reload_conf()")
            yield sa.make_url(server.url).set(username="pub", password=RIGHT)
    except servers.MissingServerError as error:
        servers.skip_unproved(str(error))


@pytest.fixture
def known(request: pytest.FixtureRequest) -> sa.URL:
    """The URL of a user who may log in with ``RIGHT``."""
    if request.param == "postgresql":
        url: sa.URL = request.getfixturevalue("with_passwords")
        return url
    place: Place = request.getfixturevalue("mariadb")
    place.execute(
        f"CREATE OR REPLACE USER pub@'%' IDENTIFIED BY '{RIGHT}'", "GRANT ALL ON test.* TO pub@'%'"
    )
    return sa.make_url(place.url).set(username="pub", password=RIGHT)


both = pytest.mark.parametrize("known", ["postgresql", "mariadb"], indirect=True)


@both
def test_a_wrong_password_a_missing_one_and_an_unknown_user(known: sa.URL, tmp_path: Path) -> None:
    with Database(DatabaseOptions(url=known.render_as_string(hide_password=False))) as database:
        database.check_reachable()
    without = known._replace(password=None)
    for url in (known.set(password=WRONG), known.set(username="nobody"), without):
        message = refusal(tmp_path, url)
        assert message.count("refuses the login") == 1
        assert "check user and password in its URL" in message
        assert WRONG not in message
        assert RIGHT not in message


@both
def test_an_unknown_host(known: sa.URL, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    url = known.set(host="nope.invalid").render_as_string(hide_password=False)
    job.write_text(JOB.format(url=url))
    result = CliRunner().invoke(cli, ["status", "-c", str(job)])
    assert result.exit_code == 5
    assert result.stdout.count("cannot be reached") == 1
    assert "check the host in its URL" in result.stdout
    assert RIGHT not in result.output


def test_brokers_of_another_protocol(kafka: Topics, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    (tmp_path / "log.csv").write_text("record_id\n")
    job.write_text(
        '[[sources]]\nsnapshots = ["log.csv"]\n[dispatch]\nto = "kafka"\n'
        f'bootstrap = "{kafka.bootstrap}"\n[dispatch.kafka]\n"security.protocol" = "ssl"\n'
    )
    began = time.monotonic()
    result = CliRunner().invoke(cli, ["status", "-c", str(job)])
    assert time.monotonic() - began < 15
    assert result.exit_code == 5
    assert kafka.bootstrap in result.stdout
    assert "security.protocol in [dispatch.kafka] (now ssl)" in result.stdout
