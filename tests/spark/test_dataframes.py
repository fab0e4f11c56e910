"""The API of DataFrames, in a session with settings of somebody else."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import reduce
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.pandas.types import from_arrow_type

import publisher.dataframes as xds
from docs.dataframes_page import dataframes_page
from publisher.config.job_file import Overrides, load_to_read
from publisher.consumer import (
    Add,
    AddValue,
    Delete,
    Modify,
    ModifyAssociation,
    Operation,
    Origin,
    RemoveAllValues,
    RemoveValue,
    part_files,
    read_files,
)
from publisher.dataframes import input as api_input
from publisher.dataframes import output as api_output
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError, SettingsError, UsageError
from publisher.ledger.hours import Closing, hours_of
from publisher.ledger.read import scan_runs
from publisher.ledger.tables import TABLES as ALL_TABLES
from publisher.runs.replay import replay as run_replay
from publisher.tables.columns import TABLES
from publisher.tables.document_rows import operation_lists, read_document_file
from publisher.tables.ledger_rows import read_part
from tests.support.documentation import DOCS, blocks, text_of
from tests.support.finished_runs import finish_runs, make_ledgers
from tests.support.mixed_sources import INPUTS, write_inputs

FORMATS = {
    "event-log": "log",
    "change-table": "tables",
    "dispatch-queue": "queue",
    "linkexpress": "extract",
}
"""Names of sources in the job file by their format."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session of a user, with settings that the program would not choose."""
    session = spark.newSession()
    for name, value in {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    }.items():
        session.conf.set(name, value)
    return session


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    for name, first in (("before", "Ann"), ("after", "Eve")):
        (folder / name).mkdir()
        (folder / name / "usr.csv").write_text(f"idu,fname\n1,{first}\n{len(name)},Bob\n")
    return folder


def rows_of(root: Path, name: str) -> list[dict]:
    """The rows of a table of a ledger, read without Spark."""
    [table] = [table for table in ALL_TABLES if table.name == name]
    batches = [batch for part in scan_runs(root) for batch in read_part(part, table)]
    return [row for batch in batches for row in batch.to_pylist()]


def lines(directory: Path) -> list[str]:
    """The documents of all part files, in their order."""
    return [line for path in part_files(directory) for line in path.read_text("utf-8").splitlines()]


def input_of(format_: str, inputs: Path) -> tuple[Path, dict, dict]:
    """The files of a format, the job, and options of the source; one format is planned in Spark."""
    if format_ == "triggerless":
        job = {"tables": {"usr": {"key": ["idu"]}}, "run": {"lanes": 2, "engine": "spark"}}
        return inputs / "after", job, {"name": format_, "before": [str(inputs / "before")]}
    job = tomllib.loads((inputs / "job.toml").read_text()) | {"run": {"lanes": 1}}  # few tasks
    # tested elsewhere, because several jobs rank events by time
    options = {"future_events": False} if format_ == "event-log" else {}
    return inputs / INPUTS[FORMATS[format_]], job, {"name": format_, **options}


def test_every_format_gives_the_documents_and_records_of_a_replay(
    inputs: Path, session: SparkSession, tmp_path: Path
) -> None:
    columns = ("position", "key", "records", "outcome", "reason")
    documents, changes, decisions = [], [], {}
    for format_ in (*FORMATS, "triggerless"):
        path, job, options = input_of(format_, inputs)
        settings = load_to_read(job, options, Overrides(format=format_))
        run_replay(settings, [path], str(tmp_path / format_), engine=LocalEngine())
        planned = xds.plan(session, path, format=format_, job=job, scratch=tmp_path, **options)
        assert planned.report is not None
        assert planned.report.engine is not None
        assert planned.report.engine.name == ("spark" if format_ == "triggerless" else "local")
        documents.append(planned.documents)
        decisions[format_], replayed = (
            Counter(tuple(row[name] for name in columns) for row in rows_of(place, "records"))
            for place in (Path(planned.report.target), tmp_path / format_)
        )
        assert decisions[format_] == replayed
        found = xds.changes(session, path, format=format_, job=job, scratch=tmp_path, **options)
        changes.append(found.select(lit(format_), *columns))
    for format_, rows in grouped(documents, "source", "lane", "number", "text").items():
        assert [text for _, _, text in sorted(rows)] == lines(tmp_path / format_) != []
    read = grouped(changes, *changes[0].columns)
    assert read.keys() == decisions.keys()
    for format_, rows in read.items():
        assert Counter(row[:3] for row in rows) == Counter(
            row[:3] for row in decisions[format_].elements()
        )
        assert {row for row in rows if row[3]} <= decisions[format_].keys()


def grouped(frames: list[DataFrame], *columns: str) -> dict[str, list[tuple]]:
    """The rows of several tables by their first column, read in one job."""
    rows: dict[str, list[tuple]] = {}
    for name, *row in reduce(DataFrame.union, frames).select(*columns).collect():
        rows.setdefault(name, []).append(tuple(row))
    return rows


def test_a_masked_replay_has_no_value_as_it_was(
    inputs: Path, session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASK_KEY", "k" * 32)
    masking = {"hash": ["*"], "key_env": "MASK_KEY", "runs": "masked replays"}
    job, texts = {"masking": masking, "run": {"lanes": 1}}, []
    for name in ("open", "masked"):
        target, masked = tmp_path / name, name == "masked"
        report = xds.replay(session, inputs / INPUTS["log"], target, job=job, masked=masked)
        assert report.documents
        texts.append("".join(file.read_text() for file in (tmp_path / name).glob("part-*")))
    values = re.findall(r'<value type="string">([^<]+)</value>', texts[0])
    assert values
    assert not any(value in texts[1] for value in values)


def test_published_documents_are_read_as_the_consumer_reads_them(
    inputs: Path, tmp_path: Path
) -> None:
    settings = load_to_read(inputs / "job.toml", {}, Overrides(format="event-log"))
    run_replay(settings, [inputs / "log"], str(tmp_path / "out"), engine=LocalEngine())
    files = part_files(tmp_path / "out")
    expected = [*read_files(files)]
    read = [
        row
        for file in files
        for batch in read_document_file(str(file))
        for row in batch.to_pylist()
    ]
    assert [(row["file"], row["line"]) for row in read] == [
        (delivery.origin.part, delivery.origin.number) for delivery in expected
    ]
    assert [row["text"] for row in read] == lines(tmp_path / "out")
    assert [[plain(operation) for operation in row["operations"]] for row in read] == [
        [typed(operation) for operation in delivery.operations] for delivery in expected
    ]


def plain(operation: dict) -> tuple:
    changes = [(c["kind"], c["attribute"], c["value"], c["type"]) for c in operation["changes"]]
    return operation["kind"], operation["association"], operation["class_name"], changes


def typed(operation: Operation) -> tuple:
    """The same of the consumer's operation."""
    assert not isinstance(operation, ModifyAssociation)
    changes = [
        (KINDS[type(c)], c.attribute, None, None)
        if isinstance(c, RemoveAllValues)
        else (KINDS[type(c)], c.attribute, c.value.text, c.value.type)
        for c in getattr(operation, "changes", ())
    ]
    return KINDS[type(operation)], operation.association, operation.class_name, changes


KINDS: dict[type, str] = {
    Add: "add",
    Modify: "modify",
    Delete: "delete",
    AddValue: "add-value",
    RemoveValue: "remove-value",
    RemoveAllValues: "remove-all-values",
}


def test_components_references_and_changes_of_keys_are_read() -> None:
    value = '<value type="structured"><component name="a" association-ref="x">b</component></value>'
    texts = [
        (
            "<nds><input><modify-association><association>a=1</association><association>a=2</association>"
            "</modify-association></input></nds>"
        ),
        (
            '<nds><input><add class-name="c" event-id="e"><association>a=1</association>'
            f'<add-attr attr-name="n">{value}</add-attr></add></input></nds>'
        ),
    ]
    lists = operation_lists((Origin("file", 1), text) for text in [*texts, None]).to_pylist()
    (rekeyed,), (added,), missing = lists
    assert (rekeyed["kind"], rekeyed["association"], rekeyed["new_association"]) == (
        "modify-association",
        "a=1",
        "a=2",
    )
    assert added["event_id"] == "e"
    assert added["changes"][0]["components"] == [{"name": "a", "text": "b", "association_ref": "x"}]
    assert missing is None


@pytest.mark.parametrize("module", [api_input, api_output])
def test_examples_in_docstrings_print_what_they_show(
    module: ModuleType,
    session: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(
        tmp_path_factory.getbasetemp()
    )  # the second module reads what the first wrote
    Path("log.csv").write_text(blocks(text_of("tutorials/first-documents.md"), "csv")[0], "utf-8")
    names = {name: getattr(xds, name) for name in xds.__all__}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(exclude_empty=True).find(
        module, globs=names | {"spark": session}
    ):
        runner.run(test)
    assert runner.failures == 0
    assert runner.tries > 3


def test_a_job_has_the_tables_of_all_its_runs(session: SparkSession, tmp_path: Path) -> None:
    ledger = make_ledgers(tmp_path)
    runs = finish_runs(ledger, 5)
    separate = {name: rows_of(ledger.root, name) for name in ("records", "documents", "lookups")}
    assert Closing(ledger.root, lambda: None, seconds=0, fewest=1).step()
    assert hours_of(ledger.root)
    tables = xds.ledger(session, ledger.root)
    for name, expected in separate.items():
        frame = getattr(tables, name)
        assert Counter(map(str, frame.toArrow().to_pylist())) == Counter(map(str, expected))
    assert {row["run"] for row in separate["records"]} == set(runs)
    refused = [row for row in separate["documents"] if row["refused"]]
    assert [row["refused"] for row in refused] == ["too-large"] * len(refused)
    assert len(refused) >= len(runs) - 1
    for document in refused:
        [decision] = [
            row
            for row in separate["records"]
            if (row["run"], row["lane"], row["document"]) == (document["run"], document["lane"], 0)
        ]
        assert (decision["outcome"], decision["reason"]) == ("rejected", "too-large")


def test_problems_are_errors_of_the_program_with_their_places(
    inputs: Path, session: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as wrong:
        xds.changes(session, inputs / "log", delimitr=";", encoding=3)
    assert wrong.value.lines == [
        'encoding: should be text in quotes, as "A", not 3',
        "delimitr: unknown key, did you mean delimiter?",
    ]
    with pytest.raises(SettingsError, match=r"^format: should be 'event-log', "):
        xds.plan(session, inputs / "log", format="csv")
    with pytest.raises(UsageError, match="has several sources"):
        xds.changes(session, inputs / "log", job=inputs / "job.toml")
    with pytest.raises(UsageError, match="has no ledger"):
        xds.ledger(session, tmp_path)

    file = tmp_path / "log.csv"
    file.write_bytes((inputs / "log" / "0.csv").read_bytes())
    changes = xds.changes(session, file)
    file.write_text("another file")
    with pytest.raises(FatalError, match=r"log\.csv has changed"), xds.publisher_errors():
        changes.count()
    with pytest.raises(FatalError, match=r"log\.csv:1: not XML"), xds.publisher_errors():
        xds.read_documents(session, file).count()


def test_tasks_on_other_machines_need_a_shared_directory(
    inputs: Path, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("publisher.dataframes.session.is_local", lambda _: False)
    with pytest.raises(UsageError, match="scratch="):
        xds.changes(session, inputs / "log")


def test_columns_are_described(session: SparkSession, inputs: Path, tmp_path: Path) -> None:
    frames = {"changes": xds.changes(session, inputs / "log", scratch=tmp_path)}
    frames["read_documents"] = xds.read_documents(session, tmp_path / "any.xds")
    for name, frame in frames.items():
        for field, column in zip(frame.schema, TABLES[name], strict=True):
            assert (field.name, field.dataType) == (column.name, from_arrow_type(column.type))
            assert field.metadata == {"comment": column.description}


def test_the_reference_page_is_up_to_date() -> None:
    page = (DOCS / "reference" / "dataframes.md").read_text("utf-8")
    assert page == dataframes_page(), "dataframes.md is stale; run ./run docs"


def test_neither_the_package_nor_the_command_line_loads_the_api() -> None:
    program = (
        "import sys, publisher, publisher.cli.main\n"
        "assert not {'pyspark', 'publisher.dataframes'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
