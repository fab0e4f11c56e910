"""``xds-publisher status``: shows the state of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json
from publisher.console import counts_text
from publisher.errors import FatalError, PublisherError, UnreachableError

if TYPE_CHECKING:
    from publisher.reports.status import (
        FilesStatus,
        JobStatus,
        LastRun,
        LogStatus,
        SinkStatus,
        StatusProblem,
    )


@command("status -c hr.toml")
@parameters.config_required
@parameters.ledger_of_job
@parameters.report_form
def status(config: Path, ledger: Path | None, json_: bool) -> None:
    """Show the state of a job.

    It shows pending records, the last run, and what the next start will do.  It writes nothing and does
    not start Spark.  If a database or the brokers are unreachable, it shows the rest and ends with exit
    code 5.
    """
    from publisher.cli import output
    from publisher.config.job_file import Overrides, load_to_publish
    from publisher.reports.status import status as status_of

    report = status_of(load_to_publish(config, Overrides(ledger=ledger)))
    if json_:
        echo_json([output.as_json(report)])
    else:
        echo(status_text(report))
    if report.problems:
        raise _failure(report.problems)


def _failure(problems: Sequence[StatusProblem]) -> PublisherError:
    """Returns the error that ends the command: ``UnreachableError`` if a later try may succeed."""
    unreachable = [p.where for p in problems if p.exit_code == UnreachableError.exit_code]
    if unreachable:
        return UnreachableError(
            f"no answer from: {', '.join(unreachable)}; see above for what to do, then start status again"
        )
    return FatalError(
        f"unknown state of {', '.join(p.where for p in problems)}; see above for what to do, then "
        "start status again"
    )


def status_text(report: JobStatus) -> Iterator[str]:
    """Lines of text about the state of a job."""
    epoch = f"epoch {report.epoch}" if report.epoch else "never started"
    yield f"job {report.job}: {epoch}, ledger in {report.ledger}"
    problems = {problem.where: problem.message for problem in report.problems}
    for log in report.logs:
        yield f"source {log.source}: {problems.get(f'source {log.source}') or _log(log)}"
    for files in report.files:
        yield f"source {files.source}: {problems.get(f'source {files.source}') or _files(files)}"
    yield from _last(report.last) if report.last else ["last run: none"]
    for run in report.unfinished:
        documents = "" if run.documents is None else f"{run.documents:,} documents, "
        yield f"unfinished {run.run}: {documents}{run.next}"
    if not report.unfinished:
        yield "unfinished: none"
    yield f"sink {report.sink.target}: {problems.get('sink') or _sink(report.sink)}"
    yield from _tokens(report.sink)


def _log(log: LogStatus) -> str:
    oldest = "" if log.oldest is None else f", the oldest for {age_text(log.oldest)}"
    statuses = f" ({counts_text(log.statuses)})" if log.statuses else ""
    return f"{log.waiting:,} rows of {log.table} wait{oldest}{statuses}"


def age_text(seconds: float) -> str:
    """A duration in its two largest units: ``174 d 2 h``, ``4 min 10 s``, ``2.5 s``."""
    if seconds < 60:
        return f"{seconds:,.1f} s"
    for size, unit, smaller_size, smaller_unit in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
    ):
        if seconds >= size:
            smaller = seconds % size // smaller_size
            return f"{seconds // size:,.0f} {unit} {smaller:.0f} {smaller_unit}"
    return f"{seconds // 60:.0f} min {int(seconds % 60)} s"


def _files(files: FilesStatus) -> str:
    if files.compared:
        return f"tables: {files.new:,} pending, {files.published:,} with a state"
    refused = f", {files.refused:,} with rejected records only" if files.refused else ""
    return f"files: {files.new:,} waiting, {files.published:,} published{refused}"


def _last(last: LastRun) -> Iterator[str]:
    from publisher.cli import output

    done = f"acknowledged {_time_text(last.done)}" if last.done else "not acknowledged yet"
    yield f"last run {last.run}: begun {_time_text(last.begun)}, {done}"
    yield from output.outcomes_text(last.read, last.outcomes, last.reasons)
    yield output.documents_text(last)
    yield from (f"  note       {note}" for note in last.notes)


def _time_text(time: str) -> str:
    """A time in UTC, to the second."""
    return datetime.fromisoformat(time).astimezone(UTC).isoformat(timespec="seconds")


def _sink(sink: SinkStatus) -> str:
    if sink.runs is not None:
        return f"{sink.runs:,} runs in its directory"
    return f"has all of {sink.whole}" if sink.whole else "has no complete run"


def _tokens(sink: SinkStatus) -> Iterator[str]:
    """Lines about the progress of the lanes; lanes with the same progress share a line."""
    for (run, documents), tokens in groupby(
        sink.tokens, lambda token: (token.run, token.documents)
    ):
        lanes = [token.lane for token in tokens]
        several = f"{len(lanes)} lanes from {lanes[0]} to {lanes[-1]}, each"
        names = f"lane {lanes[0]}" if len(lanes) == 1 else several
        noun = "document" if documents == 1 else "documents"
        yield f"  {names}: {documents:,} {noun} of {run}"
    if sink.rejects is not None:
        yield f"  rejected records: {sink.rejects.records:,} of {sink.rejects.run}"
