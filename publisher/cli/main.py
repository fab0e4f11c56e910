"""The command line: parses arguments, calls the commands, maps errors to exit codes.

Commands import their modules when they run: ``--help`` answers at once, and only commands that process
changes in Spark load it.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import re
import select
import signal
import sys
from collections.abc import Iterable
from typing import IO, Any, NoReturn

import click

from publisher import __version__
from publisher.cli.acknowledge import acknowledge
from publisher.cli.activity import activity
from publisher.cli.check import check
from publisher.cli.classes import classes
from publisher.cli.command import verbosity_options
from publisher.cli.ddl import ddl
from publisher.cli.demo import demo
from publisher.cli.diff import diff
from publisher.cli.dispatch import dispatch
from publisher.cli.explain import explain
from publisher.cli.history import history
from publisher.cli.init import init
from publisher.cli.inspect import inspect
from publisher.cli.manual import manual
from publisher.cli.migrate import migrate
from publisher.cli.print_report import echo
from publisher.cli.publish import publish
from publisher.cli.recover import recover
from publisher.cli.rejects import rejects
from publisher.cli.replay import replay
from publisher.cli.report import report
from publisher.cli.retry import retry
from publisher.cli.schema import schema
from publisher.cli.status import status
from publisher.cli.tracebacks import library_log, redact_uncaught, show_traceback
from publisher.cli.validate import validate
from publisher.cli.verify import verify
from publisher.errors import PublisherError, SettingsError, UsageError, of_system
from publisher.extras import missing_extra
from publisher.no_pandas import hide_pandas
from publisher.redaction import hide_values, redact_all, show_values

PROGRAM = "xds-publisher"
_REPORT = (
    "unexpected error: set XDS_DEBUG=1 (or put --debug before the command) and report the output"
)


INTERRUPTED = 128 + signal.SIGINT
"""Exit code after Ctrl-C, as of other programs."""
CLOSED_PIPE = 128 + signal.SIGPIPE
"""Exit code if the reader of the output ended early, as of other programs."""
_GARBAGE_THRESHOLD = 250_000
"""Number of new objects before a garbage collection.  Imports create this many objects and no garbage: with
Python's default a tenth of the time of a short command is garbage collection."""


class Commands(click.Group):
    """Group of commands that prints every error in one style, and maps it to its exit code."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parses the options before the command."""
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            raise UsageFailure(error) from None
        except OSError as error:  # --help and --version print here
            raise _exit_after(None, error) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the options before the command.  No arguments at all ask for the help."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; ``help COMMAND`` is ``COMMAND --help``."""
        if args == ["help"]:
            click.echo(ctx.get_help())
            ctx.exit()
        if args[0] == "help":
            args = [args[1], "--help"]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command of the command line."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # reports a closed pipe here, not when the process ends
        except PublisherError as error:
            lines = error.lines if isinstance(error, SettingsError) else [error.message]
            _fail(ctx, lines, error.exit_code)
        except click.UsageError as error:
            raise UsageFailure(error) from None
        except click.exceptions.Exit:
            raise
        except KeyboardInterrupt:
            _fail(ctx, ["interrupted"], INTERRUPTED)
        except Exception as error:
            if _is_interrupt(error):
                _fail(ctx, ["interrupted"], INTERRUPTED)
            raise _exit_after(ctx, error) from error
        return result

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands with their whole first sentences."""
        rows = [
            (name, self.commands[name].get_short_help_str(1_000)) for name in sorted(self.commands)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class UsageFailure(click.ClickException):
    """A wrong command line, in the style of all errors."""

    exit_code = UsageError.exit_code

    def __init__(self, error: click.UsageError) -> None:
        """``error`` repeats words of the command line."""
        message = error.format_message().replace("\n\t", " ").rstrip(".")  # click's list of choices
        message = re.sub(r"\. \(?Did you mean (.*\?)\)?$", r" (did you mean \1)", message)
        path = error.ctx.command_path if error.ctx else PROGRAM
        super().__init__(redact_all(f"{message[:1].lower()}{message[1:]}; see {path} --help"))

    def show(self, _: IO[Any] | None = None) -> None:
        """Prints the error to standard error."""
        echo([f"error: {self.message}"], err=True)


def _is_interrupt(error: BaseException | None) -> bool:
    """Returns whether Ctrl-C caused an error: interrupted calls may raise other exceptions."""
    while error is not None:
        if isinstance(error, (KeyboardInterrupt, click.Abort)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _has_lost_its_reader() -> bool:
    """Returns whether the reader of standard output or standard error ended early, as ``head`` does.

    Discards further output then, which Python would write when the process ends.
    """
    poll = select.poll()
    for stream in (1, 2):
        poll.register(stream, select.POLLERR)
    lost = [stream for stream, event in poll.poll(0) if event & select.POLLERR]
    for stream in lost:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    return bool(lost)


def _describe(error: Exception) -> tuple[list[str], int]:
    """Returns the lines about an error that is not the program's own, and the exit code."""
    if isinstance(error, OSError):
        return [of_system(error).message], PublisherError.exit_code
    missing = missing_extra(error)
    if missing is not None:
        return [missing], UsageError.exit_code
    message = hide_values(redact_all(str(error) or "no message").splitlines()[0])
    return [f"{type(error).__name__}: {message}", _REPORT], PublisherError.exit_code


def _exit_after(ctx: click.Context | None, error: Exception) -> click.exceptions.Exit:
    """Prints an error that is not the program's own, unless the reader of the output ended early."""
    if isinstance(error, BrokenPipeError) and _has_lost_its_reader():
        return click.exceptions.Exit(CLOSED_PIPE)
    lines, exit_code = _describe(error)
    _print_failure(ctx, lines)
    return click.exceptions.Exit(exit_code)


def _fail(ctx: click.Context, lines: Iterable[str], exit_code: int) -> NoReturn:
    _print_failure(ctx, lines)
    raise click.exceptions.Exit(exit_code) from None


def _print_failure(ctx: click.Context | None, lines: Iterable[str]) -> None:
    if ctx is not None and ctx.params.get("debug"):
        show_traceback()
    echo((f"error: {line}" for line in lines), err=True)


@click.group(
    PROGRAM,
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each command has its own help: xds-publisher COMMAND --help",
)
@click.version_option(__version__, "-V", "--version", prog_name=PROGRAM)
@click.option("--debug", is_flag=True, envvar="XDS_DEBUG", help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Publish changes recorded by replication systems as XDS documents.

    Exit codes: 0 done, 1 failed, 2 wrong command line or settings, 3 findings of check, validate, verify
    or diff, 4 done but too many records were rejected, 5 database or brokers unreachable, 6 replaced by a
    newer instance, 7 publish --follow runs and would be ended, 130 interrupted, 141 the reader of the output
    ended early.
    """
    show_values()
    # log records of libraries (of an interrupted call, for instance) are not for operators
    logging.getLogger().addHandler(library_log() if debug else logging.NullHandler())


for command in (
    *(acknowledge, activity, check, classes, ddl, demo, diff, dispatch, explain),
    *(
        history,
        init,
        inspect,
        manual,
        migrate,
        publish,
        recover,
        rejects,
        replay,
        report,
        retry,
        schema,
        status,
    ),
    *(validate, verify),
):
    cli.add_command(command)
cli.params += verbosity_options()


def main() -> None:
    """Runs the program ``xds-publisher``."""
    gc.set_threshold(_GARBAGE_THRESHOLD)
    # Python searches all objects for garbage when it ends, which takes 0.1 s; the process returns all memory
    atexit.register(gc.freeze)
    # pydantic searches all installed packages for plugins, which takes 0.02 s; settings need none
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    hide_pandas()
    # documents, ledger and job files hold personal data and secrets
    os.umask(os.umask(0o077) | 0o077)
    redact_uncaught()
    _open_missing_streams()
    cli(prog_name=PROGRAM)


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
