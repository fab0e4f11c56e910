"""Values that parsers of XML refuse: each is rejected by itself, and whatever is published can be read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lxml import etree

from publisher.cli.main import cli
from publisher.consumer import Inbox, Objects, part_files, read_files

pytestmark = pytest.mark.usefixtures("local_engine")

LIMIT = 10_000_000
HUGE = "x" * (LIMIT + 1)
JOB = """
[[sources]]
name = "hr"
{source}
[database]
url = "{url}"
[dispatch]
path = "{folder}/out"
{more}
"""
LOG = 'table = "event_log"'
COMPARISON = 'format = "triggerless"\ntables = ["usr"]'
CHANGES = (
    'format = "change-table"\ntable = "usr_ct"\nsource_table = "usr"\n[tables.usr]\nkey = ["idu"]'
)
JSON = '[documents]\nvalue_format = "json"'


@dataclass(frozen=True)
class Job:
    """A job that publishes tables of an SQLite database to files."""

    folder: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/hr.db"

    def execute(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.folder / "hr.db")) as connection:
            connection.execute(statement, values)
            connection.commit()

    def log(self, style: str) -> None:
        words = ("--table", "usr", "--style", style, "--apply")
        assert self.run("ddl", "--database", self.url, *words).exit_code == 0

    def configure(self, source: str, more: str = "") -> None:
        text = JOB.format(source=source, url=self.url, folder=self.folder, more=more)
        (self.folder / "job.toml").write_text(text)

    def run(self, *words: str) -> Result:
        result = CliRunner().invoke(cli, words)
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return result

    def command(self, name: str, *words: str) -> Result:
        return self.run(name, "-c", str(self.folder / "job.toml"), *words)

    def publish(self, code: int = 0) -> None:
        result = self.command("publish")
        assert result.exit_code == code, result.output

    def rejects(self) -> list[tuple[str, str]]:
        """The reasons and details of rejected records."""
        listed = json.loads(self.command("rejects", "--json").stdout)
        return [(group["reason"], group["sample"]["detail"]) for group in listed]

    def objects(self) -> dict[str, dict[str, list[str]]]:
        """The objects of a consumer, after other readers have read all documents."""
        paths = part_files(self.folder / "out")
        assert self.run("validate", *map(str, paths)).exit_code == 0
        for document in documents(paths):
            assert document.startswith(b"{") or etree.fromstring(document).tag == "nds"
        objects = Objects()
        objects.apply_all(Inbox().in_order(read_files(paths)))
        return {
            name: {
                attribute: [value.text for value in values]
                for attribute, values in known.attributes.items()
            }
            for name, known in objects.items()
        }


def documents(paths: list[Path]) -> Iterator[bytes]:
    return (line for path in paths for line in path.read_bytes().splitlines())


def check_rejected(job: Job, column: str) -> None:
    ((reason, detail),) = job.rejects()
    assert reason == "long-value"
    assert "idu=1,table=usr: " in detail
    assert f"column {column}: the value has 10,000,001 bytes" in detail


@pytest.mark.parametrize(
    ("source", "style"), [(LOG, "per-field"), (LOG, "query-back"), (COMPARISON, None)]
)
def test_a_value_that_xml_parsers_refuse_is_rejected_by_itself(
    tmp_path: Path, source: str, style: str | None
) -> None:
    job = Job(tmp_path)
    job.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, name TEXT, note TEXT)")
    job.configure(source)
    if style is not None:
        job.log(style)
    for key, note in ((1, "old"), (2, "&" * 3_000_000), (3, "x" * LIMIT)):
        job.execute("INSERT INTO usr VALUES (?, 'a', ?)", key, note)
    job.publish()
    job.execute("UPDATE usr SET note = ? WHERE idu = 1", HUGE)
    job.execute("UPDATE usr SET name = 'b'")
    job.publish(4)  # a record was rejected
    check_rejected(job, "note")
    objects = job.objects()
    # changes of fields are records of their own, rows are published as a whole
    assert objects["idu=1,table=usr"]["name"] == ["a" if style is None else "b"]
    assert objects["idu=2,table=usr"] == {"name": ["b"], "note": ["&" * 3_000_000]}
    assert objects["idu=3,table=usr"] == {"name": ["b"], "note": ["x" * LIMIT]}
    if style == "per-field":
        shown = job.command("verify")
        assert "unwritable 1 values" in shown.output
        assert shown.exit_code == 0, shown.output
        job.execute("DELETE FROM event_log")
        job.execute("INSERT INTO usr VALUES (4, 'c', ?)", HUGE)
        job.execute("UPDATE event_log SET table_key = 'idu=5' WHERE table_key = 'idu=4'")
        job.execute("UPDATE event_log SET status = 'S' WHERE status = 'N'")
        shown = job.command("verify", "--repair", "--baseline")
        assert shown.exit_code == 3
        assert "1 differences were rejected" in shown.output
        assert set(job.objects()) == set(objects)


def test_a_huge_value_in_json_is_read_by_all(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, name TEXT)")
    job.configure(LOG, JSON)
    job.log("per-field")
    job.execute("INSERT INTO usr VALUES (1, ?)", HUGE)
    job.publish()
    assert job.objects() == {"idu=1,table=usr": {"name": [HUGE]}}
    shown = job.command("verify")
    assert shown.exit_code == 0, shown.output
    assert "usr: 1 equal" in shown.output
    assert "unwritable" not in shown.output


def test_validate_reports_values_that_xml_parsers_refuse(tmp_path: Path) -> None:
    path = tmp_path / "huge.xds"
    head = '<nds dtdversion="2.0"><input><add class-name="usr"><association>idu=1</association>'
    text = f'{head}<add-attr attr-name="a"><value type="string">{HUGE}</value></add-attr></add></input></nds>'
    path.write_text(text)
    result = CliRunner().invoke(cli, ["validate", str(path)])
    assert result.exit_code == 3
    assert "more than 10,000,000 bytes" in result.output
