"""``xds-publisher rejects``: lists, exports and retries rejected records."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json, echo_notes, show
from publisher.errors import UsageError

if TYPE_CHECKING:
    from publisher.reports.rejects import RejectGroup, RejectSelection
    from publisher.runs.rejects import RejectedRecord

_LONGEST = 200


@command(
    "rejects -c hr.toml",
    "rejects -c hr.toml --reason value --export corrections.jsonl",
    "rejects -c hr.toml --retry corrections.jsonl",
)
@click.argument("ledgers", metavar="[LEDGER...]", nargs=-1, type=parameters.PATH)
@click.option(
    "--source", "sources", multiple=True, metavar="NAME", help="Only of this source; repeatable."
)
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    metavar="REASON",
    shell_complete=parameters.complete_reason,
    help="Only of this reason; repeatable.",
)
@click.option(
    "--export",
    "export",
    metavar="FILE.jsonl",
    type=parameters.PATH,
    help="Write the records to a new file, one on each line.",
)
@click.option(
    "--retry",
    "corrected",
    metavar="FILE.jsonl",
    type=parameters.PATH,
    help="Publish the corrected records of a file with the job of -c, each once.",
)
@parameters.config
@parameters.now
@parameters.engine
@parameters.ledger_of_job
@parameters.dry_run_option("With --retry: plan only, and publish nothing.")
@parameters.report_form
def rejects(
    ledgers: tuple[Path, ...],
    sources: tuple[str, ...],
    reasons: tuple[str, ...],
    export: Path | None,
    corrected: Path | None,
    config: Path | None,
    json_: bool,
    **others: Any,
) -> None:
    """List the records that are rejected now, and publish corrected ones.

    It shows the number of records of each source and reason, what to do, and a sample.  Records that were
    requeued, corrected or published later are not listed.  Each LEDGER
    is the ledger of a run, a directory that replay wrote, or the ledger directory of a job; with -c it is
    the job's.  --export writes the raw records to a file.  Correct "raw" in it, and publish the records with
    --retry: they are read as new records of their source, after all others.
    """
    selects = bool(ledgers or sources or reasons)
    _refuse_combinations(others, corrected, export, selects=selects, json_=json_)
    if corrected is not None:
        _retry(config, corrected, others, json_=json_)
        return
    from publisher.reports.rejects import RejectSelection

    selection = RejectSelection(frozenset(sources), frozenset(reasons))
    reading = _reading(ledgers, config, others["ledger"])
    if export is not None:
        summary, notes = _export(reading.to_export(selection), export, config)
        echo([summary])
        echo_notes(notes)
        return
    _list_groups(reading, selection, json_=json_)


def _refuse_combinations(
    others: Mapping[str, Any],
    corrected: Path | None,
    export: Path | None,
    *,
    selects: bool,
    json_: bool,
) -> None:
    """Refuses options that would have no effect beside others."""
    if others["dry_run"] and corrected is None:
        raise click.UsageError("--dry-run needs --retry: add it, or leave both out")
    if corrected is not None and (selects or export is not None):
        raise click.UsageError(
            "--retry excludes LEDGER, --source, --reason and --export: leave them out"
        )
    if export is not None and json_:
        raise click.UsageError("--export writes JSON lines anyway: leave --json out")


@dataclass(frozen=True, slots=True)
class _Reading:
    """The rejected records of ledgers."""

    directories: tuple[Path, ...]
    requeued: Container[str | None] = ()
    """The ids of records whose rows are neither E nor F any more."""

    def records(self) -> Iterator[RejectedRecord]:
        """Reads all of them."""
        from publisher.reports.rejects import read_rejects

        records = read_rejects(self.directories)
        return (record for record in records if record.id is None or record.id not in self.requeued)

    def to_export(self, selection: RejectSelection) -> Iterator[RejectedRecord]:
        """Reads those that are selected, with all others of their transactions."""
        from publisher.reports.rejects import read_to_export

        return read_to_export(self.directories, selection, self.requeued)


def _reading(ledgers: tuple[Path, ...], config: Path | None, ledger: Path | None) -> _Reading:
    from publisher.reports.requeued_rejects import find_requeued

    if config is None:
        if not ledgers:
            raise UsageError("no ledger is given: name directories with one, or a job file with -c")
        return _Reading(ledgers)
    settings = parameters.load_settings(config, ledger=ledger)
    requeued, notes = find_requeued(settings)
    echo_notes(notes)
    return _Reading((*ledgers, settings.ledger_folder), requeued)


def _list_groups(reading: _Reading, selection: RejectSelection, *, json_: bool) -> None:
    """Prints the selected records by source and reason."""
    from publisher.cli import output
    from publisher.reports.rejects import group_rejects

    all_groups = group_rejects(reading.records())
    groups = [group for group in all_groups if selection.matches(group.sample)]
    if json_:
        echo_json([output.as_json(groups)])
    else:
        echo(_text(groups))
    echo_notes(selection.notes(all_groups))


def _retry(config: Path | None, corrected: Path, others: Mapping[str, Any], *, json_: bool) -> None:
    """Publishes corrected records."""
    from publisher.cli.progress import show_progress
    from publisher.config.job_file import Overrides, load_to_publish
    from publisher.runs.retry import read_corrections, retry_rejects

    if config is None:
        raise UsageError("--retry publishes with a job: name its job file with -c")
    overrides = Overrides(ledger=others["ledger"], engine=others["engine"])
    settings = load_to_publish(config, overrides)
    corrections = read_corrections(corrected)
    with show_progress() as progress:
        report = retry_rejects(
            settings,
            corrections,
            job_file=config,
            now=others["now"],
            progress=progress,
            dry_run=others["dry_run"],
        )
    show(report, json_, settings.allowed_rejects(0))


def _export(
    records: Iterable[RejectedRecord], target: Path, config: Path | None
) -> tuple[str, list[str]]:
    """Writes the records that can be retried, one on each line; returns a summary, and notes."""
    from publisher.reports.rejects import export_form, left_out

    count, notes = 0, []
    with _new_file(target) as file:
        for record in records:
            entry = export_form(record)
            if entry is None:
                notes.append(left_out(record, str(config or "JOB.toml")))
                continue
            file.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
            count += 1
    others = f"; {len(notes):,} left out" if notes else ""
    return f"{target}: {count:,} record(s){others}", notes


@contextmanager
def _new_file(target: Path) -> Iterator[TextIO]:
    """Opens a private file, and removes it after an error: a part of the records looks like all of them."""
    try:
        file = target.open("x", encoding="utf-8", newline="\n")
    except FileExistsError:
        raise UsageError(f"{target} exists already: name a new file") from None
    with file:
        target.chmod(0o600)
        try:
            yield file
        except BaseException:
            target.unlink()
            raise


def _text(groups: Iterable[RejectGroup]) -> Iterator[str]:
    number = 0
    for group in groups:
        if number:
            yield ""
        number += 1
        yield f"{group.source}: {group.reason}: {group.records:,} record(s) in {group.runs:,} run(s)"
        sample = group.sample
        yield f"  {_shorten(sample.detail)}"
        place = f" of {sample.object}" if sample.object else ""
        yield f"  for instance {sample.position}{place} in run {sample.run}"
        if sample.raw is not None:
            yield f"  {_shorten(sample.raw)}"
    if not number:
        yield "no rejected records"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
