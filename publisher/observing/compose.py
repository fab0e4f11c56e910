"""Combines the observers that a job asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from publisher.ledger.job import Ledger
from publisher.observing.contract import Observer, Observers
from publisher.observing.log_lines import LogLines
from publisher.observing.options import MetricsOptions


@contextmanager
def observe(
    stream: TextIO,
    job: str,
    ledger: Path,
    metrics: MetricsOptions,
    *,
    as_json: bool = False,
    trace: int = 0,
    quiet: bool = False,
) -> Iterator[Observer]:
    """Opens the log (unless ``quiet``) and the trace on ``stream``, and the metrics that are set.

    ``ledger`` is the directory of the job's ledger.

    Raises:
        FatalError: The port or the file of the metrics cannot be opened.
    """
    lines = LogLines(stream, as_json=as_json)
    observers: list[Observer] = [] if quiet else [lines]
    with ExitStack() as stack:
        if metrics.port is not None or metrics.textfile is not None:
            from publisher.observing.metrics import Metrics  # noqa: PLC0415 - few jobs have metrics

            job_ledger = Ledger(ledger, job)
            counter = Metrics(metrics, job, epoch=lambda: job_ledger.epoch, warn=lines.note)
            observers.append(stack.enter_context(counter))
        if trace:
            from publisher.observing.trace import Trace  # noqa: PLC0415 - few commands trace

            observers.append(stack.enter_context(Trace(trace, lines.trace)))
        yield Observers(tuple(observers))
