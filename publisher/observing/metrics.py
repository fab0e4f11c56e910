"""Metrics of a following publisher for Prometheus, on a port or in a file.

All of them have the label ``job_name``, so that files of several jobs can lie side by side (``job``
is Prometheus's own).  Counters begin at 0 with each start of the program.
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
from publisher.errors import FatalError, PublisherError
from publisher.model.change import Outcome
from publisher.observing.contract import Poll
from publisher.observing.options import MetricsOptions

M = TypeVar("M", Counter, Gauge, Histogram, Info)

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_NAMESPACE = "xds_publisher"
_JOB = "job_name"
_BETWEEN_WRITES = 5.0
"""Seconds between two writes of the file while there is nothing to read."""


class Series:
    """The metrics of one job, in a registry of their own."""

    def __init__(self, job: str) -> None:
        self.registry = CollectorRegistry()
        self._job = job
        self.info = self._made(Info, "instance", "Program and sink.")
        self.epoch = self._made(Gauge, "epoch", "Epoch of this instance: the newest works.")
        self.read = self._made(Counter, "changes_read", "Records read.", "source")
        self.records = self._made(Counter, "records", "Records by outcome.", "outcome")
        self.rejected = self._made(Counter, "rejected_records", "Rejects by reason.", "reason")
        self.documents = self._made(Counter, "documents", "Documents published.")
        self.operations = self._made(
            Counter,
            "operations",
            "Operations in documents; one each with batch_size 1.",
            "operation",
        )
        self.bytes = self._made(Counter, "document_bytes", "Bytes of documents.")
        self.statuses = self._made(
            Counter, "statuses_written", "Rows by status written; D were deleted.", "status"
        )
        self.lag = self._made(
            Gauge, "lag_seconds", "Age of the oldest waiting row when last counted; 0 where none."
        )
        self.waiting = self._made(Gauge, "waiting_rows", "Waiting rows when last counted.")
        self.polls = self._durations("poll_duration", "Polls that read something.")
        self.transactions = self._made(Counter, "transactions", "Transactions committed.")
        self.retries = self._made(Counter, "retries", "How often sending was tried again.")
        self.failures = self._made(
            Counter, "failures", "Tries that failed, by exit code of the error.", "exit_code"
        )
        self.run = self._made(Gauge, "last_run_number", "Number of the last run.")
        self.success = self._made(
            Gauge, "last_success_timestamp_seconds", "When it last published, or saw nothing to do."
        )

    def of(self, metric: M, *labels: str) -> M:
        """The series of this job with these labels."""
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

    def _made(self, kind: type[M], name: str, text: str, *labels: str) -> M:
        metric = kind(name, text, (_JOB, *labels), namespace=_NAMESPACE, registry=self.registry)
        if not labels and kind is not Info:
            metric.labels(self._job)  # there from the beginning
        return metric


class Metrics:
    """An observer that counts.  Serves and writes while the context is open."""

    def __init__(
        self,
        options: MetricsOptions,
        job: str,
        *,
        epoch: Callable[[], int] = lambda: 0,
        complain: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``epoch`` gives that of this instance once it has begun; ``complain`` is told when the file
        cannot be written, which stops nothing."""
        self._options = options
        self._epoch = epoch
        self._complain = complain
        self._stack = ExitStack()
        self._broken = False
        self._unserved: int | None = options.port
        """The port while it is not open; ``None`` where there is none to open."""
        self._refused = False
        self._written = -_BETWEEN_WRITES
        self.series = Series(job)
        for outcome in Outcome:
            self.series.of(self.series.records, outcome.name.lower())

    def __enter__(self) -> Self:
        """Opens port and file.  A port in use is tried again later: an older instance of the job that
        is about to stop may hold it.

        Raises:
            FatalError: The port may not be opened, or the file cannot be written.
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
            self._failed(error)
        self._stack.close()

    def begun(self, job: str, target: str, notes: Sequence[str]) -> None:  # noqa: ARG002
        """See ``Observer``."""
        series = self.series
        series.of(series.info).info({"version": __version__, "target": target})
        series.of(series.epoch).set(self._epoch())
        self._serve()
        self._write()

    def polled(self, poll: Poll) -> None:
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
        self._looked(poll.waiting, poll.oldest)
        self._write()

    def idle(self, waiting: int, oldest: float | None) -> None:
        """See ``Observer``."""
        self._serve()
        self._looked(waiting, oldest)
        if time.monotonic() - self._written >= _BETWEEN_WRITES:
            self._write()

    def failed(self, error: PublisherError, again_in: float) -> None:  # noqa: ARG002
        """See ``Observer``."""
        self._failed(error)

    def ended(self, reason: str) -> None:  # noqa: ARG002
        """See ``Observer``."""
        self._write()

    def _failed(self, error: PublisherError) -> None:
        self.series.of(self.series.failures, str(error.exit_code)).inc()
        self._write()

    def _looked(self, waiting: int | None, oldest: float | None) -> None:
        series = self.series
        if waiting is not None:
            series.of(series.waiting).set(waiting)
            series.of(series.lag).set(oldest or 0.0)
        series.of(series.success).set(time.time())

    def _serve(self) -> None:
        """Opens the port unless it is open."""
        port, address = self._unserved, self._options.address
        if port is None:
            return
        try:
            server, thread = start_http_server(port, address, self.series.registry)
        except (OSError, OverflowError) as error:
            if getattr(error, "errno", None) == errno.EADDRINUSE:
                self._report_refusal(f"[metrics] port: {port} of {address} is in use")
                return
            raise FatalError(
                f"[metrics] port: {port} of {address} cannot be opened "
                f"({getattr(error, 'strerror', None) or error}): set another port or address"
            ) from error
        self._unserved = None
        if self._refused:
            self._complain(f"[metrics] port: {port} of {address} serves the metrics now")

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        self._stack.callback(stop)

    def _report_refusal(self, what: str) -> None:
        """Reports once that the port cannot be opened yet."""
        if not self._refused:
            self._complain(
                f"{what}, by an older instance of the job or by another program; going on without "
                "metrics there, and trying again at each poll: see who has the port if this stays"
            )
        self._refused = True

    def _write_first(self, path: Path) -> None:
        try:
            write_to_textfile(str(path), self.series.registry)
        except OSError as error:
            raise FatalError(
                f"[metrics] textfile: {path} cannot be written ({error.strerror}): make its "
                "directory, or set another path"
            ) from error

    def _write(self) -> None:
        """The file is replaced as a whole: readers see the old or the new one."""
        if self._options.textfile is None:
            return
        self._written = time.monotonic()
        try:
            write_to_textfile(str(self._options.textfile), self.series.registry)
        except OSError as error:
            if not self._broken:
                where = self._options.textfile
                self._complain(f"metrics cannot be written to {where} ({error.strerror}); going on")
            self._broken = True
        else:
            self._broken = False
