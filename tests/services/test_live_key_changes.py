"""Changes of keys in live tables: runs over an event log and a change table lead to the rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa

from publisher.config.job_file import load
from publisher.consumer import Objects, part_files, read_files
from publisher.runs import publisher_instance
from tests.services.databases import Place
from tests.support.event_log_files import Row
from tests.support.renamed_rows import RenamedRows, renamed_rows

JOB = """
[[sources]]
format = "{format}"
table = "{table}"
key_change = "modify-association"
{settings}
[database]
url = "{url}"
[dispatch]
path = "{out}"
[run]
lanes = 3
engine = "local"
"""
CHANGE_TABLE = """
source_table = "usr"
key = ["idu"]
mask_order = "msb"
header_columns = 7
images = "full"
pair_wait = 0
"""


def insert(place: Place, table: str, rows: Sequence[Row]) -> None:
    with place.engine.begin() as connection:
        columns: list[sa.ColumnClause[str]] = [sa.column(name) for name in rows[0]]
        connection.execute(sa.insert(sa.table(table, *columns)), list(rows))


def create(place: Place, table: str, rows: Sequence[Row]) -> None:
    columns = [
        f"{name} {'BIGINT' if isinstance(value, int) else 'VARCHAR(128)'}"
        for name, value in rows[0].items()
    ]
    place.execute(f"CREATE TABLE {table} ({', '.join(columns)})")


def records_of(table: RenamedRows, format_: str) -> list[Row]:
    if format_ == "change-table":
        return list(table.change_table())
    texts = ("old_value", "new_value")
    return [
        row | {name: None if row[name] is None else str(row[name]) for name in texts}
        for row in table.event_log()
    ]


def portions(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """The rows of three runs; none is cut between an UPDATE and its before image."""
    cuts = [0, 30, 100, len(rows)]
    cuts[1:3] = [cut + (rows[cut - 1].get("header__change_oper") == "B") for cut in cuts[1:3]]
    return [rows[start:end] for start, end in pairwise(cuts)]


@pytest.mark.parametrize("format_", ["event-log", "change-table"])
def test_runs_over_a_live_table_lead_to_the_rows(
    place: Place, tmp_path: Path, format_: str
) -> None:
    table = renamed_rows(17, 150)
    rows = records_of(table, format_)
    name = format_.replace("-", "_")
    place.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(9), lname VARCHAR(9))")
    create(place, name, rows)
    settings = CHANGE_TABLE if format_ == "change-table" else ""
    job, out = tmp_path / "job.toml", tmp_path / "out"
    names = {"format": format_, "table": name, "settings": settings, "url": place.url, "out": out}
    job.write_text(JOB.format(**names), "utf-8")
    for portion in portions(rows):
        insert(place, name, portion)
        report = publisher_instance.publish(load(job))
        assert report.outcomes["published"] == len(portion)
    objects = Objects(strict=True)
    objects.apply_all(read_files(part_files(out)))
    texts = {name.partition(",")[0]: objects[name].text("lname") for name in objects}
    assert texts == {f"idu={key}": text for key, text in table.rows.items()}
