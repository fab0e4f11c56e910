"""The command line: parses arguments, calls the commands, maps errors to exit codes.

Commands import their modules when they run: ``--help`` answers at once, and only commands that process
changes in Spark load it.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from publisher import __version__
from publisher.cli import parameters
from publisher.cli.acknowledge import acknowledge
from publisher.cli.activity import activity
from publisher.cli.ddl import ddl
from publisher.cli.migrate import migrate
from publisher.cli.print_report import echo, echo_json, show
from publisher.cli.publish import follow_until_signal, publish_once
from publisher.cli.recover import recover
from publisher.cli.retry import retry
from publisher.cli.status import status
from publisher.cli.tracebacks import library_log, redact_uncaught, show_traceback
from publisher.console import printable
from publisher.errors import (
    FindingsError,
    PublisherError,
    SettingsError,
    UsageError,
    of_system,
)
from publisher.redaction import redact_all

if TYPE_CHECKING:
    from publisher.config.settings import Settings

_REPORT = (
    "unexpected error: set XDS_DEBUG=1 (or put --debug before the command) and report the output"
)


class Commands(click.Group):
    """Group of commands that maps every error to its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command of the command line."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # reports a closed pipe here, not when the process ends
        except PublisherError as error:
            lines = error.lines if isinstance(error, SettingsError) else [error.message]
            _fail(ctx, lines, error.exit_code)
        except click.UsageError as error:  # its message repeats words of the command line
            text = printable(redact_all(error.format_message()))
            raise click.UsageError(text, error.ctx) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except OSError as error:
            _fail(ctx, [of_system(error).message], PublisherError.exit_code)
        except Exception as error:  # the last resort; --debug shows the traceback
            if _is_interrupt(error):
                raise click.Abort from error
            message = redact_all(str(error) or "no message").splitlines()[0]
            _fail(ctx, [f"{type(error).__name__}: {message}", _REPORT], PublisherError.exit_code)
        return result


def _is_interrupt(error: BaseException | None) -> bool:
    """Returns whether Ctrl-C caused an error: interrupted calls may raise other exceptions."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _fail(ctx: click.Context, lines: Iterable[str], exit_code: int) -> NoReturn:
    if ctx.params.get("debug"):
        show_traceback()
    echo((f"error: {line}" for line in lines), err=True)
    raise click.exceptions.Exit(exit_code) from None


_to = click.option(
    "--to",
    "target",
    type=parameters.Target(),
    required=True,
    metavar="DIR|kafka://HOST:PORT/TOPIC",
    help="New or empty directory to write to, or topic to send to.",
)
_now = click.option(
    "--now", type=parameters.Moment(), help="Set the clock, for events of the future."
)
_again = click.option("--again", is_flag=True, help="Resend everything.")
_database = click.option(
    "--database", metavar="URL", help="Database to look rows up in, as SQLAlchemy URL."
)
_schema = click.option(
    "--schema", metavar="NAME", help="Schema of tables whose names have none in the source."
)
_FORMATS = "Source format: event-log, change-table, linkexpress, dispatch-queue, triggerless"
_format = click.option("--format", "format_", metavar="FORMAT", help=f"{_FORMATS}.")
_format_or_samples = click.option(
    "--format",
    "format_",
    metavar="FORMAT",
    help=f"{_FORMATS}; or table-queue, for samples of the table queue.",
)
_status = click.option(
    "--status", metavar="N|any", help="Records to read: new records (N), or all (any)."
)
_lanes = click.option(
    "--lanes", type=int, metavar="N", help="Number of part files and parallel lanes; default 8."
)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="xds-publisher")
@click.option("--debug", is_flag=True, envvar="XDS_DEBUG", help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Publish changes recorded by replication systems as XDS documents.

    Exit codes: 0 done, 1 failed, 2 usage or settings, 3 findings of check or validate,
    4 done but more records were rejected than allowed, 5 source or database unreachable.
    """
    # log records of libraries (of an interrupted call, for instance) are not for operators
    logging.getLogger().addHandler(library_log() if debug else logging.NullHandler())


@cli.command()
@parameters.config_required
@click.option(
    "--follow", is_flag=True, help="Publish continuously, poll after poll, until SIGTERM or Ctrl-C."
)
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    help="Write log lines to standard error in this form.",
)
@click.option(
    "--trace",
    type=click.IntRange(0, 7),
    metavar="0..7",
    help="Write the driver's trace of this level to standard error; from 3 on with documents.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Plan only: show counts and the first documents, and keep nothing.",
)
@click.option(
    "--by-rows",
    is_flag=True,
    help="Continue in another database if the rows of compared tables and change tables prove it a copy.",
)
@_now
@_database
@_schema
@_lanes
@parameters.journal_of_job
@parameters.report_as_json
def publish(
    config: Path,
    follow: bool,
    log: str | None,
    trace: int | None,
    dry_run: bool,
    by_rows: bool,
    now: datetime | None,
    json_: bool,
    **overrides: Any,
) -> None:
    """Publish the job of a job file, once or, with --follow, continuously."""
    from publisher import console
    from publisher.runs.replay import rehearse

    settings = _settings_to_publish(config, follows=follow, **overrides)
    if follow:
        if dry_run or by_rows or now is not None:
            raise click.UsageError(
                "--follow excludes --dry-run, --by-rows and --now: leave them out"
            )
        follow_until_signal(settings, as_json=json_ or log == "json", trace=trace or 0)
        return
    if dry_run and (log is not None or trace is not None):
        raise click.UsageError("--dry-run excludes --log and --trace: leave them out")
    with console.progress() as progress:
        if dry_run:
            report = rehearse(settings, now=now, progress=progress, by_rows=by_rows)
        else:
            report = publish_once(settings, now, progress, log=log, trace=trace, by_rows=by_rows)
    show(report, json_, settings.allowed_rejects(0))


@cli.command()
@click.argument("snapshots", nargs=-1, required=True, type=parameters.PATH, metavar="SNAPSHOT...")
@_to
@parameters.config
@_format
@_database
@_schema
@click.option("--from", "window_from", metavar="POS", help="First position to publish.")
@click.option("--until", "window_until", metavar="POS", help="Last position to publish.")
@_now
@_status
@_lanes
@_again
@parameters.report_as_json
def replay(
    snapshots: tuple[Path, ...],
    target: str,
    config: Path | None,
    window_from: str | None,
    window_until: str | None,
    now: datetime | None,
    again: bool,
    json_: bool,
    **overrides: Any,
) -> None:
    """Publish snapshots, files or directories, to a directory or to Kafka.

    An interrupted replay resumes; a finished replay sends nothing when it is repeated.
    """
    from publisher import console
    from publisher.runs.replay import replay as run_replay

    settings = _settings(config, **overrides).for_replay(overrides["format_"])
    with console.progress() as progress:
        report = run_replay(
            settings,
            snapshots,
            target,
            window_from=window_from,
            window_until=window_until,
            now=now,
            again=again,
            progress=progress,
        )
    show(report, json_, settings.allowed_rejects(None))


@cli.command()
@click.argument("journal", type=parameters.PATH)
@_to
@parameters.config
@_again
@parameters.report_as_json
def dispatch(journal: Path, target: str, config: Path | None, again: bool, json_: bool) -> None:
    """Send the documents of a planned run to a further sink.

    Of a job file only [dispatch] counts: how documents go to Kafka.
    """
    from publisher.runs.replay import dispatch as run_dispatch

    show(run_dispatch(journal, target, _settings(config), again=again), json_, None)


@cli.command()
@click.argument("files", nargs=-1, required=True, type=parameters.PATH, metavar="FILE...")
@_format_or_samples
@parameters.config
@_database
@_schema
@_status
def inspect(files: tuple[Path, ...], config: Path | None, **overrides: Any) -> None:
    """Print the normalised changes of files as JSON lines.

    With --format table-queue it prints the elements of samples of the table queue.
    """
    from publisher.reports.changes import inspect as records_of

    if overrides["format_"] == "table-queue":
        from publisher.activity.inspection import call_lines

        echo_json(call_lines(files, _settings(config).table_queue))
        return
    settings = _settings(config, **overrides).for_replay(overrides["format_"])
    echo_json(records_of(settings, files))


@cli.command()
@click.argument("journal", type=parameters.PATH)
@click.argument("what", metavar="POSITION|KEY")
@parameters.report_as_json
def explain(journal: Path, what: str, json_: bool) -> None:
    """Explain a change: its record, its outcome and the reason, its document.

    JOURNAL is a journal or a directory that replay wrote.  Name the change by its position (4711), its
    event id, a key (idu=1) or an association (idu=1,table=usr,schema=indirect).
    """
    from publisher.cli import output
    from publisher.reports.explain import explain as stories_of

    stories = stories_of(journal, what)
    if json_:
        echo_json([output.as_json(stories)])
    else:
        echo(output.stories_text(stories))


@cli.command()
@click.argument("files", nargs=-1, required=True, type=parameters.PATH, metavar="FILE...")
@click.option(
    "--profile",
    type=click.Choice(["strict", "lenient"]),
    default="strict",
    show_default=True,
    help="Accept the documented model only (strict), or also known practice beyond it (lenient).",
)
@click.option("--json", "json_", is_flag=True, help="Print each finding as a line of JSON.")
def validate(files: tuple[Path, ...], profile: str, json_: bool) -> None:
    """Check XDS documents, one in a file or one on each line."""
    from publisher.xds.validate import json_line, text_line, validate_files

    findings = 0
    missing = [path for path in files if not path.exists()]
    echo((f"error: {path}: no such file: check its name" for path in missing), err=True)
    for finding in validate_files([path for path in files if path not in missing], profile):
        findings += 1
        click.echo(json_line(finding) if json_ else text_line(finding))
    if findings:
        raise FindingsError(
            f"findings: {findings:,}; correct the documents, or see --profile lenient"
        )
    if missing:
        raise UsageError(f"{len(missing)} of {len(files)} files do not exist: check their names")


@cli.command()
@parameters.config_required
@_database
@_schema
@parameters.journal_of_job
@parameters.report_as_json
def check(config: Path, json_: bool, **overrides: Any) -> None:
    """Check a job: settings, files, database, places to write to.  Write nothing."""
    from publisher.cli import output
    from publisher.reports.check import check as findings_of

    findings = []
    for finding in findings_of(_settings_to_publish(config, **overrides)):
        findings.append(finding)
        if not json_:  # one by one: some checks take seconds
            echo(output.checks_text([finding]))
    if json_:
        echo_json([output.as_json(findings)])
    problems = sum(not finding.ok for finding in findings)
    if problems:
        raise FindingsError(
            f"{problems} of {len(findings)} checks failed: correct them, then check again"
        )


def _settings(config: Path | None, *, format_: str | None = None, **overrides: Any) -> Settings:
    """Loads the job file or the defaults, overridden by the command line."""
    from publisher.config.job_file import Overrides, defaults, load

    options = Overrides(format=format_, **overrides)
    return defaults(options) if config is None else load(config, options)


def _settings_to_publish(config: Path, *, follows: bool = False, **overrides: Any) -> Settings:
    from publisher.config.job_file import Overrides, load_to_publish

    return load_to_publish(config, Overrides(**overrides), follows=follows)


cli.add_command(acknowledge)
cli.add_command(activity)
cli.add_command(ddl)
cli.add_command(migrate)
cli.add_command(recover)
cli.add_command(retry)
cli.add_command(status)


def main() -> None:
    """Runs the program ``xds-publisher``."""
    redact_uncaught()
    _open_missing_streams()
    cli(prog_name="xds-publisher")


def _open_missing_streams() -> None:
    """Opens standard streams that the process was started without.

    Otherwise the next file or connection would take their place and receive messages.
    """
    without_output = sys.stdout is None
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if without_output:
        message = "error: standard output is closed: redirect it to a file or /dev/null\n"
        sys.stderr.write(message)
        sys.exit(UsageError.exit_code)
