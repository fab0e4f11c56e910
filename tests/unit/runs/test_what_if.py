"""Runs planned again from their journals, with the same settings and with others."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.config.job_file import defaults, load
from publisher.config.journalled_settings import change_settings, restore_settings
from publisher.config.settings import Settings
from publisher.errors import FatalError, SettingsError, UsageError
from publisher.journal.manifest import Journal, Manifest
from publisher.planning.polls import PollOptions
from publisher.reports.diff.build import diff_journals
from publisher.reports.diff.differences import JournalDiff
from publisher.runs.replay import replay
from publisher.runs.what_if import plan_again
from publisher.sources.files.options import SnapshotOptions
from tests.support import compared_jobs
from tests.support.compared_jobs import table_row, write_table
from tests.support.dispatch_queue_codes import COMMIT, INSERT
from tests.support.dispatch_queue_files import Queue, jack
from tests.support.dispatch_queue_jobs import QueueJob
from tests.support.event_log_files import USR
from tests.support.followed_jobs import HEADER
from tests.support.samples import SAMPLES
from tests.support.source_contract import Sample

STORY = Path(__file__).parents[2] / "golden" / "change_table" / "story.csv"

pytestmark = pytest.mark.usefixtures("local_engine")


def settings_of(sample: Sample) -> Settings:
    base = defaults()
    source = replace(
        base.sources[0],
        name="sample",
        format=sample.source.format,
        options=sample.source.options,
        reading=getattr(sample.source, "reading", SnapshotOptions()),
        polls=PollOptions() if sample.source.format == "event-log" else None,
    )
    return replace(base, sources=(source,), tables=(USR,))


def compare(directory: Path, *assignments: str) -> JournalDiff:
    """Compares a run with its plan under other settings."""
    with plan_again(directory, assignments) as planned:
        return diff_journals(directory, planned)


def manifest_of(directory: Path) -> Manifest:
    manifest = Journal(directory / "_journal").manifest()
    assert manifest is not None
    return manifest


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_the_same_settings_give_the_same_plan(sample: Sample, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = sample.make(tmp_path / "in" / sample.name)
    report = replay(settings_of(sample), [path], str(tmp_path / "out"))
    found = compare(tmp_path / "out")
    assert not found.differs
    assert found.records.same == report.read


JOB = """
[[sources]]
name = "hr"
format = "event-log"
exclude = ["secret*"]
columns = {id = "record_id"}
poll_size = 7
schema = "people"
[documents]
batch_size = 2
[classes]
enable_refs = false
[tables.usr]
key = ["idu"]
columns = {idu = "int", fname = "string", "boss" = "string"}
references = {boss = {table = "usr"}}
[tables.usr.children.phone]
columns = {number = "string"}
"""


def run_job(tmp_path: Path) -> Path:
    (tmp_path / "hr.toml").write_text(JOB)
    log = tmp_path / "log.csv"
    rows = [
        f"{n},idu={n % 3},N,{1 + n % 2 * 2},2026-01-01,hr,usr,fname,a,b{n}\n" for n in range(30)
    ]
    log.write_text(HEADER.replace("record_id", "id") + "".join(rows))
    replay(load(tmp_path / "hr.toml"), [log], str(tmp_path / "out"), window=(None, "25"))
    return tmp_path / "out"


def test_settings_are_restored_from_the_journal(tmp_path: Path) -> None:
    manifest = manifest_of(run_job(tmp_path))
    settings = restore_settings(manifest)
    assert json.loads(settings.meaning()) == manifest.settings
    assert settings.tables == load(tmp_path / "hr.toml").tables
    assert not compare(tmp_path / "out").differs
    with pytest.raises(FatalError, match="cannot be restored"):
        restore_settings(replace(manifest, settings={**manifest.settings, "other": 1}))


def test_other_settings_are_compared(tmp_path: Path) -> None:
    out = run_job(tmp_path)
    batches = compare(out, "documents.batch_size=1")
    assert batches.documents.changed
    assert not batches.operations.differs
    excluded = compare(out, 'sources.hr.exclude=["usr"]')
    assert (
        excluded.operations.only_first == excluded.operations.same + excluded.operations.only_first
    )
    assert {each.change.partition(" → ")[2] for each in excluded.record_differences} == {
        "ignored (excluded)"
    }
    assert compare(out, "sources.hr.poll_size=1", "sources.hr.poll_slack=0").differs


def test_wrong_settings_are_all_listed(tmp_path: Path) -> None:
    settings = restore_settings(manifest_of(run_job(tmp_path)))
    assignments = ["documents.batch_sise=1", "run.lanes=2", "sources.no.exclude=a", "documents"]
    assignments += ["sources.hr.poll_size=0", "classes.enable_refs=maybe"]
    with pytest.raises(SettingsError) as refused:
        change_settings(settings, assignments)
    known = "set sources.NAME.SETTING, documents.SETTING or classes.SETTING"
    assert refused.value.lines == [
        "--set documents.batch_sise: unknown key, did you mean batch_size?",
        f"--set run.lanes: cannot be changed; {known}",
        "--set sources.no.exclude: the run has no source no; its sources are hr",
        "--set documents: has no value; write it as documents.insert_query_back=add",
        "--set sources.hr.poll_size: should be greater than or equal to 1, not 0",
        '--set classes.enable_refs: should be true or false, not "maybe"',
    ]


def test_changed_input_is_refused(tmp_path: Path) -> None:
    out = run_job(tmp_path)
    log = tmp_path / "log.csv"
    log.write_text(log.read_text() + "\n")
    with pytest.raises(UsageError, match=r"cannot be planned again: .*log.csv has changed"):
        compare(out)
    log.unlink()
    with pytest.raises(UsageError, match=r"log.csv cannot be read \(No such file"):
        compare(out)


def test_a_changed_description_of_input_is_refused(tmp_path: Path) -> None:
    for suffix in (".csv", ".dfm"):
        shutil.copyfile(STORY.with_suffix(suffix), tmp_path / f"usr__ct{suffix}")
    job = tmp_path / "job.toml"
    job.write_text('[[sources]]\nformat = "change-table"\n[tables.usr]\nkey = ["idu"]\n')
    out = tmp_path / "out"
    first = replay(load(job), [tmp_path / "usr__ct.csv"], str(out))
    assert not compare(out).differs
    dfm = tmp_path / "usr__ct.dfm"
    content = dfm.read_text()
    dfm.write_text(content + " ")
    other = replay(load(job), [tmp_path / "usr__ct.csv"], str(tmp_path / "other"))
    assert other.run != first.run
    with pytest.raises(UsageError, match=r"cannot be planned again: .*usr__ct.dfm has changed"):
        compare(out)
    dfm.unlink()
    with pytest.raises(UsageError, match=r"usr__ct.dfm cannot be read \(No such file"):
        compare(out)
    dfm.write_text(content)
    assert not compare(out).differs


def test_a_run_of_a_job_continues_from_the_state_before_it(tmp_path: Path) -> None:
    jobs = tmp_path / ".xds-publisher" / "job"
    job, queue = QueueJob(tmp_path), Queue()
    rows = [queue.row(INSERT, jack(n), TRANSACT_ID=n) for n in (1, 2)]
    job.publish("1.dat", *rows, queue.row(COMMIT, TRANSACT_ID=2))
    report = job.publish("2.dat", queue.row(COMMIT, TRANSACT_ID=1))
    assert report.outcomes["published"] == 1
    found = compare(jobs / "job-000002")
    assert not found.differs
    assert found.records.same == report.read
    source = report.sources[0].name
    assert compare(jobs / "job-000002", f"sources.{source}.exclude_columns=['fname']").differs
    with pytest.raises(UsageError, match="has all runs of a job"):
        compare(jobs)
    shutil.rmtree(jobs / "job-000001")
    with pytest.raises(UsageError, match=r"the state of source .* before the run is deleted"):
        compare(jobs / "job-000002")


def test_compared_tables_of_a_job_are_refused(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1)])
    compared_jobs.publish(tmp_path)
    with pytest.raises(UsageError, match="earlier state of the tables of source hr is not kept"):
        compare(tmp_path / ".xds-publisher" / "job" / "job-000001")


def test_the_command_compares_with_other_settings(tmp_path: Path) -> None:
    out = run_job(tmp_path)
    same = CliRunner().invoke(cli, ["diff", str(out), "--engine", "local"])
    assert same.exit_code == 0
    result = CliRunner().invoke(cli, ["diff", str(out), "--set", "documents.batch_size=1"])
    assert result.exit_code == 3
    assert "second      planned again with documents.batch_size=1: 1 run(s)" in result.output
    both = CliRunner().invoke(cli, ["diff", str(out), str(out), "--set", "documents.batch_size=1"])
    assert both.exit_code == 2


TABLES = """
CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, boss INTEGER REFERENCES usr (idu));
CREATE TABLE phone (idu INTEGER REFERENCES usr (idu), number TEXT);
CREATE VIEW v_usr AS SELECT idu AS pk_idu, fname FROM usr;
INSERT INTO usr VALUES (0, 'Ann', NULL), (1, 'Bob', 0), (2, 'Cid', 1), (3, 'Dan', 0);
INSERT INTO phone VALUES (1, '11'), (1, '12'), (2, '21');
"""

QUERY_BACKS = [
    *("USR,fname,5,0", "usr,fname,6,1", "phone,number,8,1", "usr,fname,7,2", "usr,fname,3,2"),
    *("usr,fname,8,9", "nothing,fname,6,1", "v_usr,fname,6,1", "usr,lname,8,1", "usr,boss,8,2"),
    *("usr,boss,8,3", "phone,number,8,2"),
]


def run_with_database(tmp_path: Path, name: str, **options: str) -> Path:
    """A replay with look-ups of rows, of child tables, of rows that are gone, and of unknown tables."""
    database = tmp_path / "hr.db"
    if not database.exists():
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript(TABLES)
    log = tmp_path / "log.csv"
    if not log.exists():
        rows = []
        for number, event in enumerate(QUERY_BACKS):
            table, column, type_, key = event.split(",")
            key_column = "pk_idu" if table == "v_usr" else "idu"
            rows.append(
                f"{number},{key_column}={key},N,{type_},2026-01-01,hr,{table},{column},,x\n"
            )
        log.write_text(HEADER + "".join(rows))
    case = options.pop("identifier_case", "database")
    excludes = options.pop("excludes", "")
    documents = "".join(f'{option} = "{value}"\n' for option, value in options.items())
    path = tmp_path / f"{name}.toml"
    path.write_text(
        f'[[sources]]\nname = "hr"\nschema = "people"\nidentifier_case = "{case}"\n{excludes}[database]\n'
        f'url = "sqlite:///hr.db"\n[documents]\n{documents}'
    )
    replay(load(path), [log], str(tmp_path / name))
    return tmp_path / name


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("documents.insert_query_back", "add"),
        ("sources.hr.identifier_case", "upper"),
    ],
)
def test_the_plan_is_that_of_a_replay_with_the_same_settings(
    key: str, value: str, tmp_path: Path
) -> None:
    before = run_with_database(tmp_path, "before")
    after = run_with_database(tmp_path, "after", **{key.rpartition(".")[2]: value})
    (tmp_path / "hr.db").unlink()
    assert not compare(before).differs
    assert diff_journals(before, after).differs
    with plan_again(before, [f"{key}={value}"]) as planned:
        assert not diff_journals(planned, after).differs


@pytest.mark.parametrize(
    ("excluded", "message"),
    [
        ('exclude_columns = ["boss"]', r"does not have the row of idu=3 of people.usr"),
        ('exclude = ["v_usr"]', r"does not describe table v_usr"),
        ('exclude_columns = ["number"]', r"does not have phone.number of idu=2 of people.usr"),
    ],
)
def test_what_the_run_did_not_ask_is_named(excluded: str, message: str, tmp_path: Path) -> None:
    before = run_with_database(tmp_path, "before", excludes=f"{excluded}\n")
    assert not compare(before).differs
    name = excluded.partition(" ")[0]
    with pytest.raises(UsageError, match=message):
        compare(before, f"sources.hr.{name}=[]")


def test_a_journal_without_the_catalogue_is_refused(tmp_path: Path) -> None:
    journal = Journal(run_with_database(tmp_path, "before") / "_journal")
    manifest = manifest_of(tmp_path / "before")
    journal.commit(replace(manifest, catalogue=None))
    with pytest.raises(UsageError, match="the tables that its database described are not in its"):
        compare(tmp_path / "before")
