"""What real servers refuse, as users read it: which part of the URL is wrong, said once, exit code 1."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from publisher.cli import cli
from tests.services.databases import Place
from tests.services.topics import Topics

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


def test_an_unknown_database(place: Place, tmp_path: Path) -> None:
    url = sa.make_url(place.url)
    if url.get_backend_name() == "sqlite":
        pytest.skip("a file has no databases")
    said = refusal(tmp_path, url.set(database="nope"))
    assert "check the name of the database in its URL" in said
    assert said.count("nope") == 2  # the URL's, and the server's word


def test_a_wrong_password(mariadb: Place, tmp_path: Path) -> None:
    url = sa.make_url(mariadb.url).set(username="nobody", password="wr0ng")
    said = refusal(tmp_path, url)
    assert "check user and password in its URL" in said
    assert "wr0ng" not in said


def test_an_unknown_user(postgres: Place, tmp_path: Path) -> None:
    url = sa.make_url(postgres.url).set(username="nobody", password="wr0ng")
    said = refusal(tmp_path, url)
    assert "check user and password in its URL" in said
    assert "wr0ng" not in said


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
