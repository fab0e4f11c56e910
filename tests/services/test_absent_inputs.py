"""An input directory that is absent for some seconds while a real process follows it."""

from __future__ import annotations

from pathlib import Path

from publisher.ledger.storage import query
from tests.chaos.process import Started
from tests.support.followed_jobs import published_values, write_file

JOB = """
[[sources]]
name = "hr"
snapshots = ["in"]

[dispatch]
path = "out"

[follow]
polling_interval = 0.2

[run]
engine = "local"
"""


def test_a_directory_that_goes_and_comes_back_is_followed(tmp_path: Path) -> None:
    """It is absent at the start, and once more after a file of it was published."""
    job, inputs, away = tmp_path / "job.toml", tmp_path / "in", tmp_path / "away"
    job.write_text(JOB)
    with Started(["publish", "--follow", "-c", str(job)]) as started:
        started.wait_until(lambda: f"source hr: {inputs} does not exist" in started.messages())
        write_file(tmp_path, "1.csv", 1)
        started.wait_until(lambda: published_values(tmp_path) == ["1"])
        before = started.messages().count("retrying in")
        inputs.rename(away)
        started.wait_until(lambda: started.messages().count("retrying in") >= before + 2)
        away.rename(inputs)
        write_file(tmp_path, "2.csv", 2, 3)
        started.wait_until(lambda: published_values(tmp_path) == ["1", "2", "3"])
        started.process.terminate()
        code, message = started.wait_for_end()
    assert code == 0, message
    runs = query(tmp_path / ".xds-publisher" / "job", "SELECT name FROM run ORDER BY number")
    assert runs == [("job-000001",), ("job-000002",)]
