"""Hostile values in tables, documents and pages of a verification, in both formats of documents."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from publisher.config.job_file import load
from publisher.reports.verify_page import render_verification
from publisher.runs.publish import publish
from publisher.runs.repair import repair
from publisher.runs.verify import VerifyReport, VerifyRequest, verify

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[[sources]]
name = "hr"
format = "triggerless"
tables = ["usr", "dep"]
[database]
url = "sqlite:///{path}/hr.db"
[tables.usr.references]
boss = {{ table = "dep", key = "name" }}
[tables.usr.children.phone]
columns = {{ number = "string" }}
link = ["idu"]
[dispatch]
path = "out"
[documents]
{documents}
"""
TABLES = """
CREATE TABLE dep (name TEXT PRIMARY KEY, note TEXT);
CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, boss TEXT, photo BLOB);
CREATE TABLE phone (idp INTEGER PRIMARY KEY, idu INTEGER, number TEXT);
"""
HOSTILE = (
    "</value></add-attr><script>alert(1)</script>",
    "&amp;&#10;&quot;",
    "]]><!-- -->",
    "\x85\u2028\u202e\ufeff",
    "a\tb\r\nc\\n\\\\",
    'k="a+b",table=usr,schema=x',
    "<input>",
    '{"text": "\\ud800"}',
    " ",
    "\U0001f600e\u0301",
    "=cmd()",
    "x" * (1 << 20) + "</nds>",
)
FORMATS = ("", 'value_format = "json"', "minimal = true", "batch_size = 5")


class HostileJob:
    """A job over tables of hostile values."""

    def __init__(self, folder: Path, documents: str) -> None:
        self.database = folder / "hr.db"
        self.path = folder / "job.toml"
        self.path.write_text(JOB.format(path=folder, documents=documents))
        with sqlite3.connect(self.database) as connection:
            connection.executescript(TABLES)
        for number, text in enumerate(HOSTILE):
            self.execute("INSERT INTO dep VALUES (?, ?)", text[:1_000], text)
            self.execute(
                "INSERT INTO usr VALUES (?, ?, ?, ?)",
                number,
                text,
                text[:1_000],
                text.encode()[:99],
            )
            self.execute(
                "INSERT INTO phone (idu, number) VALUES (?, ?), (?, 'b')", number, text, number
            )
        publish(load(self.path))

    def execute(self, statement: str, *values: object) -> None:
        with sqlite3.connect(self.database) as connection:
            connection.execute(statement, values)
        connection.close()

    def verify(self) -> VerifyReport:
        return verify(VerifyRequest(load(self.path), examples=1_000))


def results(report: VerifyReport) -> dict[str, dict[str, int]]:
    return {t.table: {"equal": t.equal, **t.counts} for t in report.outcome.tables}


@pytest.fixture(params=FORMATS)
def job(tmp_path: Path, request: pytest.FixtureRequest) -> HostileJob:
    return HostileJob(tmp_path, request.param)


def test_hostile_values_are_equal_after_any_change(job: HostileJob) -> None:
    count = len(HOSTILE)
    assert results(job.verify()) == {"usr": {"equal": count}, "dep": {"equal": count}}
    for number, text in enumerate(HOSTILE):
        other = HOSTILE[number - 1]
        job.execute("UPDATE usr SET fname = ?, boss = NULL WHERE idu = ?", other, number)
        job.execute("UPDATE phone SET number = ? WHERE number = ?", text + other, text)
    job.execute("DELETE FROM dep WHERE name = ?", HOSTILE[0])
    job.execute("UPDATE usr SET idu = idu + 100 WHERE idu < 3")
    job.execute("UPDATE phone SET idu = idu + 100 WHERE idu < 3")
    publish(load(job.path))
    assert results(job.verify()) == {"usr": {"equal": count}, "dep": {"equal": count - 1}}


def test_hostile_differences_are_shown_and_repaired(job: HostileJob) -> None:
    for path in job.path.parent.glob("out/runs/*/part-*"):
        path.write_text(path.read_text().replace("alert(1)", "alert(2)"))
    report = job.verify()
    wrong = [e for table in report.outcome.tables for e in table.examples]
    assert {example.kind for example in wrong} <= {"different", "missing", "surplus"}
    assert any("<script>alert(2)" in v.documents[0] for e in wrong for v in e.attributes)
    page: Any = html.fromstring(render_verification(report, datetime(2026, 5, 4, tzinfo=UTC)))
    assert not page.xpath("//script | //img")
    assert "<script>alert(2)</script>" in page.text_content()
    repair(VerifyRequest(load(job.path)))
    count = len(HOSTILE)
    assert results(job.verify()) == {"usr": {"equal": count}, "dep": {"equal": count}}
