"""A full disk loses nothing.

A full disk left half-written logs that broke the next start, or was reported as damage. Needs the right
to mount a small file system.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.field.kafka_jobs import make_log
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

EVENTS = 20_000
JOB = """
[[sources]]
name = "log"
table = "log"
[database]
url = "sqlite:///app.db"
[dispatch]
path = "{out}"
[ledger]
path = "{ledger}"
[run]
engine = "local"
"""


@pytest.fixture
def small(bench: Workbench) -> Iterator[Path]:
    path = bench.folder / "small"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("not proved: a full disk (no right to mount one)")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def fill(place: Place) -> None:
    place.execute(
        "INSERT INTO log (record_id, table_key, event_type, table_name, column_name, new_value)"
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
        f"{EVENTS}) SELECT i, 'idu=' || i, 3, 'usr', 'fname', 'value ' || i FROM n"
    )


@pytest.mark.parametrize("what", ["out", "ledger"])
def test_the_same_command_completes_the_run_once_there_is_space(
    bench: Workbench, small: Path, what: str
) -> None:
    place = make_log(bench.folder)
    fill(place)
    places = {"out": "out", "ledger": "ledger", what: f"small/{what}"}
    bench.write("job.toml", JOB.format(**places))
    done = bench.run("publish", "-c", "job.toml", codes=[1])
    assert "No space left" in done.err or "no space" in done.err
    assert "Traceback" not in done.err
    assert place.query("SELECT DISTINCT status FROM log") == [("N",)]
    bench.run("status", "-c", "job.toml", codes=[0, 1, 3])
    subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
    bench.publish()
    assert len(bench.lines(places["out"])) == EVENTS
    assert len(bench.objects(places["out"])) == EVENTS
    assert place.query("SELECT DISTINCT status FROM log") == [("S",)]
