"""Jobs over small files and tables, followed until there is nothing left to read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.engine.local import LocalEngine
from publisher.errors import PublisherError
from publisher.observing.contract import Poll
from publisher.runs.follow import Follower
from publisher.stop_request import StopRequest

HEADER = (
    "record_id,table_key,status,event_type,event_time,perpetrator,"
    "table_name,column_name,old_value,new_value\n"
)

FILES = '[[sources]]\nname = "hr"\nsnapshots = ["in"]\n'

TABLE = '[[sources]]\nname = "hr"\ntable = "log"\n[database]\nurl = "sqlite:///hr.db"\n'

SINK = '[dispatch]\npath = "out"\n'


def load_settings(base: Path, source: str, more: str = "") -> Settings:
    path = base / "job.toml"
    path.write_text(source + SINK + more)
    return load(path)


def write_file(base: Path, name: str, *ids: int) -> Path:
    rows = [f"{n},idu={n},N,3,2026-05-04 08:00:00,hr,usr,fname,,Jack {n}\n" for n in ids]
    path = base / "in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEADER + "".join(rows))
    return path


def write_rows(base: Path, *ids: int) -> None:
    with sqlite3.connect(base / "hr.db") as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS usr (idu INTEGER PRIMARY KEY, fname TEXT)")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS log (record_id INTEGER, table_key TEXT, status TEXT,"
            " event_type INTEGER, event_time TIMESTAMP, perpetrator TEXT, table_name TEXT,"
            " column_name TEXT, old_value TEXT, new_value TEXT)"
        )
        connection.executemany(
            "INSERT INTO log VALUES (?, ?, 'N', 3, '2026-05-04 08:00:00', 'hr', 'usr', 'fname',"
            " NULL, 'Jack')",
            [(number, f"idu={number}") for number in ids],
        )
    connection.close()


class PollWatcher:
    """Notes what it is told; ``on_idle`` is called when there is nothing to read."""

    def __init__(self, on_idle: Callable[[], object]) -> None:
        self.events: list[str] = []
        self.polls: list[Poll] = []
        self.failures: list[float | None] = []
        self._on_idle = on_idle

    def on_start(self, job: str, target: str, notes: Sequence[str]) -> None:
        self.events += ["begun", *notes]

    def on_poll(self, poll: Poll) -> None:
        self.polls.append(poll)
        self.events.append(poll.report.run)

    def on_idle(self, waiting: int, oldest: float | None) -> None:
        self._on_idle()

    def on_failure(self, error: PublisherError, again_in: float | None) -> None:
        self.failures.append(again_in)

    def on_stop(self, reason: str) -> None:
        self.events.append(reason)


class InstantStop(StopRequest):
    """Waits for nothing, and notes for how long it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        assert len(self.pauses) < 100, "it does not end"
        return self.is_set()


def follow_until_idle(
    settings: Settings, engine: LocalEngine, *then: Callable[[], object]
) -> PollWatcher:
    """Follows until it has been idle once more than ``then`` has things to do about that."""
    stop = InstantStop()
    todo = [*then, stop.set]

    def on_idle() -> None:
        todo.pop(0)()

    watcher = PollWatcher(on_idle)
    Follower(settings, engine, watcher, stop).run()
    return watcher


def published_values(base: Path) -> list[str]:
    """The values in all documents, by run and lane."""
    parts = sorted((base / "out" / "runs").glob("*/part-*.xds"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    return sorted(line.partition("Jack ")[2].partition("<")[0] for line in lines)
