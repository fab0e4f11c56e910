"""Jobs that compare tables of a database; SQLite, an engine without Spark."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError
from publisher.formats.table_queue.json_calls import json_line
from publisher.formats.triggerless import plan_comparison
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.ledger.read import read_runs
from publisher.reports.check import check
from publisher.runs.job import Job
from publisher.runs.publish import publish as publish_job
from tests.support.compared_jobs import kinds_and_keys, operations_of
from tests.support.table_queue_files import call, element, text_file

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[[sources]]
name = "hr"
format = "triggerless"
tables = ["usr", "dep"]
{more}
[database]
url = "sqlite:///hr.db"
[table_queue]
code_page = "CP866"
eorr = 1205
smallbufkor = 1206
owners = {{ 5 = "HR" }}
[run]
lanes = 2
[dispatch]
path = "out"
"""


@pytest.fixture(autouse=True)
def database(tmp_path: Path) -> None:
    execute(
        tmp_path,
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, photo BLOB, pay NUMERIC(9, 2))",
        "CREATE TABLE dep (name TEXT, site TEXT, chief INTEGER, PRIMARY KEY (site, name))",
        "INSERT INTO usr VALUES (1, 'Ann', x'00ff', 10.5), (2, 'Bob', NULL, NULL)",
        "INSERT INTO dep VALUES ('IT + more', 'Köln', 1)",
    )


def execute(base: Path, *statements: str) -> None:
    with sqlite3.connect(base / "hr.db") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def publish(base: Path, more: str = "") -> RunReport:
    (base / "job.toml").write_text(JOB.format(more=more))
    return publish_job(load(base / "job.toml"))


def hint(base: Path, *names: str, sweep: int, others: Sequence[str] = ()) -> None:
    """A sweep that shows some tables as touched."""
    lines = [call(n, element(name, 5, 1), sweep) for n, name in enumerate(names, 4)]
    lines += [call(n, element(name, 5, 0), sweep) for n, name in enumerate(others, 40)]
    (base / "dirr").mkdir(exist_ok=True)
    text_file(base / "dirr" / f"{sweep}.jsonl", [json_line(each_piece) for each_piece in lines])


def test_differences_of_tables(tmp_path: Path) -> None:
    first = publish(tmp_path)
    keys = [("add", "1"), ("add", "2"), ("add", 'Köln+name="IT + more"')]
    assert sorted(kinds_and_keys(first, tmp_path)) == sorted(keys)
    (ann,) = [
        op for op in operations_of(first, tmp_path) if "idu=1," in op.findtext("association", "")
    ]
    values = {a.attrib["attr-name"]: a.findtext("value") for a in ann.iterfind("add-attr")}
    assert values == {"fname": "Ann", "photo": "AP8=", "pay": "10.5"}
    execute(
        tmp_path,
        "UPDATE usr SET fname = NULL WHERE idu = 2",
        "INSERT INTO usr VALUES (3, 'Cy', NULL, 0)",
        "DELETE FROM dep",
    )
    second = publish(tmp_path)
    assert kinds_and_keys(second, tmp_path) == [
        ("add", "3"),
        ("delete", 'Köln+name="IT + more"'),
        ("modify", "2"),
    ]
    assert second.outcomes["ignored"] == 1
    assert publish(tmp_path).documents == 0


def test_a_missing_table_is_reported(tmp_path: Path) -> None:
    execute(tmp_path, "DROP TABLE dep")
    with pytest.raises(FatalError, match="has no table or view dep"):
        publish(tmp_path)


def test_a_table_without_a_key_needs_one(tmp_path: Path) -> None:
    execute(tmp_path, "DROP TABLE dep", "CREATE VIEW dep AS SELECT idu AS number, fname FROM usr")
    with pytest.raises(FatalError, match="the primary key of dep is unknown"):
        publish(tmp_path)
    report = publish(tmp_path, 'key = { dep = ["number"] }')
    assert report.operations == {"add": 4}


def test_hints_bring_a_comparison_forward(tmp_path: Path) -> None:
    more = 'samples = ["dirr"]\nschema = "hr"'
    hint(tmp_path, "USR", "$$$SYSRL", sweep=1)
    assert publish(tmp_path, more).operations == {"add": 3}
    execute(
        tmp_path,
        "UPDATE usr SET fname = 'Eve' WHERE idu = 1",
        "UPDATE dep SET chief = 2",
    )
    assert publish(tmp_path, more).state == "nothing new to read"
    hint(tmp_path, "USR", sweep=2, others=["DEP"])
    report = publish(tmp_path, more)
    assert (kinds_and_keys(report, tmp_path), report.read) == ([("modify", "1")], 2)
    assert publish(tmp_path, more).state == "nothing new to read"
    hint(tmp_path, "DEP", sweep=3)
    assert publish(tmp_path, more).operations == {"modify": 1}


def test_every_table_is_compared_in_time(tmp_path: Path) -> None:
    more = 'samples = ["dirr"]\nfull_interval = {}'
    hint(tmp_path, sweep=1)
    publish(tmp_path, more.format(3600))
    execute(tmp_path, "DELETE FROM dep")
    assert publish(tmp_path, more.format(3600)).state == "nothing new to read"
    assert publish(tmp_path, more.format(0)).operations == {"delete": 1}


def test_samples_that_cannot_be_read_bring_all_forward(tmp_path: Path) -> None:
    more = 'samples = ["dirr"]'
    hint(tmp_path, sweep=1)
    publish(tmp_path, more)
    execute(tmp_path, "DELETE FROM dep")
    later = json_line(call(4, element("OTHER", 5, 0), 2))
    text_file(tmp_path / "dirr" / "2.jsonl", ["no JSON", later])
    assert publish(tmp_path, more).operations == {"delete": 1}


def test_comparisons_that_find_nothing_leave_one_run(tmp_path: Path) -> None:
    """Only the last of them remains; runs that published documents are kept, in the sink, too."""
    more = ""
    first = publish(tmp_path, more)
    for _ in range(5):
        assert publish(tmp_path, more).documents == 0
    execute(tmp_path, "DELETE FROM dep")
    second = publish(tmp_path, more)
    last = [publish(tmp_path, more) for _ in range(5)][-1]
    left = [first.run, second.run, last.run]
    ledger = Ledger(tmp_path / ".xds-publisher" / "job", "job")
    assert [run.place.name for run in read_runs(ledger)] == left
    assert sorted(path.name for path in (tmp_path / "out" / "runs").iterdir()) == left
    execute(tmp_path, "DELETE FROM usr WHERE idu = 1")
    assert kinds_and_keys(publish(tmp_path, more), tmp_path) == [("delete", "1")]


def test_following_uses_hints(tmp_path: Path) -> None:
    hint(tmp_path, sweep=1)
    (tmp_path / "job.toml").write_text(JOB.format(more='samples = ["dirr"]'))
    with Job(load(tmp_path / "job.toml"), LocalEngine()) as job:
        job.finish()
        assert not job.backlog().is_empty
        assert job.run().has_ledger
        assert job.backlog().is_empty
        assert not job.run().has_ledger
        hint(tmp_path, "DEP", sweep=2)
        assert not job.backlog().is_empty


def test_what_can_be_compared_is_checked(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB.format(more=""))
    found = {finding.what: finding for finding in check(load(tmp_path / "job.toml"))}
    assert found["source hr"].detail.startswith("2 table(s) of SQLite")
    usr, dep = (found[f"sample of hr, table {name}"].detail for name in ("usr", "dep"))
    assert usr.startswith("first 2 record(s): 2 changes; first change usr:1:1: insert field")
    assert dep == (
        "first 1 record(s): 1 changes; first change dep:1:1: insert field of "
        'name="IT + more"+site=Köln in dep {"chief": "1"}'
    )
    execute(tmp_path, "DROP TABLE dep")
    found = {finding.what: finding for finding in check(load(tmp_path / "job.toml"))}
    assert not found["source hr"].ok


def test_large_rows_are_compared_in_more_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_comparison, "BUCKET_BYTES", 10_000)
    execute(
        tmp_path, *(f"INSERT INTO usr VALUES ({n}, '{n:0500}', NULL, 1)" for n in range(3, 103))
    )
    report = publish(tmp_path)
    folder = Path(report.ledger).parent / "state" / "hr" / "000001"
    state = json.loads((folder / "state.json").read_text())
    assert len(state["tables"]["usr"]["files"]) == 8
    assert len(state["tables"]["dep"]["files"]) == 1
    assert 50_000 < state["tables"]["usr"]["bytes"] < 60_000


def test_missing_samples_are_reported(tmp_path: Path) -> None:
    more = 'samples = ["dirr"]'
    (tmp_path / "job.toml").write_text(JOB.format(more=more))
    found = {finding.what: finding for finding in check(load(tmp_path / "job.toml"))}
    assert "dirr" in found["source hr"].detail
    assert not found["source hr"].ok


VIEW = """CREATE VIEW view_usr (pk_idu, sv_fname, mv_phoneno) AS
    SELECT usr.idu, fname, phoneno FROM usr LEFT JOIN phone ON phone.idu = usr.idu"""


def publish_class(base: Path, table: str, more: str = "") -> RunReport:
    job = JOB.format(more=more).replace('["usr", "dep"]', f'["{table}"]')
    (base / "job.toml").write_text(f'{job}\n[classes]\nsync_filter = "schema"\n')
    return publish_job(load(base / "job.toml"))


@pytest.fixture
def phones(tmp_path: Path) -> None:
    execute(
        tmp_path,
        "CREATE TABLE phone (idu INTEGER REFERENCES usr (idu), phoneno TEXT)",
        "INSERT INTO phone VALUES (1, '222'), (1, '111'), (1, '222')",
        VIEW,
    )


@pytest.mark.usefixtures("phones")
def test_the_rows_of_a_view_are_one_object(tmp_path: Path) -> None:
    report = publish_class(tmp_path, "view_usr", 'state = "values"')
    first, _ = sorted(
        operations_of(report, tmp_path), key=lambda op: str(op.findtext("association"))
    )
    assert [v.text for v in first.iterfind("add-attr[@attr-name='phoneno']/value")] == [
        "111",
        "222",
    ]
    assert (report.read, report.reasons) == (2, {})
    execute(tmp_path, "DELETE FROM phone WHERE phoneno = '222'")
    (changed,) = operations_of(publish_class(tmp_path, "view_usr", 'state = "values"'), tmp_path)
    assert [value.text for value in changed.iterfind("modify-attr/remove-value/value")] == ["222"]
    assert changed.find("modify-attr/add-value") is None


@pytest.mark.usefixtures("phones")
def test_a_child_table_is_not_compared_by_itself(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match=r"phone is a child table of usr, .* compare usr instead"):
        publish_class(tmp_path, "phone")


@pytest.mark.usefixtures("phones")
def test_a_dropped_child_table_publishes_nothing_and_a_new_one_its_values(tmp_path: Path) -> None:
    assert publish_class(tmp_path, "usr").operations == {"add": 2}
    execute(tmp_path, "DROP VIEW view_usr", "DROP TABLE phone")
    assert publish_class(tmp_path, "usr").documents == 0
    execute(
        tmp_path,
        "CREATE TABLE fax (idu INTEGER REFERENCES usr (idu), no TEXT)",
        "INSERT INTO fax VALUES (2, '9')",
    )
    (changed,) = operations_of(publish_class(tmp_path, "usr"), tmp_path)
    assert [part.attrib["attr-name"] for part in changed.iterfind("modify-attr")] == ["fax.no"]


@pytest.mark.usefixtures("phones")
def test_hints_on_a_child_table_bring_its_parent_forward(tmp_path: Path) -> None:
    more = 'samples = ["dirr"]\nschema = "hr"'
    hint(tmp_path, "USR", sweep=1)
    publish_class(tmp_path, "usr", more)
    execute(tmp_path, "DELETE FROM phone WHERE phoneno = '111'")
    hint(tmp_path, "DEP", sweep=2)
    assert publish_class(tmp_path, "usr", more).state == "nothing new to read"
    hint(tmp_path, "PHONE", sweep=3)
    assert publish_class(tmp_path, "usr", more).operations == {"modify": 1}


@pytest.mark.usefixtures("phones")
def test_a_child_table_of_two_parents_is_refused(tmp_path: Path) -> None:
    """Its foreign key refers to one, and the job file names another."""
    more = """[tables.dep]
key = ["chief"]
children = { phone = { columns = { phoneno = "string" }, link = ["idu"] } }"""
    with pytest.raises(FatalError, match="phone is a child table of dep and of usr"):
        publish_class(tmp_path, "usr", more)


JOINED = """state = "values"
key_change = "modify-association"
key_change_by = { DEP = ["chief"], usr = ["fname", "photo"] }
"""


def test_changed_keys_of_some_touched_tables(tmp_path: Path) -> None:
    more = f'{JOINED}samples = ["dirr"]'
    hint(tmp_path, "nothing", sweep=1)
    publish(tmp_path, more)
    execute(
        tmp_path,
        "UPDATE usr SET idu = idu + 10",
        "UPDATE dep SET site = 'Bonn', name = 'a=b', chief = 1",
    )
    hint(tmp_path, "USR", sweep=2)
    first = publish(tmp_path, more)  # the photo of the other one is NULL
    assert first.operations == {"modify-association": 1, "delete": 1, "add": 1}
    hint(tmp_path, "DEP", sweep=3)
    second = publish(tmp_path, more)
    (renamed,) = operations_of(second, tmp_path)
    assert renamed.tag == "modify-association"
    keys = [str(each.text).partition(",")[0] for each in renamed.iterfind("association")]
    assert keys == ['site=Köln+name="IT + more"', 'site=Bonn+name="a=b"']


def test_check_refuses_columns_that_do_not_identify_objects(tmp_path: Path) -> None:
    wrong = JOINED.replace('"chief"', '"site"')
    (tmp_path / "job.toml").write_text(JOB.format(more=wrong))
    found = {finding.what: finding for finding in check(load(tmp_path / "job.toml"))}
    assert "key_change_by names site" in found["source hr"].detail
    assert not found["source hr"].ok
