"""Comparisons in Spark: the same as without it, whatever the number of parts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish as publish_job
from tests.support.compared_jobs import TABLE, table_row, write_table

pytestmark = pytest.mark.usefixtures("spark")

SOURCE = """
[[sources]]
name = "hr"
format = "triggerless"
snapshots = ["in"]
{}
"""
ROWS = [table_row(n, f"name {n}", None if n % 3 else "x") for n in range(3_000)]
LATER = [
    table_row(n, "new" if n % 50 == 0 else f"name {n}", None if n % 3 else "x")
    for n in range(30, 3_030)
]


def publish(base: Path, more: str) -> RunReport:
    (base / "job.toml").write_text(SOURCE.format(more) + TABLE.replace("lanes = 1", "lanes = 3"))
    return publish_job(load(base / "job.toml"))


def both(base: Path, first: str, second: str) -> RunReport:
    """The second of two comparisons; the table comes in several parts."""
    for rows, more in ((ROWS, first), (LATER, second)):
        shutil.rmtree(base / "in", ignore_errors=True)
        (base / "in" / "usr").mkdir(parents=True)
        for part in range(3):
            path = write_table(base, rows[part::3])
            path.rename(base / "in" / "usr" / f"part-{part}.csv")
        report = publish(base, more)
    return report


def parts(base: Path) -> dict[str, bytes]:
    runs = base / "out" / "runs"
    return {str(path.relative_to(runs)): path.read_bytes() for path in runs.rglob("part-*.xds")}


def test_any_number_of_parts_gives_the_same_bytes(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "here").mkdir()
    report = both(tmp_path / "spark", "buckets = 4", "buckets = 8")
    request.getfixturevalue("local_engine")
    both(tmp_path / "here", "buckets = 2", "buckets = 1")
    assert parts(tmp_path / "spark") == parts(tmp_path / "here")
    assert report.operations == {"add": 30, "delete": 30, "modify": 59}
    assert report.reasons == {"ignored": {"unchanged": 2_911}}
    folder = Path(report.ledger).parent / "state" / "hr" / report.run[-6:]
    state = json.loads((folder / "state.json").read_text())
    assert len(state["tables"]["usr"]["files"]) == 8
    kept = sorted(path.name for path in (folder / "known").iterdir())
    assert kept == sorted(state["tables"]["usr"]["files"])


def test_what_a_task_cannot_read_is_told(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1)])
    publish(tmp_path, "")
    (known,) = (tmp_path / ".xds-publisher").rglob("known/*")
    known.unlink()
    write_table(tmp_path, [table_row(2)])
    with pytest.raises(Exception, match="is missing or was changed"):
        publish(tmp_path, "")
