"""``xds-publisher rejects``: lists, exports and retries rejected records."""

# ruff: noqa: PLC0415 - heavy modules are imported late, so that --help answers at once

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from publisher.cli import parameters
from publisher.cli.print_report import echo, echo_json
from publisher.engine.without_pandas import start_arrow_without_pandas
from publisher.errors import UsageError

if TYPE_CHECKING:
    from publisher.reports.rejects import RejectedRecord, RejectGroup

_LONGEST = 200


@click.command()
@click.argument("journals", metavar="[JOURNAL...]", nargs=-1, type=parameters.PATH)
@click.option(
    "--source", "sources", multiple=True, metavar="NAME", help="Only of this source; repeatable."
)
@click.option(
    "--reason", "reasons", multiple=True, metavar="REASON", help="Only of this reason; repeatable."
)
@click.option(
    "--export",
    "export",
    metavar="FILE.jsonl",
    type=parameters.PATH,
    help="Write the records that were not retried to a new file, one on each line.",
)
@parameters.config
@parameters.journal_of_job
@parameters.report_as_json
def rejects(
    journals: tuple[Path, ...],
    sources: tuple[str, ...],
    reasons: tuple[str, ...],
    export: Path | None,
    config: Path | None,
    journal: Path | None,
    json_: bool,
) -> None:
    """List rejected records over runs.

    It shows the number of records of each source and reason, what to do, and a sample.  Each JOURNAL
    is the journal of a run, a directory that replay wrote, or the journal directory of a job; with -c it is
    the job's.  --export writes the raw records to a file, in which you correct them.
    """
    start_arrow_without_pandas()
    from publisher.cli import output
    from publisher.reports.rejects import RejectSelection, group_rejects, read_rejects

    directories = list(journals)
    if config is not None:
        directories.append(parameters.load_settings(config, journal=journal).journals)
    if not directories:
        raise UsageError("no journal is given: name directories of journals, or a job file with -c")
    selection = RejectSelection(frozenset(sources), frozenset(reasons))
    records = read_rejects(directories, selection)
    if export is not None:
        echo([_export(records, export)])
        return
    groups = group_rejects(records)
    if json_:
        echo_json([output.as_json(groups)])
    else:
        echo(_text(groups))


def _export(records: Iterable[RejectedRecord], target: Path) -> str:
    """Writes the records that can be retried, one on each line; returns a summary."""
    from publisher.reports.rejects import exported

    count = left = 0
    with target.open("x", encoding="utf-8", newline="\n") as file:
        target.chmod(0o600)
        for record in records:
            entry = exported(record)
            if entry is None:
                left += 1
                continue
            file.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
            count += 1
    others = f"; {left:,} not written: retried before, or without raw record" if left else ""
    return f"{target}: {count:,} record(s){others}"


def _text(groups: Iterable[RejectGroup]) -> Iterator[str]:
    number = 0
    for group in groups:
        if number:
            yield ""
        number += 1
        retried = f", {group.retried:,} of them retried" if group.retried else ""
        yield (
            f"{group.source}: {group.reason}: {group.records:,} record(s) in {group.runs:,} run(s){retried}"
        )
        sample = group.sample
        yield f"  {_shorten(sample.detail)}"
        place = f" of {sample.object}" if sample.object else ""
        yield f"  for instance {sample.position}{place} in run {sample.run}"
        if sample.raw is not None:
            yield f"  {_shorten(sample.raw)}"
        if sample.retry is not None:
            reason = f" ({sample.retry.reason})" if sample.retry.reason else ""
            yield f"  retried in run {sample.retry.run}: {sample.retry.outcome}{reason}"
    if not number:
        yield "no rejected records"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
