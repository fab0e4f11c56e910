"""Masked runs with a database are planned again: their journals have the answers sealed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.config.job_file import load
from publisher.engine.tables.journals import JOURNAL_TABLES, read_part
from publisher.journal import segment_files
from publisher.journal.scan_runs import scan_runs
from publisher.runs.what_if import plan_again
from tests.support.planted_logs import CHILDREN_JOB, write_children
from tests.support.planted_values import PlantedValues

HASH_ALL = '[masking]\nhash = ["*"]\nkey_env = "MASK_KEY"\n'
NOW = ("--now", "2030-01-01")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASK_KEY", "k" * 32)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def write_job(folder: Path, text: str) -> Path:
    job = folder / "job.toml"
    job.write_text(text)
    return job


@pytest.fixture
def looked_up(tmp_path: Path) -> Path:
    """A masked run of a job with a database."""
    job = write_job(tmp_path, CHILDREN_JOB.format(folder=tmp_path) + HASH_ALL)
    log, out = write_children(PlantedValues(), tmp_path, 30), tmp_path / "out"
    assert run("replay", log, "-c", job, "--to", out, *NOW).exit_code == 0
    return out


def test_masked_look_ups_are_planned_again(tmp_path: Path) -> None:
    planted, shown = PlantedValues(), {}
    (inputs := tmp_path / "in").mkdir()
    log = write_children(planted, inputs, 400)
    for name, masking in {"masked": HASH_ALL, "open": ""}.items():
        job = write_job(tmp_path, CHILDREN_JOB.format(folder=inputs) + masking)
        out = tmp_path / name
        assert run("replay", log, "-c", job, "--to", out, *NOW).exit_code == 0
        (inputs / "hr.db").rename(tmp_path / "hr.db")  # is not asked again
        result = run("diff", out, "-c", job)
        assert result.exit_code == 0, result.output
        shown[name] = run("explain", out, "1").output
        is_hidden = "record      not shown: the run is masked\n" in shown[name]
        assert is_hidden is (name == "masked")
        for change in ('documents.insert_query_back="add"', 'sources.log.identifier_case="upper"'):
            result = run("diff", out, "-c", job, "--set", change)
            assert result.exit_code == 3, result.output
            shown[name] += result.output
            with plan_again(out, [change], job=load(job)) as folder:
                found = planted.find_below(folder) | planted.find_below(out)
            assert (found == set()) is (name == "masked")
        assert (planted.find_in(shown[name]) == set()) is (name == "masked")
        (tmp_path / "hr.db").rename(inputs / "hr.db")
    counts = [
        re.findall(r"(?m)^(?:objects|records|operations|documents) .*", text)
        for text in shown.values()
    ]
    assert counts[0] == counts[1] != []


def test_the_journal_of_a_masked_run_shows_masked_look_ups(looked_up: Path) -> None:
    table = segment_files.LOOKUPS
    rows = [
        row
        for part in scan_runs(looked_up)
        for batch in read_part(part, table)
        for row in batch.to_pylist()
    ]
    assert {row["answer"] for row in rows} == {"row", "gone", "refused"}
    assert [*rows[0]] == JOURNAL_TABLES[table].names
    assert all(re.fullmatch("id[gu]=[0-9a-f]{32}", row["key"]) for row in rows)


def lookup_files(out: Path) -> list[Path]:
    return sorted(out.rglob("*.lookups.parquet"))


def test_masked_runs_of_older_versions_are_not_planned_again(looked_up: Path) -> None:
    (manifest,) = looked_up.rglob("manifest.json")
    job, text = looked_up.parent / "job.toml", manifest.read_text()
    older = json.dumps(json.loads(text) | {"catalogue": None})
    described, looked = "tables that its database described", "looked-up rows are only masked"
    tables = {path: pq.read_table(path) for path in lookup_files(looked_up)}
    for is_described, is_sealed in ((False, True), (True, False), (False, False)):
        manifest.write_text(text if is_described else older)
        for path, table in tables.items():
            pq.write_table(table if is_sealed else table.drop_columns(["sealed"]), path)
        result = run("diff", looked_up, "-c", job)
        assert result.exit_code == 2
        assert (described in result.output) is not is_described
        assert (looked in result.output) is not is_sealed
        assert run("explain", looked_up, "1").exit_code == 0


def test_sealed_look_ups_cannot_be_exchanged(looked_up: Path) -> None:
    for path in lookup_files(looked_up):
        table = pq.read_table(path)
        sealed = table["sealed"].to_pylist()
        others = pa.array([*sealed[1:], sealed[0]])
        pq.write_table(table.set_column(table.num_columns - 1, "sealed", others), path)
    result = run("diff", looked_up, "-c", looked_up.parent / "job.toml")
    assert result.exit_code == 1
    assert "it is damaged or misplaced" in result.output
