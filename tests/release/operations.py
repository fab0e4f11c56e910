"""Files for operators: the unit of systemd, alerts and dashboard, used by the real programs."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.release.packages import ROOT, ReleaseError, run

UNIT = ROOT / "conf" / "xds-publisher@.service"
ALERTS = ROOT / "conf" / "prometheus-alerts.yml"
DASHBOARD = ROOT / "conf" / "grafana-dashboard.json"
PROGRAM = Path(sys.executable).with_name("xds-publisher")
_INSTALLED = "/opt/xds-publisher/bin/xds-publisher"
_VARIABLES = {"$job": ".+", "$__rate_interval": "1m", "$__range": "5m"}
"""Variables of dashboards, and values that a dashboard of all jobs gives them."""
_SECONDS = 90
_DATABASE = "hr.sqlite"
_TIME = "2026-01-01 00:00:00"
_EVENT_LOG = """
CREATE TABLE event_log (
    record_id INTEGER PRIMARY KEY, table_key TEXT, status TEXT, event_type INTEGER, event_time TEXT,
    perpetrator TEXT, table_name TEXT, column_name TEXT, old_value TEXT, new_value TEXT
)
"""


def need(*programs: str) -> None:
    """Raises ``ReleaseError`` if a program is missing."""
    for program in programs:
        if shutil.which(program) is None:
            raise ReleaseError(f"{program} is missing: install its package, and start again")


def check_unit(work: Path) -> None:
    """Checks the unit of systemd, with this checkout's program in place of the installed one.

    Raises:
        ReleaseError: systemd reports a problem.
    """
    need("systemd-analyze")
    unit = work / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace(_INSTALLED, str(PROGRAM)), "utf-8")
    run(["systemd-analyze", "verify", unit], work)


def dashboard_queries() -> list[str]:
    """Returns the queries of all panels, with values for their variables."""
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    for variable, value in _VARIABLES.items():
        queries = [query.replace(variable, value) for query in queries]
    return queries


def check_monitoring(work: Path) -> None:
    """Lets Prometheus scrape a publisher; runs the queries of the dashboard, and waits for an alert.

    Raises:
        ReleaseError: A rule or query is wrong, or a rejected record leads to no alert.
    """
    need("prometheus", "promtool")
    run(["promtool", "check", "rules", ALERTS], work)
    metrics, api = _free_port(), _free_port()
    write_job(work, metrics, work)
    _write_prometheus(work, metrics)
    publish = (PROGRAM, "publish", "--follow", "-c", "job.toml")
    prometheus = ("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data")
    with (
        _started(publish, work),
        _started((*prometheus, f"--web.listen-address=127.0.0.1:{api}"), work),
    ):
        _wait_for(
            "a scrape", lambda: _query(api, 'xds_publisher_records_total{outcome="rejected"} == 0')
        )
        time.sleep(2)  # a second sample, from which the increase is counted
        _log_event(work, 2, event_type=9)
        _wait_for("the alert of rejected records", lambda: _firing(api, "XdsPublisherRejects"))
        if without := [query for query in dashboard_queries() if not _query(api, query)]:
            raise ReleaseError(f"queries of the dashboard without a result: {without}")


def write_job(work: Path, port: int, seen: Path) -> None:
    """Writes a database with an event, and a job that publishes it and serves metrics.

    ``seen`` is the path of the directory for the program."""
    with closing(sqlite3.connect(work / _DATABASE)) as database:
        database.execute(_EVENT_LOG)
        database.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
    _log_event(work, 1, event_type=1)
    (work / "job.toml").write_text(
        f'[job]\nname = "release"\n[database]\nurl = "sqlite:///{seen / _DATABASE}"\n'
        '[[sources]]\nname = "hr"\nformat = "event-log"\ntable = "event_log"\n'
        '[dispatch]\nto = "files"\npath = "published"\n[run]\nengine = "local"\n'
        f"[follow]\npolling_interval = 1\n[metrics]\nport = {port}\n",
        "utf-8",
    )


def _log_event(work: Path, record_id: int, event_type: int) -> None:
    row = (record_id, "idu=1", "N", event_type, _TIME, "hr", "usr", "fname", None, "Jack")
    with closing(sqlite3.connect(work / _DATABASE)) as database, database:
        database.execute("INSERT INTO event_log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _write_prometheus(work: Path, port: int) -> None:
    content = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {
                "job_name": "xds-publisher",
                "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
            }
        ],
    }
    (work / "prometheus.yml").write_text(json.dumps(content), "utf-8")  # JSON is YAML


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@contextmanager
def _started(command: Sequence[str | Path], work: Path) -> Iterator[None]:
    log = work / f"{Path(command[0]).name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=work, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield
    except ReleaseError as error:
        raise ReleaseError(f"{error}\n{log.read_text('utf-8', 'replace')}") from error
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(name: str, look: Any) -> None:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        with suppress(OSError):  # Prometheus is starting
            if look():
                return
        time.sleep(0.5)
    raise ReleaseError(f"{name} did not appear within {_SECONDS} seconds")


def _query(port: int, expression: str) -> list[Any]:
    return list(_get(port, "query", query=expression)["result"])


def _firing(port: int, name: str) -> bool:
    alerts = _get(port, "alerts")["alerts"]
    return any(
        alert["labels"]["alertname"] == name and alert["state"] == "firing" for alert in alerts
    )


def _get(port: int, path: str, **parameters: str) -> Any:
    address = f"http://127.0.0.1:{port}/api/v1/{path}?{urlencode(parameters)}"
    with urlopen(address, timeout=10) as answer:
        content = json.load(answer)
    if content["status"] != "success":
        raise ReleaseError(f"Prometheus refuses {parameters}: {content}")
    return content["data"]
