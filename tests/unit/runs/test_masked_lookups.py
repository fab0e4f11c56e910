"""The journal of a masked run with a database."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.engine.tables.journals import JOURNAL_TABLES, read_part
from publisher.journal import segment_files
from publisher.journal.scan_runs import scan_runs
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


def test_the_journal_of_a_masked_run_shows_masked_look_ups(tmp_path: Path) -> None:
    planted, out = PlantedValues(), tmp_path / "out"
    job = write_job(tmp_path, CHILDREN_JOB.format(folder=tmp_path) + HASH_ALL)
    log = write_children(planted, tmp_path, 30)
    assert run("replay", log, "-c", job, "--to", out, *NOW).exit_code == 0
    shown = run("explain", out, "1").output
    assert "record      not shown: the run is masked\n" in shown
    assert planted.find_in(shown) == planted.find_below(out) == set()
    table = segment_files.LOOKUPS
    rows = [
        row
        for part in scan_runs(out)
        for batch in read_part(part, table)
        for row in batch.to_pylist()
    ]
    assert {row["answer"] for row in rows} == {"row", "gone", "refused"}
    assert [*rows[0]] == JOURNAL_TABLES[table].names
    assert all(re.fullmatch("id[gu]=[0-9a-f]{32}", row["key"]) for row in rows)
