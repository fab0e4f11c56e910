"""Changes of keys in live tables: runs over an event log and a change table lead to the rows."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa

from publisher.config.job_file import load
from publisher.consumer import Objects, part_files, read_files
from publisher.database.resources import Rules
from publisher.engine.local import LocalEngine
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.event_log.source import event_log
from publisher.formats.live.table_split import DatabaseTable
from publisher.formats.work import SourceWork, Work
from publisher.model.catalogue import JobCatalogue
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.runs.key_groups import group_keys
from publisher.runs.publish import publish as publish_job
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions, text_of
from tests.services.databases import Place
from tests.support.event_ids import ORIGIN
from tests.support.event_log_files import Row, event
from tests.support.prepare import prepare_here
from tests.support.renamed_rows import RenamedRows, renamed_rows
from tests.support.task_runs import lines, plan_all, read_all

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
        report = publish_job(load(job))
        assert report.outcomes["published"] == len(portion)
    objects = Objects(strict=True)
    objects.apply_all(read_files(part_files(out)))
    texts = {name.partition(",")[0]: objects[name].text("lname") for name in objects}
    assert texts == {f"idu={key}": text for key, text in table.rows.items()}


def test_runs_never_divide_the_records_of_a_compound_key_that_are_committed_together(
    place: Place, tmp_path: Path
) -> None:
    place.execute("CREATE TABLE site (a INTEGER, b INTEGER, PRIMARY KEY (a, b))")
    create(place, "event_log", compound_change(1))
    job, out = tmp_path / "job.toml", tmp_path / "out"
    names = {"format": "event-log", "table": "event_log", "url": place.url, "out": out}
    job.write_text(JOB.format(**names, settings=""), "utf-8")
    written, is_enough = list[int](), threading.Event()

    def write() -> None:
        while not is_enough.is_set():
            number = len(written) + 1
            insert(place, "event_log", compound_change(number))
            written.append(number)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counts: list[int] = []
        while sum(count > 0 for count in counts) < 3 and writer.is_alive():
            counts.append(publish_job(load(job)).outcomes["published"])
    finally:
        is_enough.set()
        writer.join()
    publish_job(load(job))
    texts = [text for file in part_files(out) for text in file.read_text("utf-8").splitlines()]
    keys = sorted(re.findall(r"<association>(a=-?\d+\+b=\d+),", "".join(texts)))
    assert len(texts) == len(written)
    assert keys == sorted(key for n in written for key in (f"a={n}+b=1", f"a=-{n}+b=2"))


def compound_change(number: int) -> list[Row]:
    """The records of one change of both columns of a key."""
    key = {"table_name": "site", "table_key": f"a={number}+b=1"}
    values = (("a", f"{number}", f"-{number}"), ("b", "1", "2"))
    return [
        event(2 * number + place, event_type=2)
        | key
        | {"column_name": column, "old_value": old, "new_value": new}
        for place, (column, old, new) in enumerate(values)
    ]


def test_query_backs_read_the_rows_of_the_moment_of_the_log(
    postgres: Place, tmp_path: Path
) -> None:
    """A key that changes before the row is read, but after its log, hides no row and shows no other one."""
    postgres.execute(
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(9))",
        "INSERT INTO usr VALUES (1, 'Ann'), (2, 'Bob')",
    )
    events = [event(1, event_type=6, table_name="usr"), event(2, event_type=6, table_name="usr")]
    create(postgres, "event_log", events)
    insert(
        postgres, "event_log", [row | {"table_key": f"idu={row['record_id']}"} for row in events]
    )
    database = postgres.database().options
    source = event_log(
        EventLogOptions(key_change="modify-association"),
        table=DatabaseTable(database, "event_log", text_of),
    )
    with prepare_here(source, (), 2, JobCatalogue(())) as prepared:
        polls, filters = PollOptions(), FilterOptions()
        case = IdentifierCase.DATABASE
        live = SourceWork(
            "hr", prepared.source, prepared.splits, filters, polls, case, origin=ORIGIN
        )
        rules = Rules(DocumentOptions(), EnvelopeOptions(), ValueOptions(), (), database)
        work = Work((live,), rules, lanes=2, clock=0, shared=tmp_path / "shared")
        work = group_keys(work, LocalEngine())
        postgres.execute(
            "UPDATE usr SET idu = 9 WHERE idu = 1",
            "UPDATE usr SET idu = 1 WHERE idu = 2",
            "UPDATE usr SET idu = 2 WHERE idu = 9",
        )
        documents = lines(plan_all(work, read_all(work), tmp_path))
    names = [(f"idu={n}," in text, name in text) for text in documents for n, name in PEOPLE]
    assert sorted(names) == [(False, False)] * 2 + [(True, True)] * 2


PEOPLE = [(1, "Ann"), (2, "Bob")]


def query_backs(*keys: int) -> list[Row]:
    """Query-backs of rows; their polls have other events, too."""
    return [event(1, event_type=kind, table_key=f"pk_idu={key}") for key in keys for kind in (6, 3)]
