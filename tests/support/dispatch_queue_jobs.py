"""Jobs that read exports of a DISPATCH_QUEUE."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from publisher.config.job_file import load
from publisher.ledger.conservation import RunReport
from publisher.runs import replay as job
from publisher.runs.publish import publish as publish_job
from tests.support.dispatch_queue_codes import COMMIT, INSERT
from tests.support.dispatch_queue_files import Queue, Row, binary, delimited_text, jack

_SOURCE = """\
[job]
reject_budget = "unlimited"
[[sources]]
format = "dispatch-queue"
null_mode = "byte_before"
null_flag = 1
image_charset = "cp866"
{more}
[[sources.tables]]
number = 7
name = "usr"
columns = ["idu INTEGER", "fname CHAR(8)", "lname VARCHAR(12)", "photo BLOB(24)", "note CHAR(4)"]
key = ["idu"]
"""
JOB = (
    _SOURCE.replace("{more}", 'snapshots = ["in"]\n{more}')
    + """\
[[sources.tables]]
number = 8
name = "big"
columns = ["id BIGINT", "a CHAR(2000)", "b CHAR(3000)"]
key = ["id"]
[dispatch]
path = "out"
[run]
lanes = 1
"""
)
QUEUE = _SOURCE + "[run]\nlanes = {lanes}\n"


class QueueJob:
    """A job in a folder, and the exports that are put there."""

    def __init__(self, base: Path, more: str = "") -> None:
        self.base = base
        (base / "in").mkdir()
        (base / "job.toml").write_text(JOB.format(more=more))

    def publish(self, name: str, *rows: Row, text: bool = False) -> RunReport:
        """A run after one more export."""
        path = self.base / "in" / name
        if text:
            path.write_text(delimited_text(rows))
        else:
            path.write_bytes(binary(rows))
        return publish_job(load(self.base / "job.toml"))

    def keys(self) -> list[str]:
        """The keys of all documents, in the order in which they went out."""
        found = []
        for part in sorted((self.base / "out" / "runs").rglob("part-*.xds")):
            found += re.findall(r"<association>(\w+=\d+)", part.read_text())
        return found


def replay(text: str, base: Path, *files: bytes, more: str = "", lanes: int = 4) -> RunReport:
    paths = []
    for number, data in enumerate(files):
        paths.append(base / f"{number}.dat")
        paths[-1].write_bytes(data)
    (base / "job.toml").write_text(text.format(more=more, lanes=lanes))
    return job.replay(load(base / "job.toml"), paths, str(base / "out"))


def replay_queue(base: Path, *files: Sequence[Row], more: str = "", lanes: int = 4) -> RunReport:
    return replay(QUEUE, base, *map(binary, files), more=more, lanes=lanes)


def keys(target: Path) -> list[str]:
    text = "".join(part.read_text() for part in sorted(target.rglob("part-*.xds")))
    return sorted(re.findall(r"<association>(\w+=\d+)", text))


def rejects(target: Path) -> dict[str, list[str]]:
    """Details of rejects by reason."""
    found: dict[str, list[str]] = {}
    for path in target.rglob("*rejects.jsonl"):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            found.setdefault(entry["reason"], []).append(entry["detail"])
    return {reason: sorted(details) for reason, details in found.items()}


def transactions() -> list[Row]:
    """Transaction 1 has a value that XML forbids, 2 and 3 have none."""
    queue = Queue()
    return [
        queue.row(INSERT, jack(1, "Ann"), TRANSACT_ID=1),
        queue.row(INSERT, jack(2, "B\x01b"), TRANSACT_ID=1),
        queue.row(INSERT, jack(3), TRANSACT_ID=2),
        *[queue.row(INSERT, jack(10 + n), TRANSACT_ID=1) for n in range(5)],
        queue.row(COMMIT, TRANSACT_ID=1),
        queue.row(COMMIT, TRANSACT_ID=2),
        queue.row(INSERT, jack(4), TRANSACT_ID=1),  # the number is used again
        queue.row(COMMIT, TRANSACT_ID=1),
    ]
