"""``xds-publisher status``: how a job stands."""

# ruff: noqa: PLC0415 - --help answers at once

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from publisher.cli import parameters
from publisher.cli.print_report import echo, echo_json
from publisher.errors import FatalError, UnreachableError

if TYPE_CHECKING:
    from publisher.reports.status import FilesStatus, JobStatus, LastRun, LogStatus, SinkStatus

_AWAY = UnreachableError.exit_code


@click.command()
@parameters.config_required
@parameters.journal_of_job
@click.option("--json", "json_", is_flag=True, help="As JSON.")
def status(config: Path, journal: Path | None, json_: bool) -> None:
    """How a job stands: what waits, the last run, what the next start will do.  Writes nothing.

    Starts no Spark.  Answers also where a database or the brokers are away, and ends with exit code 5
    then.
    """
    from publisher.cli import output
    from publisher.config.job_file import Overrides, load_to_publish
    from publisher.reports.status import status as status_of

    found = status_of(load_to_publish(config, Overrides(journal=journal)))
    if json_:
        echo_json([output.as_json(found)])
    else:
        echo(status_text(found))
    if found.problems:
        where = ", ".join(problem.where for problem in found.problems)
        text = f"could not be asked: {where}; see above for what to do, then ask again"
        away = any(problem.exit_code == _AWAY for problem in found.problems)
        raise UnreachableError(text) if away else FatalError(text)


def status_text(found: JobStatus) -> Iterator[str]:
    """How a job stands, in lines."""
    epoch = f"epoch {found.epoch}" if found.epoch else "never started"
    yield f"job {found.job}: {epoch}, journals in {found.journals}"
    problems = {problem.where: problem.message for problem in found.problems}
    for log in found.logs:
        yield f"source {log.source}: {problems.get(f'source {log.source}') or _log(log)}"
    for files in found.files:
        yield f"source {files.source}: {problems.get(f'source {files.source}') or _files(files)}"
    yield from _last(found.last) if found.last else ["last run: none"]
    for run in found.unfinished:
        documents = "" if run.documents is None else f"{run.documents:,} documents, "
        yield f"unfinished {run.run}: {documents}{run.next}"
    if not found.unfinished:
        yield "unfinished: none"
    yield f"sink {found.sink.target}: {problems.get('sink') or _sink(found.sink)}"
    yield from _tokens(found.sink)


def _log(log: LogStatus) -> str:
    oldest = "" if log.oldest is None else f", the oldest for {age_text(log.oldest)}"
    statuses = f" ({_counts(log.statuses)})" if log.statuses else ""
    return f"{log.waiting:,} rows of {log.table} wait{oldest}{statuses}"


def age_text(seconds: float) -> str:
    """A length of time in its two largest units: ``174 d 2 h``, ``4 min 10 s``, ``2.5 s``."""
    if seconds < 60:
        return f"{seconds:,.1f} s"
    for size, unit, small, rest in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if seconds >= size:
            return f"{seconds // size:,.0f} {unit} {seconds % size // small:.0f} {rest}"
    return f"{seconds // 60:.0f} min {int(seconds % 60)} s"


def _files(files: FilesStatus) -> str:
    if files.compared:
        return f"{files.new:,} tables are due, {files.published:,} have a state"
    refused = f", {files.refused:,} hold rejected records only" if files.refused else ""
    return f"{files.new:,} files wait, {files.published:,} were published{refused}"


def _last(last: LastRun) -> Iterator[str]:
    done = f"acknowledged {last.done}" if last.done else "not acknowledged yet"
    yield f"last run {last.run}: begun {last.begun}, {done}"
    sums = " + ".join(f"{count:,} {outcome}" for outcome, count in last.outcomes.items())
    yield f"  records    {last.read:,} read = {sums}"
    for outcome, reasons in last.reasons.items():
        yield f"  {outcome:<10} {_counts(reasons)}"
    operations = f" ({_counts(last.operations)})" if last.operations else ""
    yield f"  documents  {last.documents:,}{operations}, {last.bytes:,} bytes"
    yield from (f"  note       {note}" for note in last.notes)


def _sink(sink: SinkStatus) -> str:
    if sink.runs is not None:
        return f"{sink.runs:,} runs in its directory"
    return f"has {sink.whole} wholly" if sink.whole else "has no run wholly"


def _tokens(sink: SinkStatus) -> Iterator[str]:
    """Where the lanes stand, those together that stand alike."""
    for (run, documents), tokens in groupby(
        sink.tokens, lambda token: (token.run, token.documents)
    ):
        lanes = [token.lane for token in tokens]
        several = f"{len(lanes)} lanes from {lanes[0]} to {lanes[-1]}, each"
        names = f"lane {lanes[0]}" if len(lanes) == 1 else several
        yield f"  {names}: {documents:,} documents of {run}"
    if sink.rejects is not None:
        yield f"  rejected records: {sink.rejects.records:,} of {sink.rejects.run}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
