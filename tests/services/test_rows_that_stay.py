"""Rows that stay N while a log is followed: no run, no evicted ledger, no second dead letter for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from publisher.ledger.storage import query
from tests.chaos.process import Started
from tests.services.databases import Place
from tests.services.followed_logs import make_event_log, scrape_metrics, write_job
from tests.services.servers import free_port
from tests.services.topics import Topics

SUCCESS = "xds_publisher_last_success_timestamp_seconds"
RETENTION = 2
POLLS = RETENTION + 2
OPTIONS = """
[ledger]
retention_days = 7

[metrics]
port = {port}
"""


def add(place: Place, record_id: str, event_type: int = 3, event_time: str = "now()") -> None:
    place.execute(
        f"INSERT INTO event_log VALUES ({record_id}, 'idu=1', 'N', {event_type}, {event_time}, 'hr',"
        f" 'usr', 'fname', NULL, 'Ann {record_id}')"
    )


def make_job(base: Path, place: Place, kafka: Topics, letters: str) -> tuple[Path, int]:
    job, port = write_job(base / "people.toml", place, kafka, kafka.make()), free_port()
    text = job.read_text().replace("\n[database]", "future_events = true\n\n[database]")
    text = text.replace("[follow]", f'dead_letter_topic = "{letters}"\n\n[follow]')
    job.write_text(text + OPTIONS.format(runs=RETENTION, port=port))
    return job, port


def wait_for_documents(started: Started, port: int, count: int) -> None:
    """Waits until an instance has published so many documents; 0: until it serves its metrics."""

    def reached() -> bool:
        try:
            return scrape_metrics(port).get(("xds_publisher_documents_total",), 0) == count
        except OSError:  # it does not serve them yet
            return False

    started.wait_until(reached)


def wait_for_polls(started: Started, port: int) -> None:
    """Waits for more polls: each that ends without an error sets the time of the last success."""
    times = set()

    def reached() -> bool:
        times.add(scrape_metrics(port)[SUCCESS,])
        return len(times) > POLLS

    started.wait_until(reached)


def runs(base: Path) -> list[str]:
    rows = query(base / ".xds-publisher" / "people", "SELECT name FROM run ORDER BY number")
    return [name for (name,) in rows]


def statuses(place: Place) -> list[tuple[int | None, str]]:
    rows = place.query("SELECT record_id, status FROM event_log ORDER BY record_id")
    return [(record_id, status) for record_id, status in rows]


@contextmanager
def following(job: Path) -> Iterator[Started]:
    with Started(["publish", "--follow", "-c", str(job)]) as started:
        yield started
        started.process.terminate()
        code, message = started.wait_for_end()
        assert code == 0, message


def test_rows_that_stay_leave_no_runs_and_one_dead_letter_each(
    postgres: Place, kafka: Topics, tmp_path: Path
) -> None:
    """Over the polls of two instances; each start removes idle runs."""
    make_event_log(postgres)
    postgres.execute(
        "ALTER TABLE event_log DROP CONSTRAINT event_log_pkey",
        "ALTER TABLE event_log ALTER record_id DROP NOT NULL",
    )
    add(postgres, "1")
    add(postgres, "2", event_time="now() + interval '1 day'")
    add(postgres, "3", event_type=99)
    add(postgres, "NULL")
    letters = kafka.make()
    job, port = make_job(tmp_path, postgres, kafka, letters)
    with following(job) as started:
        wait_for_documents(started, port, 1)
        wait_for_polls(started, port)
        (first,) = runs(tmp_path)
        add(postgres, "4")
        wait_for_documents(started, port, 2)
        wait_for_polls(started, port)
    kept = runs(tmp_path)
    assert (kept[0], len(kept)) == (first, 2)
    with following(job) as started:
        wait_for_documents(started, port, 0)
        wait_for_polls(started, port)
    assert runs(tmp_path) == kept
    reasons = sorted(str(dict(record.headers)["reason"]) for record in kafka.read(letters))
    assert reasons == ["b'event-type'", "b'record-id'"]
    assert statuses(postgres) == [(1, "S"), (2, "N"), (3, "E"), (4, "S"), (None, "N")]
