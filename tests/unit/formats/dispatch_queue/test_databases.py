"""Exports with operations of several databases: numbers of tables are those of one of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from publisher.config.job_file import load
from publisher.errors import FatalError
from publisher.formats.dispatch_queue.dispatch_attrs import with_attributes
from publisher.formats.dispatch_queue.options import DispatchQueueOptions, QueueTable
from publisher.formats.dispatch_queue.owners import SourceTable, tables_as_facts, tables_of_facts
from publisher.formats.files.options import SnapshotOptions
from publisher.ledger.storage import transaction
from publisher.runs.publish import publish as publish_job
from tests.support.dispatch_queue_codes import COMMIT, INSERT
from tests.support.dispatch_queue_files import (
    OPTIONS,
    USR,
    Queue,
    Row,
    binary,
    image,
    jack,
    options,
    read,
    record_text,
)
from tests.support.dispatch_queue_jobs import QueueJob
from tests.support.local_engine import EngineSwitch


def rows(*nodes: str) -> list[Row]:
    """An insert of the row 1 of table 7 in each database."""
    queue, described = Queue(), []
    for node in nodes:
        name = node.encode()
        described += [queue.row(INSERT, jack(1), DBNODE=name), queue.row(COMMIT, DBNODE=name)]
    return described


def keys(used: DispatchQueueOptions, data: list[Row], folder: Path, wanted: int = 1) -> list[str]:
    records, _ = read(used, binary(data), folder, wanted)
    return [
        f"{r['part']} {r['schema']}.{r['table']} {r['key']}"
        for r in records
        if r["outcome"] is None
    ]


@pytest.mark.parametrize("wanted", [1, 100])
def test_two_databases_with_one_table_are_refused(wanted: int, tmp_path: Path) -> None:
    message = (
        r"operations on hr.usr: BRANCH \(TABNUM_SRC 7\) and MAIN \(TABNUM_SRC 7\).*set nodes to the"
        r" database to publish, or give .* its own name or schema in \[\[sources.tables\]\] with node"
    )
    with pytest.raises(FatalError, match=message):
        keys(OPTIONS, rows("MAIN", "BRANCH"), tmp_path, wanted)


def test_other_numbers_of_one_name_are_refused_too(tmp_path: Path) -> None:
    used = options(tables=(USR, replace(USR, number=9)))
    data = rows("MAIN", "BRANCH")
    data[2]["TABNUM_SRC"] = 9
    with pytest.raises(FatalError, match=r"BRANCH \(TABNUM_SRC 9\) and MAIN \(TABNUM_SRC 7\)"):
        keys(used, data, tmp_path)


def test_a_damaged_row_does_not_stop_the_others(tmp_path: Path) -> None:
    data = rows("MAIN", "LAIN")
    assert keys(OPTIONS, data[:3], tmp_path) == ["MAIN hr.usr idu=1"]
    assert keys(OPTIONS, [*data[:2], data[3]], tmp_path) == ["MAIN hr.usr idu=1"]


def test_a_database_that_is_not_chosen_does_not_count(tmp_path: Path) -> None:
    used = options(nodes=("BRANCH",))
    assert keys(used, rows("MAIN", "BRANCH"), tmp_path) == ["BRANCH hr.usr idu=1"]


def test_tables_of_their_own_name_are_published(tmp_path: Path) -> None:
    used = options(tables=(USR, replace(USR, node="BRANCH", schema="branch")))
    assert sorted(keys(used, rows("MAIN", "BRANCH"), tmp_path)) == [
        "BRANCH branch.usr idu=1",
        "MAIN hr.usr idu=1",
    ]


def test_a_number_means_another_table_in_another_database(tmp_path: Path) -> None:
    dept = QueueTable(7, node="BRANCH", name="dept", columns=("no SMALLINT",), key=("no",))
    queue = Queue()
    data = [
        *rows("MAIN"),
        queue.row(INSERT, image(dept, [5]), DBNODE=b"BRANCH"),
        queue.row(COMMIT, DBNODE=b"BRANCH"),
    ]
    records, _ = read(options(tables=(USR, dept)), binary(data), tmp_path)
    assert [record_text(r) for r in records if r["outcome"] is None][1] == "1 no=5 no=NULL"


def test_a_number_is_described_once_for_a_database() -> None:
    options(tables=(USR, replace(USR, node="MAIN"), replace(USR, node="BRANCH")))
    with pytest.raises(ValueError, match="a number appears twice for one node"):
        options(tables=(replace(USR, node="MAIN"), replace(USR, node="MAIN")))


def test_an_export_of_dispatch_attrs_describes_the_tables_of_all_databases(tmp_path: Path) -> None:
    (tmp_path / "attrs.csv").write_text("TABNUM_SRC,NAME,ATRNUM,TYP,PKEY,LEN\n7,id,1,2,1,4\n")
    used = DispatchQueueOptions(
        attributes=Path("attrs.csv"),
        tables=(QueueTable(7, node="BRANCH", name="branch_usr"),),
        null_mode="none",
    )
    described = with_attributes(used, tmp_path, SnapshotOptions())
    found = {(t.node, t.name, t.columns, t.key) for t in described.tables}
    columns = ("id INTEGER",)
    assert found == {("BRANCH", "branch_usr", columns, ("id",)), (None, None, columns, ("id",))}


def test_a_later_export_of_another_database_is_refused(
    tmp_path: Path, local_engine: EngineSwitch
) -> None:
    job = QueueJob(tmp_path)
    job.publish("1.dat", *rows("MAIN"))
    with pytest.raises(FatalError, match="two databases have operations on usr: BRANCH"):
        job.publish("2.dat", *rows("BRANCH"))
    with pytest.raises(FatalError, match="two databases have operations on usr: BRANCH"):
        publish_job(load(tmp_path / "job.toml"))
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(
        text.replace("[[sources]]", '[[sources]]\nnodes = ["BRANCH"]', 1)
    )
    report = publish_job(load(tmp_path / "job.toml"))
    assert report.documents == 1


def test_marks_of_another_version_are_refused(tmp_path: Path, local_engine: EngineSwitch) -> None:
    job = QueueJob(tmp_path)
    job.publish("1.dat", *rows("MAIN"))
    (path,) = tmp_path.rglob("ended.arrow")
    with pa.OSFile(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    with pa.ipc.new_file(str(path), table.schema.remove_metadata()) as writer:
        writer.write_table(table.replace_schema_metadata(None))
    with transaction(path.parents[3]) as ledger:
        ledger.execute("DELETE FROM file")  # as if that version had written it
    with pytest.raises(FatalError, match="has format 1, but this program reads format 2: use the"):
        job.publish("2.dat", *rows("MAIN"))


def test_names_of_tables_may_hold_any_character() -> None:
    table = SourceTable("MAIN\x1f", 7, "a\x1fb", 'c"', "", "d,\\")
    assert tables_of_facts(tables_as_facts([table])) == {table}
