"""All that watches a publisher, put together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from publisher.journal.epoch import last_epoch
from publisher.observing.contract import Observer, Observers
from publisher.observing.log_lines import LogLines
from publisher.observing.metrics import Metrics
from publisher.observing.options import MetricsOptions
from publisher.observing.trace import Trace


@contextmanager
def watched(
    stream: TextIO,
    job: str,
    journals: Path,
    metrics: MetricsOptions,
    *,
    as_json: bool = False,
    trace: int = 0,
    quiet: bool = False,
) -> Iterator[Observer]:
    """Log lines, unless ``quiet``, and a trace on ``stream``, and the metrics that are wanted, while the
    context is open.

    ``journals`` is the directory of the job's journals.  Raises ``FatalError`` where the port or the
    file of the metrics cannot be had.
    """
    lines = LogLines(stream, as_json=as_json)
    found: list[Observer] = [] if quiet else [lines]
    with ExitStack() as stack:
        if metrics.port is not None or metrics.textfile is not None:
            counted = Metrics(metrics, job, epoch=lambda: last_epoch(journals), complain=lines.note)
            found.append(stack.enter_context(counted))
        if trace:
            found.append(stack.enter_context(Trace(trace, lines.trace)))
        yield Observers(tuple(found))
