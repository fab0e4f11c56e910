"""The report that ``publish --follow`` writes: a real process, an event log in SQLite."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.support.followed_jobs import SINK, TABLE, write_rows
from tests.support.programs import start_program


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def pending(base: Path) -> int:
    with closing(sqlite3.connect(base / "hr.db")) as connection:
        (count,) = connection.execute("SELECT count(*) FROM log WHERE status = 'N'").fetchone()
    return int(count)


def test_a_followed_job_has_a_report_and_warns_if_it_cannot_be_written(tmp_path: Path) -> None:
    write_rows(tmp_path, 1, 2, 3)
    job, log, page = tmp_path / "job.toml", tmp_path / "stderr", tmp_path / "web" / "report.html"
    more = '\n[follow]\npolling_interval = 0.2\n[run]\nengine = "local"\n[report]\npath = "web/report.html"\n'
    job.write_text(TABLE + SINK + more)
    page.parent.mkdir()
    words = ["publish", "--follow", "-c", str(job)]

    with log.open("w") as stderr:
        process = start_program(words, stderr=stderr)
    try:
        wait_until(page.exists, process, log)
        assert "job-000001" in page.read_text("utf-8")
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0

    page.unlink()
    page.parent.rmdir()
    with log.open("w") as stderr:
        process = start_program(words, stderr=stderr)
    try:
        write_rows(tmp_path, 4)
        wait_until(lambda: "was not written" in log.read_text(), process, log)
        write_rows(tmp_path, 5)
        wait_until(lambda: pending(tmp_path) == 0, process, log)  # polls go on
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    (warning,) = [line for line in log.read_text().splitlines() if "was not written" in line]
    assert f"there is no directory {page.parent}: create it, or name another file" in warning
