"""Text rows that cannot be read and reject the transaction that they name."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish as publish_job
from tests.support.dispatch_queue_codes import COMMIT, INSERT
from tests.support.dispatch_queue_files import (
    Queue,
    Row,
    delimited_text,
    jack,
    options,
    read,
    record_texts,
)
from tests.support.dispatch_queue_jobs import QueueJob
from tests.support.local_engine import EngineSwitch

BROKEN = [
    {"DATA": "no hex"},
    {"OPER_DATE": "yesterday"},
    {"TABNUM_SRC": "seven"},
    {"SYSLOG_ADDR": "nowhere"},
    {"SYSLOG_ADDR": "99999999999999999999"},
]


def text(rows: Sequence[Row], line: int, changed: dict[str, str]) -> str:
    """An export in which columns of one line are replaced."""
    header, *lines = csv.reader(io.StringIO(delimited_text(rows)))
    lines[line] = [changed.get(name, v) for name, v in zip(header, lines[line], strict=True)]
    export = io.StringIO()
    csv.writer(export, lineterminator="\n").writerows([header, *lines])
    return export.getvalue()


def rows() -> list[Row]:
    """Transaction 1 of three operations, another one, and its number used again."""
    queue = Queue()
    return [
        queue.row(INSERT, jack(1)),
        queue.row(INSERT, jack(2)),
        queue.row(INSERT, jack(5), TRANSACT_ID=2),
        queue.row(COMMIT, TRANSACT_ID=2),
        queue.row(INSERT, jack(3)),
        queue.row(COMMIT),
        queue.row(INSERT, jack(4)),
        queue.row(COMMIT),
    ]


@pytest.mark.parametrize("wanted", [1, 100])
@pytest.mark.parametrize("changed", BROKEN)
def test_a_row_that_cannot_be_read_rejects_its_transaction(
    changed: dict[str, str], wanted: int, tmp_path: Path
) -> None:
    records, _ = read(options(), text(rows(), 1, changed), tmp_path, wanted)
    again = "rejected held-back" if "SYSLOG_ADDR" in changed else "1 idu=4"
    found = [line.partition(" fname")[0] for line in record_texts(records)]
    assert found == [
        "rejected held-back",
        "rejected broken-record",
        "1 idu=5",
        "ignored commit",
        "rejected held-back",
        "ignored commit",
        again,
        "ignored commit",
    ]


@pytest.mark.parametrize("more", [{"nodes": ("BRANCH",)}, {"destination": "SRV2"}])
def test_a_row_that_is_not_chosen_rejects_nothing(more: dict[str, object], tmp_path: Path) -> None:
    export = rows()
    export[1] |= {"DBNODE": b"MAIN"}
    for row in (*export[:1], *export[2:]):
        row |= {"DBNODE": b"BRANCH", "DST_SERVER": b"SRV2"}
    records, _ = read(options(**more), text(export, 1, BROKEN[0]), tmp_path)
    assert [line.split()[0] for line in record_texts(records)].count("rejected") == 1


def test_a_row_that_names_no_transaction_rejects_only_itself(tmp_path: Path) -> None:
    records, _ = read(options(), text(rows(), 1, {"TRANSACT_ID": "one"}), tmp_path)
    assert [line.split()[0] for line in record_texts(records)].count("rejected") == 1


@pytest.mark.parametrize("changed", BROKEN)
def test_a_reject_is_remembered_until_the_commit(
    changed: dict[str, str], tmp_path: Path, local_engine: EngineSwitch
) -> None:
    job, export = QueueJob(tmp_path), rows()

    def publish(name: str, exported: str) -> RunReport:
        (tmp_path / "in" / name).write_text(exported)
        return publish_job(load(tmp_path / "job.toml"))

    publish("1.csv", text(export[:2], 1, changed))
    publish("2.csv", delimited_text(export[2:4]))
    report = publish("3.csv", delimited_text(export[4:6]))
    assert report.reasons["rejected"] == {"held-back": 2}
    publish("4.csv", delimited_text(export[6:]))
    assert job.keys() == ["idu=5", "idu=4"]
