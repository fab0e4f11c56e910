"""Metrics of a following publisher, as Prometheus reads them."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from publisher.errors import FatalError, UnreachableError
from publisher.observing.metrics import Metrics
from publisher.observing.options import MetricsOptions
from tests.services.servers import free_port
from tests.support.poll_recorder import poll


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Value by name and labels but ``job_name``, which is that of the job."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("job_name") == "people", sample
            found[sample.name.removeprefix("xds_publisher_"), *labels.values()] = sample.value
    return found


def read_samples(path: Path) -> dict[tuple[str, ...], float]:
    return samples(path.read_text())


def test_what_polls_did(tmp_path: Path) -> None:
    path = tmp_path / "people.prom"
    with Metrics(MetricsOptions(textfile=path), "people", epoch=lambda: 3) as metrics:
        metrics.on_start("people", "kafka://broker:9092/xds", [])
        metrics.on_poll(poll())
        metrics.on_poll(poll())
        metrics.on_failure(UnreachableError("away"), 1.0)
        found = read_samples(path)
    expected: dict[tuple[str, ...], float] = {
        ("changes_read_total", "log"): 2400,
        ("records_total", "published"): 2300,
        ("records_total", "superseded"): 60,
        ("records_total", "ignored"): 30,
        ("records_total", "held"): 0,
        ("records_total", "rejected"): 10,
        ("rejected_records_total", "table-key"): 4,
        ("rejected_records_total", "event-time"): 6,
        ("documents_total",): 800,
        ("operations_total", "add"): 200,
        ("operations_total", "modify"): 600,
        ("document_bytes_total",): 160_000,
        ("statuses_written_total", "S"): 2360,
        ("lag_seconds",): 1.23,
        ("waiting_rows",): 1200,
        ("poll_duration_seconds_count",): 2,
        ("poll_duration_seconds_bucket", "0.5"): 0,
        ("poll_duration_seconds_bucket", "1.0"): 2,
        ("transactions_total",): 16,
        ("retries_total",): 2,
        ("failures_total", "5"): 1,
        ("epoch",): 3,
        ("last_run_number",): 17,
    }
    assert expected.items() <= found.items()
    assert found["last_success_timestamp_seconds",] > 1_700_000_000


def test_an_idle_look_is_a_success_without_lag(tmp_path: Path) -> None:
    path = tmp_path / "people.prom"
    with Metrics(MetricsOptions(textfile=path), "people") as metrics:
        metrics.on_poll(poll())
        metrics.on_idle(0, None)
        metrics.on_stop("stop requested")
    found = read_samples(path)
    assert found["lag_seconds",] == found["waiting_rows",] == 0
    assert found["poll_duration_seconds_count",] == 1


def test_all_is_there_before_the_first_poll(tmp_path: Path) -> None:
    with Metrics(MetricsOptions(textfile=tmp_path / "people.prom"), "people"):
        found = read_samples(tmp_path / "people.prom")
    assert found["documents_total",] == found["records_total", "rejected"] == 0


def test_nothing_goes_to_the_registry_of_all() -> None:
    Metrics(MetricsOptions(), "people")
    Metrics(MetricsOptions(), "people")
    assert not [name for name in REGISTRY._names_to_collectors if name.startswith("xds_")]


def test_served_on_a_port_of_this_machine_only_while_open() -> None:
    port = free_port()
    with Metrics(MetricsOptions(port=port), "people") as metrics:
        metrics.on_poll(poll())
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert samples(answer.read().decode())["documents_total",] == 400
    with socket.socket() as again:
        assert again.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_in_use_is_opened_when_it_is_free() -> None:
    """An older instance on this machine uses the port until it learns that it was replaced."""
    messages: list[str] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        metrics = Metrics(MetricsOptions(port=port), "people", warn=messages.append)
        metrics.__enter__()
        metrics.on_start("people", "out", ())
        metrics.on_poll(poll())
        (refused,) = messages
        assert f"[metrics] port: {port} of 127.0.0.1 is in use, by an older instance" in refused
    metrics.on_idle(0, None)
    assert messages[1:] == [f"[metrics] port: {port} of 127.0.0.1 serves the metrics now"]
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert samples(answer.read().decode())["documents_total",] == 400
    metrics.__exit__(None, None, None)
    with socket.socket() as again:
        assert again.connect_ex(("127.0.0.1", port)) != 0


def test_an_address_of_another_machine_is_refused() -> None:
    with (
        pytest.raises(FatalError, match=r"9464 of 203.0.113.7 cannot be opened \(Cannot assign"),
        Metrics(MetricsOptions(port=9464, address="203.0.113.7"), "people"),
    ):
        pass


def test_a_file_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "people.prom"
    with (
        pytest.raises(FatalError, match=r"people\.prom cannot be written"),
        Metrics(MetricsOptions(textfile=path), "people"),
    ):
        pass


def test_a_file_that_can_no_more_be_written_stops_nothing(tmp_path: Path) -> None:
    messages: list[str] = []
    path = tmp_path / "metrics" / "people.prom"
    path.parent.mkdir()
    with Metrics(MetricsOptions(textfile=path), "people", warn=messages.append) as metrics:
        path.unlink()
        path.parent.rmdir()
        metrics.on_poll(poll())
        metrics.on_poll(poll())
        assert len(messages) == 1
        assert "cannot be written" in messages[0]
        path.parent.mkdir()
        metrics.on_poll(poll())
        assert read_samples(path)["documents_total",] == 1200


def test_the_error_that_ends_it_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "people.prom"
    with pytest.raises(FatalError), Metrics(MetricsOptions(textfile=path), "people"):
        raise FatalError("a newer instance of the job works")
    assert read_samples(path)["failures_total", "1"] == 1


def test_readers_see_whole_files_only(tmp_path: Path) -> None:
    path = tmp_path / "people.prom"
    stop = threading.Event()
    seen: set[float] = set()
    torn: list[str] = []

    def read() -> None:
        while not stop.is_set():
            text = path.read_text()
            found = samples(text)
            seen.add(found["documents_total",])
            if not text.endswith("\n") or found["epoch",] != 0:
                torn.append(text)

    with Metrics(MetricsOptions(textfile=path), "people") as metrics:
        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(300):
            metrics.on_poll(poll())
        stop.set()
        reader.join()
    assert not torn
    assert len(seen) > 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["people.prom"]
