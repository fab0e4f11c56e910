"""Documents of each format compared with the tables of the company."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.errors import UsageError
from publisher.runs.publish import publish
from publisher.runs.verify import VerifyReport, VerifyRequest, verify
from tests.support.company.job import DATABASE, JOB, prepare
from tests.support.company.story import write_story

pytestmark = pytest.mark.usefixtures("local_engine")

FORMATS = {"change-tables": "change-table", "queue": "dispatch-queue", "extract": "linkexpress"}
"""Formats of the company's sources."""


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a company that has published nothing."""
    directory = tmp_path_factory.mktemp("company")
    prepare(directory, write_story())
    return directory


def job_of(company: Path, name: str, *, has_database: bool = True) -> Path:
    """A job file with one of the company's sources."""
    sources = re.split(r"(?m)^(?=\[\[sources\]\]$)", (company / JOB).read_text())[1:]
    source = next(source for source in sources if f'name = "{name}"' in source)
    database, rest = sources[-1][sources[-1].index("[database]") :].split("[documents]", 1)
    source = source.partition("[database]")[0]
    title = f"{name}-{has_database}"
    rest = rest.replace('path = "published"', f'path = "{title}"')
    job = f'[job]\nname = "{title}"\n'
    path = company / f"{title}.toml"
    parts = (job, source, database if has_database else "", "[documents]", rest)
    path.write_text("".join(parts))
    return path


def counts(report: VerifyReport) -> Counter[str]:
    total: Counter[str] = Counter()
    for table in report.outcome.tables:
        total.update(table.counts)
        total["equal"] += table.equal
    return total


@pytest.mark.parametrize("name", FORMATS)
def test_recordings_of_each_system_are_compared_with_the_tables(company: Path, name: str) -> None:
    settings = load(job_of(company, name))
    publish(settings)
    report = verify(VerifyRequest(settings, examples=100))
    before = counts(report)
    assert {*before} == {"equal", "never-published"}
    assert before["equal"] > 170
    assert {table.table for table in report.outcome.tables} == {
        "indirect.employee",
        "indirect.membership",
        "indirect.usr",
    }
    with sqlite3.connect(company / DATABASE) as connection:
        connection.execute("UPDATE membership SET role = coalesce(role, '') || '<&>'")
    try:
        report = verify(VerifyRequest(settings, examples=100))
    finally:
        with sqlite3.connect(company / DATABASE) as connection:
            connection.execute("UPDATE membership SET role = nullif(replace(role, '<&>', ''), '')")
    (members,) = [each for each in report.outcome.tables if each.table == "indirect.membership"]
    assert members.equal == 0
    assert members.counts["different"] > 40
    assert {*members.attributes} == {"role"}
    assert counts(verify(VerifyRequest(settings))) == before


@pytest.mark.parametrize("name", ["queue", "extract"])
def test_a_source_without_a_database_is_refused_by_name(company: Path, name: str) -> None:
    settings = load(job_of(company, name, has_database=False))
    publish(settings)
    message = rf"{name} \({FORMATS[name]}\) cannot read any, so name the database"
    with pytest.raises(UsageError, match=message):
        verify(VerifyRequest(settings))
