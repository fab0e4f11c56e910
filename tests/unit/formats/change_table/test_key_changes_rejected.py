"""A changed key is a delete and an add: both are published, or both are rejected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from publisher.config.job_file import load
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish as publish_job
from tests.support.change_table_files import record, write
from tests.support.event_log_files import Row

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[job]
reject_budget = "unlimited"
[[sources]]
name = "ct"
format = "change-table"
snapshots = ["usr__ct"]
key = ["idu"]
mask_order = "msb"
header_columns = 7
{more}
[dispatch]
path = "out"
[run]
lanes = {lanes}
"""
OTHER = record(1, "I", [0, 1], idu="5", fname="Ann")


def publish(base: Path, rows: Sequence[Row], more: str = "", lanes: int = 4) -> RunReport:
    (base / "usr__ct").mkdir()
    write(base / "usr__ct" / "1.csv", rows)
    (base / "job.toml").write_text(JOB.format(more=more, lanes=lanes))
    return publish_job(load(base / "job.toml"))


def rejects(base: Path) -> list[dict[str, Any]]:
    paths = sorted((base / "out" / "runs").rglob("*rejects.jsonl"))
    entries = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return sorted(entries, key=lambda entry: (entry["position"], entry["reason"]), reverse=True)


def move_key(fname: str | None) -> list[Row]:
    return [
        record(2, "B", idu="1", fname="Bob"),
        record(2, "U", [0, 1], idu="2", fname=fname),
    ]


@pytest.mark.parametrize("lanes", [1, 16])
def test_a_delete_is_rejected_if_its_add_cannot_be_written(lanes: int, tmp_path: Path) -> None:
    report = publish(tmp_path, [OTHER, *move_key("B\x01b")], 'images = "full"', lanes)
    assert report.outcomes["published"] == 1
    assert report.reasons["rejected"] == {"forbidden-character": 1, "held-back": 1}
    held_back, added = rejects(tmp_path)
    assert held_back["detail"].startswith(
        "the change of its key is rejected as a whole: its record 2024"
    )
    assert json.loads(held_back["raw"])["object"]["key"] == "idu=1"
    raw = json.loads(added["raw"])
    assert raw["object"]["key"] == "idu=2"
    assert raw["new"][raw["columns"].index("fname")] == "B\x01b"


def test_only_the_changes_of_one_record_are_rejected_together(tmp_path: Path) -> None:
    rows = [
        *move_key("Jim"),
        record(3, "I", [0, 1], idu="6", fname="x\x01"),
        record(4, "B", idu="5", fname="Ann"),
        record(4, "U", [1], idu="5", fname="A\x01"),
    ]
    rows += [row | {"header__transaction_id": "1" * 32} for row in [OTHER]]
    report = publish(tmp_path, rows, 'images = "full"')
    assert report.outcomes["published"] == 3
    assert report.reasons["rejected"] == {"forbidden-character": 3}
    raw = json.loads(rejects(tmp_path)[0]["raw"])
    assert (raw["old"], raw["new"]) == (["Ann"], ["A\x01"])
