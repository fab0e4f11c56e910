"""Masked runs write none of the values that the job file masks."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from tests.support.event_log_files import csv_text, event
from tests.support.planted_values import PlantedValues

KEY = "0123456789abcdef" * 4
JOB = """
[source]
format = "event-log"
[tables.usr]
key = ["idu"]
columns = { idu = "int", fname = "string", lname = "string" }
"""
MASKING = """
[masking]
hash = ["idu", "usr.fname"]
key_env = "MASK_KEY"
"""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASK_KEY", KEY)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_a_hashed_column(tmp_path: Path) -> None:
    planted = PlantedValues()
    rows = [
        event(n, table_key=f"idu={planted.number()}", old_value=None, new_value=planted.text())
        for n in range(1, 51)
    ]
    log = tmp_path / "log.csv"
    log.write_text(csv_text(rows))
    job = tmp_path / "job.toml"
    found = {}
    for name, settings in {"masked": JOB + MASKING, "open": JOB}.items():
        job.write_text(settings)
        result = run("replay", log, "-c", job, "--to", tmp_path / name)
        assert result.exit_code == 0, result.output
        found[name] = planted.find_below(tmp_path / name) | planted.find_in(result.output)
    assert found == {"masked": set(), "open": planted.tokens}
