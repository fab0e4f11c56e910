"""Log lines, metrics, trace and status of ``publish --follow``: real process, event log and broker."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from publisher.cli.main import cli
from tests.services.databases import Place, sqlite_place
from tests.services.followed_logs import (
    make_event_log,
    scrape_metrics,
    wait_until_read,
    write_job,
)
from tests.services.servers import free_port
from tests.services.topics import Topics
from tests.support.programs import start_program

ROWS = 50


def add_rows(place: Place, first: int, kind: int = 1) -> None:
    place.execute(
        f"INSERT INTO event_log SELECT n, 'idu=' || n, 'N', {kind},"
        " now() AT TIME ZONE 'UTC' - interval '10 minutes', NULL, 'usr', 'fname', NULL, 'Ann' || n"
        f" FROM generate_series({first}, {first + ROWS - 1}) AS n"
    )


def wait_for(port: int, name: str, value: float) -> dict[tuple[str, ...], float]:
    """A poll is counted only after its rows have their status."""
    deadline = time.monotonic() + 20
    while (found := scrape_metrics(port))[name,] < value:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def test_log_metrics_trace_and_status(postgres: Place, kafka: Topics, tmp_path: Path) -> None:
    make_event_log(postgres)
    add_rows(postgres, 1)
    add_rows(postgres, 101, kind=99)
    job = write_job(tmp_path / "people.toml", postgres, kafka, kafka.make())
    port = free_port()
    job.write_text(job.read_text() + f'\n[metrics]\nport = {port}\ntextfile = "people.prom"\n')
    words = ["publish", "--follow", "--log", "json", "--trace", "3", "-c", str(job)]
    log = tmp_path / "stderr"
    with log.open("w") as stderr:  # a pipe that nobody reads would stop it
        process = start_program(words, stderr=stderr)
    try:
        wait_until_read(postgres, process)
        first = wait_for(port, "xds_publisher_documents_total", ROWS)
        add_rows(postgres, 201)
        wait_until_read(postgres, process)
        second = wait_for(port, "xds_publisher_documents_total", 2 * ROWS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert first["xds_publisher_rejected_records_total", "event-type"] == ROWS
    assert second["xds_publisher_changes_read_total", "event-log"] == 3 * ROWS
    assert second["xds_publisher_operations_total", "add"] == 2 * ROWS
    assert second["xds_publisher_statuses_written_total", "S"] == 2 * ROWS
    assert second["xds_publisher_transactions_total",] >= 2
    assert second["xds_publisher_epoch",] == 1
    assert "xds_publisher_documents_total" in (tmp_path / "people.prom").read_text()
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    polls = [line for line in lines if line["event"] == "poll"]
    assert sum(line["read"] for line in polls) == 3 * ROWS
    assert polls[0]["waiting"] == 2 * ROWS
    assert 600 <= polls[0]["lag"] < 700
    traced = [line["text"] for line in lines if line["event"] == "trace"]
    assert sum("<add " in text for text in traced) == 2 * ROWS
    assert sum("rejected (event-type)" in text for text in traced) == ROWS
    standing = CliRunner().invoke(cli, ["status", "-c", str(job), "--json"])
    assert standing.exit_code == 0, standing.output
    found = json.loads(standing.stdout)
    assert found["logs"][0]["waiting"] == 0
    assert found["logs"][0]["statuses"] == {"E": ROWS, "S": 2 * ROWS}
    assert (found["epoch"], found["unfinished"]) == (1, [])
    assert found["sink"]["whole"] == found["last"]["run"] == polls[-1]["run"]
    assert found["sink"]["tokens"]


def test_the_error_that_ends_it_is_in_the_log_and_counted(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "hr.db")
    job = tmp_path / "people.toml"
    job.write_text(
        f'[source]\ntable = "event_log"\n[database]\nurl = "{place.url}"\n'
        '[dispatch]\npath = "out"\n[metrics]\ntextfile = "people.prom"\n'
        '[run]\nengine = "local"\n'
    )
    words = ["publish", "--follow", "--log", "json", "-c", str(job)]
    ended = start_program(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, message = ended.communicate(timeout=60)
    assert ended.returncode == 1, message
    *lines, last = message.splitlines()
    assert json.loads(lines[-1])["event"] == "ended"
    assert "no table or view event_log" in json.loads(lines[-1])["reason"]
    assert last.startswith("error: ")
    metrics = (tmp_path / "people.prom").read_text()
    assert 'xds_publisher_failures_total{exit_code="1",job_name="people"} 1.0' in metrics
