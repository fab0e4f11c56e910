"""``xds-publisher activity``: statistics of samples of the table queue."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo_notes

if TYPE_CHECKING:
    from rich.table import Table

    from publisher.activity.counts import Activity, NodeCounts
    from publisher.activity.report import ActivityReport, TableActivity
    from publisher.config.settings import Settings

Form = Literal["text", "json", "csv"]


_WIDTH = 132
"""Line width in characters if standard output is not a terminal."""
_TABLES_SHOWN = 40
"""Maximum number of tables of each node in the text, those present most often first."""


@command("activity samples/", "activity samples/ --as csv --to activity.csv")
@click.argument("samples", nargs=-1, required=True, type=parameters.PATH, metavar="SAMPLES...")
@parameters.config
@click.option(
    "--as",
    "form",
    type=click.Choice(["text", "json", "csv"]),
    help="Form of the report: text by default; JSON with all numbers, or CSV of the tables.",
)
@click.option("--json", "json_", is_flag=True, help="Short for --as json.")
@click.option(
    "--to",
    "target",
    metavar="FILE",
    type=parameters.PATH,
    help="File to write to, instead of standard output.",
)
def activity(
    samples: tuple[Path, ...],
    config: Path | None,
    form: Form | None,
    json_: bool,
    target: Path | None,
) -> None:
    """Show how often tables appear in LINTER's table queue.

    It also shows whether the queue is long enough.  SAMPLES are files and directories with recorded DIRR
    calls of any number of sweeps.  Of a job file only [table_queue] and [activity] are used.
    """
    from publisher.activity.report import ActivityReport

    if json_ and form not in (None, "json"):
        raise click.UsageError(f"--json excludes --as {form}: leave one of both out")
    form = "json" if json_ else form or "text"
    settings = parameters.load_settings(config)
    report = ActivityReport(_count(settings, samples), settings.table_queue.owners)
    if target is not None:
        with target.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in _lines(report, form))
    else:
        for line in _lines(report, form):
            click.echo(line)
    echo_notes(activity_notes(report, form))


def _count(settings: Settings, samples: tuple[Path, ...]) -> Activity:
    from publisher.activity.count_activity import count_activity
    from publisher.activity.work import samples_of

    work = samples_of(samples, settings.table_queue, settings.activity)
    return count_activity(work)


def _lines(report: ActivityReport, form: Form) -> Iterator[str]:
    if form == "json":
        yield json.dumps(report.content(), indent=2)
    elif form == "csv":
        yield from report.csv_lines()
    else:
        yield from activity_text(report, _TABLES_SHOWN)


def activity_notes(report: ActivityReport, form: Form) -> Iterator[str]:
    """Yields notes that explain the numbers."""
    from publisher.activity.measures import UPDATE_RATE_BIASES
    from publisher.console import printable

    activity = report.activity
    if form == "csv":
        yield f"updates_per_hour is {'; '.join(UPDATE_RATE_BIASES)}"
    for problem in activity.problems:
        place = f"{problem.file}:{problem.row}"
        yield printable(
            f"unusable calls ({problem.problem}): {problem.calls:,}, the first at {place}:"
            f" {problem.detail}; inspect --format table-queue shows each"
        )
    yield from report.notes()
    if not any(node.sweeps for node in activity.nodes):
        if activity.calls:
            yield "all sweeps were left out: see the reasons above, and check [table_queue] recorded"
        else:
            yield "the samples have no calls: check whether their recording or an export failed"


def activity_text(report: ActivityReport, limit: int) -> Iterator[str]:
    """Formats the report as lines of text, with at most ``limit`` tables of each node."""
    from rich.console import Console

    from publisher.activity.measures import UPDATE_RATE_BIASES
    from publisher.console import printable

    tables = report.tables()
    for node in report.activity.nodes:
        yield from map(printable, _node_text(node))
        node_tables = [table for table in tables if table.node == node.node]
        if not node_tables:
            continue
        console = Console(width=None if sys.stdout.isatty() else _WIDTH)
        with console.capture() as output:
            console.print(_table(node_tables[:limit]))
        yield output.get().rstrip("\n")
        if len(node_tables) > limit:
            yield f"and {len(node_tables) - limit:,} more tables: see --as csv"
    if tables:
        yield "updates/h: the sum of UpdFlag over observed time, which is"
        yield from (f"  {bias}" for bias in UPDATE_RATE_BIASES)
        yield "evicted, included again: a table left the queue, or came back (presence view)"
        yield "replaced: another table took the same ordinal (slot view); do not add figures of both views"


def _node_text(node: NodeCounts) -> Iterator[str]:
    from publisher.activity.report import iso_time

    times = (
        f" from {iso_time(node.first)} to {iso_time(node.last)}" if node.first is not None else ""
    )
    yield f"node {node.node or '(not recorded)'}: {node.sweeps:,} sweeps{times}"
    hours = node.observed_us / 3.6e9
    yield f"  observed     {hours:,.2f} h; elements {_range(node.shortest, node.longest)}"
    limit = (
        ""
        if node.gap_limit_us is None
        else f", sweeps more than {node.gap_limit_us / 1e6:,.1f} s apart"
    )
    yield f"  gaps         {node.gaps:,} ({node.gap_us / 1e6:,.1f} s in all{limit})"
    yield (
        f"  left out     {node.incomplete:,} sweeps with a missing call, {node.failed:,} with a failed"
        f" call, {node.implausible:,} with EORR in place of a system table, {node.conflicting:,} with"
        " calls that differ"
    )
    yield f"  missing      {node.missing:,} sweep numbers; recorded twice: {node.duplicates:,} calls"
    if node.untimed:
        yield f"  without time {node.untimed:,} sweeps, which are not compared with others"


def _range(shortest: int | None, longest: int | None) -> str:
    return "none" if shortest is None else f"{shortest:,} to {longest:,}"


def _table(tables: list[TableActivity]) -> Table:
    from rich.table import Column, Table
    from rich.text import Text

    from publisher.console import printable

    grid = Table(Column("table", overflow="fold"))
    for name in ("present", "mean ordinal", "dirty", "updates/h"):
        grid.add_column(name, justify="right")
    for name in ("evicted", "included again", "after s", "replaced"):
        grid.add_column(name, justify="right")
    optional = [(name, read) for name, read in _OPTIONAL if any(map(read, tables))]
    for name, _ in optional:
        grid.add_column(name, justify="right")
    for table in tables:
        name = f"{table.schema if table.schema is not None else table.owner}.{table.table}"
        grid.add_row(
            Text(printable(name)),  # no markup in names
            _share(table.access_frequency),
            _number(table.access_intensity),
            _share(table.dirty_share),
            _number(table.updates_per_hour),
            f"{table.presence.evictions:,}",
            f"{table.presence.reinclusions:,}",
            _number(table.presence.absence_seconds),
            f"{table.slots.replacements:,}",
            *(f"{read(table):,}" for _, read in optional),
        )
    return grid


_OPTIONAL: tuple[tuple[str, Callable[[TableActivity], int]], ...] = (
    ("doubled", lambda table: table.doubled),
    ("odd flags", lambda table: table.odd_flags),
)
"""Columns that appear only if the number of a table is not 0."""


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
