"""The trace of a following publisher, with the levels of the driver (trace levels of the driver's guide).

====== ============================== ===========================================================
level  the driver's guide             here, in addition to the level below
====== ============================== ===========================================================
0      nothing                        nothing
1      minimal                        duration of a poll, phase by phase; reasons and statuses
2      properties of the database     sources and sink of a poll
3      event log records, SQL         each record with its outcome, each XDS document
4      verbose                        polls that found nothing, the work of each lane
5      resources and state files      the files of the poll's ledger
6      calls of JDBC                  SQL statements of the driver process, without parameters
7      third-party drivers            log messages of the clients of database and broker
====== ============================== ===========================================================

Levels 3 and above show personal data.  Database requests of Spark's workers are not traced.  A poll
writes at most ``MAX_LINES`` lines of each level, each cut to ``MAX_CHARACTERS``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Self

from annotated_types import Ge, Le

from publisher.console import counts_text
from publisher.errors import PublisherError, of_system
from publisher.ledger.manifest import Manifest
from publisher.ledger.read import find_run
from publisher.ledger.run_reader import DecidedRecord, PublishedDocument, RunReader
from publisher.ledger.runs import LedgerRun, StoredRun
from publisher.ledger.storage import LEDGER
from publisher.observing.contract import Poll
from publisher.redaction import redact_all

MAX_LINES = 1_000
MAX_CHARACTERS = 4_000

Level = Annotated[int, Ge(0), Le(7)]
WriteLine = Callable[[int, str], None]
"""Writes a line of a level, with control characters as escapes."""

_STATEMENTS = ("sqlalchemy.engine",)
_CLIENTS = ("sqlalchemy.pool", "psycopg", "publisher.kafka")


class Trace:
    """An observer that shows the work of each poll; listens to the clients' logs while it is open."""

    def __init__(self, level: Level, write_line: WriteLine) -> None:
        self._level = level
        self._write_line = write_line
        self._logs = _ClientLogs(self._show_client_log)
        self._client_lines = 0

    def __enter__(self) -> Self:
        for names, level in ((_STATEMENTS, 6), (_CLIENTS, 7)):
            if self._level >= level:
                self._logs.listen(names, logging.INFO if level == 6 else logging.DEBUG)
        return self

    def __exit__(self, *exc: object) -> None:
        self._logs.close()

    def on_start(self, job: str, target: str, notes: Sequence[str]) -> None:  # noqa: ARG002
        """See ``Observer``."""
        self._show(2, f"sink of {job}: {target}")

    def on_poll(self, poll: Poll) -> None:
        """See ``Observer``."""
        self._client_lines = 0
        run = poll.report.run
        self._show_lines(1, (f"{run} {line}" for line in _minimal(poll)))
        if self._level < 2 or not poll.report.ledger:
            return
        try:
            self._show_run(find_run(Path(poll.report.ledger)))
        except PublisherError as error:
            self._show(1, f"{run} cannot be traced: {error.message}")
        except OSError as error:
            self._show(1, f"{run} cannot be traced: {of_system(error).message}")

    def on_idle(self, waiting: int, oldest: float | None) -> None:  # noqa: ARG002
        """See ``Observer``."""
        self._client_lines = 0
        self._show(4, "nothing to read")

    def on_failure(self, error: PublisherError, again_in: float | None) -> None:
        """Writes no line: the log has one."""

    def on_stop(self, reason: str) -> None:
        """Writes no line: the log has one."""

    def _show_run(self, stored: StoredRun) -> None:
        manifest, run = stored.manifest, stored.manifest.run
        self._show_lines(2, (f"{run} {line}" for line in _sources(manifest)))
        if self._level >= 3:
            reader = RunReader(stored)
            records = reader.records()
            self._show_lines(3, (f"{run} {_record(entry, manifest)}" for entry in records))
            self._show_lines(3, (f"{run} {_document(entry)}" for entry in reader.documents()))
        self._show_lines(4, (f"{run} {line}" for line in _lanes(manifest)))
        self._show_lines(5, (f"{run} {line}" for line in _files(stored.handle)))

    def _show_lines(self, level: int, lines: Iterator[str]) -> None:
        if level > self._level:
            return
        for line in islice(lines, MAX_LINES):
            self._show(level, line)
        if next(lines, None) is not None:
            self._show(level, f"… more than {MAX_LINES:,} lines; `explain` shows every record")

    def _show(self, level: int, line: str) -> None:
        if level > self._level:
            return
        if len(line) > MAX_CHARACTERS:
            line = f"{line[:MAX_CHARACTERS]}… ({len(line):,} characters)"
        self._write_line(level, line)

    def _show_client_log(self, name: str, line: str) -> None:
        """Shows a client's log line, up to the limit of a poll."""
        self._client_lines += 1
        if self._client_lines <= MAX_LINES:
            level = 6 if name.startswith(_STATEMENTS) else 7
            self._show(level, f"{name}: {line}")


class _ClientLogs(logging.Handler):
    """Listens to loggers of Python; restores their levels on ``close``."""

    def __init__(self, show: Callable[[str, str], None]) -> None:
        """``show`` takes the name of a logger and its message in one line."""
        super().__init__()
        self._show = show
        self._levels: dict[str, int] = {}

    def listen(self, names: Sequence[str], level: int) -> None:
        """Listens to messages of this level and above."""
        for name in names:
            logger = logging.getLogger(name)
            self._levels[name] = logger.level
            logger.setLevel(level)
            logger.addHandler(self)

    def close(self) -> None:
        """Stops listening."""
        for name, level in self._levels.items():
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.setLevel(level)
        self._levels.clear()
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Passes a message on in one line."""
        self._show(record.name, " ".join(redact_all(record.getMessage()).split()))


def _minimal(poll: Poll) -> Iterator[str]:
    report = poll.report
    phases = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in report.seconds.items())
    yield f"took {poll.seconds:.2f} s: {phases or 'no phases'}"
    yield (
        f"documents {report.documents:,}, {report.bytes:,} bytes, "
        f"transactions {poll.transactions:,}, retries {poll.retries:,}"
    )
    for outcome, reasons in report.reasons.items():
        yield f"{outcome}: {counts_text(reasons)}"
    if report.statuses:
        yield f"statuses written: {counts_text(report.statuses)}"


def _sources(manifest: Manifest) -> Iterator[str]:
    for number, source in enumerate(manifest.sources):
        place = f"table {source.table}" if source.table is not None else "files"
        counts: dict[str, int] = {}
        for result in manifest.results:
            for count in result.counts:
                if count.source == number:
                    name = count.outcome.label
                    counts[name] = counts.get(name, 0) + count.records
        yield f"source {source.name}: {source.format}, {place}: {counts_text(counts) or 'nothing'}"
        for file in source.files:
            yield f"source {source.name}: {file.path}, {file.bytes:,} bytes"


def _record(entry: DecidedRecord, manifest: Manifest) -> str:
    parts = [f"record {entry.position.text()} of {manifest.sources[entry.source].name}:"]
    if entry.event_type is not None:
        parts.append(f"type {entry.event_type}")
    if entry.columns:
        parts.append(f"({', '.join(entry.columns)})")
    if entry.object is not None:
        parts.append(f"of {entry.object.qualified_table} {entry.object.key}:")
    parts.append(entry.outcome.label)
    if entry.reason is not None:
        parts.append(f"({entry.reason})")
    parts += [text for text in (entry.detail, entry.raw) if text]
    return " ".join(parts)


def _document(entry: PublishedDocument) -> str:
    return f"{entry.operation} of records {entry.records}: {entry.text}"


def _lanes(manifest: Manifest) -> Iterator[str]:
    for result in manifest.results:
        records = sum(count.records for count in result.counts)
        yield (
            f"lane {result.lane}: {records:,} records, {result.documents:,} documents, "
            f"{result.bytes:,} bytes"
        )


def _files(ledger_run: LedgerRun) -> Iterator[str]:
    yield f"run {ledger_run.root} in {ledger_run.folder / LEDGER}"
    for path in sorted(ledger_run.root.iterdir()) if ledger_run.root.is_dir() else ():
        if path.is_file():
            yield f"file {path.name}, {path.stat().st_size:,} bytes"
