"""Options that several commands share, and their parameter types."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from publisher.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from publisher.config.settings import Settings


_EMPTY_PATH = "it is empty: write . for the working directory"


class Moment(click.ParamType[datetime]):
    """A time in ISO 8601; UTC if it has no zone."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Parses a time into a ``datetime`` with zone."""
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is not a time: write it as 2026-01-31T12:00:00 (UTC) or with +01:00",
                param,
                ctx,
            )
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Target(click.ParamType[str]):
    """Target of documents: a directory, or topics of Kafka."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Checks a target and returns it unchanged."""
        from publisher.dispatch.kafka.topic_template import SCHEME, KafkaTarget

        if not value:
            self.fail(_EMPTY_PATH, param, ctx)
        if value.startswith(SCHEME):
            KafkaTarget.parse(value)
        elif "://" in value:
            self.fail(
                f"{value!r} is not a directory, and does not start with {SCHEME}: correct it",
                param,
                ctx,
            )
        return str(value)


class TextPath(click.Path):
    """A path whose name is text, because reports and ledgers contain it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Checks that the name of a path is UTF-8, and not empty as that of an unset variable."""
        if not os.fspath(value):
            self.fail(_EMPTY_PATH, param, ctx)
        try:
            os.fspath(value).encode()
        except UnicodeEncodeError:
            self.fail(f"{os.fspath(value)!r} has bytes that are not UTF-8: rename it", param, ctx)
        return super().convert(value, param, ctx)


class JobFilePath(TextPath):
    """A path for which shells complete job files and directories."""

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's protocol
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Lists job files and directories whose paths begin with the incomplete word."""
        from click.shell_completion import CompletionItem

        folder, _, start = incomplete.rpartition("/")
        names = f"{folder}/" if folder or incomplete.startswith("/") else ""
        items = []
        with suppress(OSError):  # a directory that does not exist completes nothing
            for path in sorted(Path(names or ".").iterdir()):
                if path.name.startswith(start) and path.is_dir():
                    items.append(CompletionItem(f"{names}{path.name}/"))
                elif path.name.startswith(start) and path.suffix == ".toml":
                    items.append(CompletionItem(names + path.name))
        return items


def _complete_format(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from publisher.formats.registry import FORMATS

    return [CompletionItem(name) for name in FORMATS if name.startswith(incomplete)]


def complete_reason(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Lists the reasons of records and of refused documents that begin with the incomplete word."""
    from click.shell_completion import CompletionItem

    from publisher.dispatch.refusals import RefusalReason
    from publisher.model.change import Reason

    reasons = (*Reason, *RefusalReason)
    return [CompletionItem(name) for name in reasons if name.startswith(incomplete)]


def _complete_status(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in ("N", "any") if name.startswith(incomplete)]


PATH = TextPath(path_type=Path)
_JOB_FILE = JobFilePath(path_type=Path)
config = click.option("-c", "--config", metavar="JOB.toml", type=_JOB_FILE, help="Job file.")
config_required = click.option(
    "-c", "--config", metavar="JOB.toml", type=_JOB_FILE, required=True, help="Job file."
)
ledger_of_job = click.option(
    "--ledger", metavar="DIR", type=PATH, help="Directory of the job's ledger."
)


def dry_run_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option ``--dry-run`` with the help of a command."""
    return click.option("--dry-run", is_flag=True, help=text)


dry_run = dry_run_option(
    "Plan only: show counts and the first documents, send nothing and store nothing."
)
target = click.option(
    "--to",
    "target",
    type=Target(),
    required=True,
    metavar="DIR|kafka://HOST:PORT/TOPIC",
    help="New or empty directory to write to, or topic to send to.",
)
now = click.option(
    "--now",
    type=Moment(),
    help="Time of the run, instead of the current time; later events count as future.",
)
again = click.option("--again", is_flag=True, help="Resend everything.")
database = click.option(
    "--database", metavar="URL", help="Database to look rows up in, as SQLAlchemy URL."
)
schema = click.option(
    "--schema", metavar="NAME", help="Schema of tables whose names have none in the source."
)
_FORMATS = "Source format: event-log, change-table, linkexpress, dispatch-queue, triggerless"
source_format = click.option(
    "--format",
    "format_",
    metavar="FORMAT",
    shell_complete=_complete_format,
    help=f"{_FORMATS}.",
)
format_or_samples = click.option(
    "--format",
    "format_",
    metavar="FORMAT",
    shell_complete=_complete_format,
    help=f"{_FORMATS}; or table-queue, for samples of the table queue.",
)
status = click.option(
    "--status",
    metavar="N|any",
    shell_complete=_complete_status,
    help="Records to read: new records (N), or all (any).",
)
lanes = click.option(
    "--lanes",
    type=int,
    metavar="N",
    help="Number of part files and parallel lanes; default 8, and 1 to replay small input to files.",
)

engine = click.option(
    "--engine",
    type=click.Choice(["auto", "spark", "local"]),
    help="Engine that runs the tasks; the default auto starts Spark only if the input is large.",
)


def report_form(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--as`` and ``--json``, the form of a report; the command receives ``json_``."""

    @wraps(function)
    def run(*args: Any, form: str | None, json_: bool, **kwargs: Any) -> Any:
        if json_ and form == "text":
            raise click.UsageError("--json excludes --as text: leave one of both out")
        return function(*args, json_=json_ or form == "json", **kwargs)

    form = click.option(
        "--as",
        "form",
        type=click.Choice(["text", "json"]),
        help="Form of the report; text by default.",
    )
    return form(click.option("--json", "json_", is_flag=True, help="Short for --as json.")(run))


def load_settings(config: Path | None, *, format_: str | None = None, **overrides: Any) -> Settings:
    """Loads the job file or the defaults, overridden by the command line."""
    from publisher.config.job_file import Overrides, defaults, load

    options = Overrides(format=format_, **overrides)
    return defaults(options) if config is None else load(config, options)


def ledger_directories(
    ledgers: Iterable[Path], config: Path | None, ledger: Path | None
) -> list[Path]:
    """The ledgers of a question, and that of the job of ``-c``.  Raises ``UsageError`` without any."""
    directories = list(ledgers)
    if config is not None:
        directories.append(load_settings(config, ledger=ledger).ledger_folder)
    if not directories:
        raise UsageError("no ledger is given: name directories with one, or a job file with -c")
    return directories


def load_settings_to_publish(config: Path, *, follows: bool = False, **overrides: Any) -> Settings:
    """Loads the job file of a job to publish, overridden by the command line."""
    from publisher.config.job_file import Overrides, load_to_publish

    return load_to_publish(config, Overrides(**overrides), follows=follows)
