"""Metrics of a following publisher for Prometheus, on a port or in a file.

Every metric has the label ``job_name``, so that a directory can hold the files of several jobs (Prometheus
uses ``job`` itself).  Counters start at 0 with each start of the program.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    start_http_server,
    write_to_textfile,
)

from publisher import __version__
from publisher.errors import FatalError, PublisherError, UnreachableError
from publisher.model.change import Outcome
from publisher.observing.contract import Poll
from publisher.observing.options import MetricsOptions

M = TypeVar("M", Counter, Gauge, Histogram, Info)

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_NAMESPACE = "xds_publisher"
_JOB = "job_name"
_WRITE_INTERVAL = 5.0
"""Seconds between two writes of the file while the publisher is idle."""


class Series:
    """The metrics of one job, with their own registry."""

    def __init__(self, job: str) -> None:
        self.registry = CollectorRegistry()
        self._job = job
        self.info = self._register(Info, "instance", "Program and sink.")
        self.epoch = self._register(
            Gauge, "epoch", "Epoch of this instance; only the newest instance of a job works."
        )
        self.read = self._register(Counter, "changes_read", "Records read.", "source")
        self.records = self._register(Counter, "records", "Records by outcome.", "outcome")
        self.rejected = self._register(Counter, "rejected_records", "Rejects by reason.", "reason")
        self.documents = self._register(Counter, "documents", "Documents published.")
        self.operations = self._register(
            Counter,
            "operations",
            "Operations in documents.",
            "operation",
        )
        self.bytes = self._register(Counter, "document_bytes", "Bytes of documents.")
        self.statuses = self._register(
            Counter, "statuses_written", "Rows by status written; D means deleted.", "status"
        )
        self.lag = self._register(
            Gauge,
            "lag_seconds",
            "Age of the oldest row waiting at the last poll; 0 if none.",
        )
        self.waiting = self._register(Gauge, "waiting_rows", "Rows waiting at the last poll.")
        self.polls = self._durations("poll_duration", "Polls that read something.")
        self.transactions = self._register(Counter, "transactions", "Transactions committed.")
        self.retries = self._register(Counter, "retries", "Retries of sending.")
        self.failures = self._register(
            Counter, "failures", "Failed attempts by exit code of the error.", "exit_code"
        )
        self.run = self._register(Gauge, "last_run_number", "Number of the last run.")
        self.success = self._register(
            Gauge,
            "last_success_timestamp_seconds",
            "Time of the last successful poll, even if it found nothing.",
        )

    def of(self, metric: M, *labels: str) -> M:
        """Selects the series of this job with these labels."""
        return metric.labels(self._job, *labels)

    def _durations(self, name: str, text: str) -> Histogram:
        metric = Histogram(
            name,
            text,
            (_JOB,),
            namespace=_NAMESPACE,
            unit="seconds",
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.of(metric)
        return metric

    def _register(self, kind: type[M], name: str, text: str, *labels: str) -> M:
        metric = kind(name, text, (_JOB, *labels), namespace=_NAMESPACE, registry=self.registry)
        if not labels and kind is not Info:
            metric.labels(self._job)  # so that the series exists before the first count
        return metric


class Metrics:
    """An observer that counts events; serves and writes metrics while the context is open."""

    def __init__(
        self,
        options: MetricsOptions,
        job: str,
        *,
        epoch: Callable[[], int] = lambda: 0,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``epoch`` returns the epoch of this instance after its start.

        ``warn`` reports problems that do not stop the publisher."""
        self._options = options
        self._epoch = epoch
        self._warn = warn
        self._stack = ExitStack()
        self._warned_of_file = False
        self._closed_port: int | None = options.port
        """The port until it is open; ``None`` if there is no port to open."""
        self._warned_of_port = False
        self._last_write = -_WRITE_INTERVAL
        self.series = Series(job)
        for outcome in Outcome:
            self.series.of(self.series.records, outcome.label)
        for error in (PublisherError, UnreachableError):
            self.series.of(self.series.failures, str(error.exit_code))

    def __enter__(self) -> Self:
        """Opens the port and writes the file.

        A port in use is retried later: an older instance of the job may hold it until it stops.

        Raises:
            FatalError: The port cannot be opened for another reason, or the file cannot be written.
        """
        if self._options.textfile is not None:
            self._write_first(self._options.textfile)
        self._serve()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Counts the error that ends the publisher."""
        if isinstance(error, PublisherError):
            self._count_failure(error)
        self._stack.close()

    def on_start(self, job: str, target: str, notes: Sequence[str]) -> None:  # noqa: ARG002
        """See ``Observer``."""
        series = self.series
        series.of(series.info).info({"version": __version__, "target": target})
        series.of(series.epoch).set(self._epoch())
        self._serve()
        self._write()

    def on_poll(self, poll: Poll) -> None:
        """See ``Observer``."""
        self._serve()
        series, report = self.series, poll.report
        for source in report.sources:
            series.of(series.read, source.name).inc(source.read)
        for metric, counts in (
            (series.records, report.outcomes),
            (series.rejected, report.reasons.get("rejected", {})),
            (series.operations, report.operations),
            (series.statuses, report.statuses),
        ):
            for name, count in counts.items():
                series.of(metric, name).inc(count)
        series.of(series.documents).inc(report.documents)
        series.of(series.bytes).inc(report.bytes)
        series.of(series.transactions).inc(poll.transactions)
        series.of(series.retries).inc(poll.retries)
        series.of(series.polls).observe(poll.seconds)
        number = report.run.rpartition("-")[2]
        if number.isdigit():
            series.of(series.run).set(int(number))
        self._set_backlog(poll.waiting, poll.oldest)
        self._write()

    def on_idle(self, waiting: int, oldest: float | None) -> None:
        """See ``Observer``."""
        self._serve()
        self._set_backlog(waiting, oldest)
        if time.monotonic() - self._last_write >= _WRITE_INTERVAL:
            self._write()

    def on_failure(self, error: PublisherError, again_in: float | None) -> None:  # noqa: ARG002
        """See ``Observer``."""
        self._count_failure(error)

    def on_stop(self, reason: str) -> None:  # noqa: ARG002
        """See ``Observer``."""
        self._write()

    def _count_failure(self, error: PublisherError) -> None:
        self.series.of(self.series.failures, str(error.exit_code)).inc()
        self._write()

    def _set_backlog(self, waiting: int | None, oldest: float | None) -> None:
        series = self.series
        if waiting is not None:
            series.of(series.waiting).set(waiting)
            series.of(series.lag).set(oldest or 0.0)
        series.of(series.success).set(time.time())

    def _serve(self) -> None:
        """Opens the port unless it is open already."""
        port, address = self._closed_port, self._options.address
        if port is None:
            return
        try:
            server, thread = start_http_server(port, address, self.series.registry)
        except (OSError, OverflowError) as error:
            if getattr(error, "errno", None) == errno.EADDRINUSE:
                self._warn_of_used_port(f"[metrics] port: {port} of {address} is in use")
                return
            raise FatalError(
                f"[metrics] port: {port} of {address} cannot be opened "
                f"({getattr(error, 'strerror', None) or error}): set another port or address"
            ) from error
        self._closed_port = None
        if self._warned_of_port:
            self._warn(f"[metrics] port: {port} of {address} serves the metrics now")

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        self._stack.callback(stop)

    def _warn_of_used_port(self, problem: str) -> None:
        """Warns once that the port cannot be opened yet."""
        if not self._warned_of_port:
            self._warn(
                f"{problem}, by an older instance of the job or by another program; the publisher "
                "continues without this port and tries again at each poll: stop the other program"
            )
        self._warned_of_port = True

    def _write_first(self, path: Path) -> None:
        try:
            write_to_textfile(str(path), self.series.registry)
        except OSError as error:
            raise FatalError(
                f"[metrics] textfile: {path} cannot be written ({error.strerror}): make its "
                "directory, or set another path"
            ) from error

    def _write(self) -> None:
        """Replaces the file as a whole: readers see the old or the new content."""
        if self._options.textfile is None:
            return
        self._last_write = time.monotonic()
        try:
            write_to_textfile(str(self._options.textfile), self.series.registry)
        except OSError as error:
            if not self._warned_of_file:
                self._warn(
                    f"metrics cannot be written to {self._options.textfile} ({error.strerror}): "
                    "the publisher continues without this file; check the disk"
                )
            self._warned_of_file = True
        else:
            self._warned_of_file = False
