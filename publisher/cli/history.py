"""``xds-publisher history``: shows everything known of one object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json

if TYPE_CHECKING:
    from publisher.model.change import Object
    from publisher.reports.history import HistoryEntry, IdentityHistory, ValueChange


@command("history -c hr.toml idu=1", "history out/ idu=1")
@click.argument("words", metavar="[LEDGER...] OBJECT", nargs=-1, required=True)
@click.option("--source", metavar="NAME", help="Show only the records of this source.")
@click.option(
    "--to",
    "target",
    metavar="FILE.html",
    type=parameters.PATH,
    help="Write the history as a page that needs no network; an existing file is replaced.",
)
@parameters.config
@parameters.ledger_of_job
@parameters.report_form
def history(
    words: tuple[str, ...],
    source: str | None,
    config: Path | None,
    ledger: Path | None,
    target: Path | None,
    json_: bool,
) -> None:
    """Show the history of one object over runs.

    It shows each record with its outcome, and the values before and after each document.  OBJECT is a
    key (idu=1) or an association (idu=1,table=usr,schema=indirect).  Each LEDGER is the ledger of a
    run, a directory that replay wrote, or the ledger directory of a job; with -c it is the job's.  An
    object whose key changes has one history under all of its keys.
    """
    from publisher.cli import output
    from publisher.ledger.durable import check_report_target, write_report
    from publisher.reports.history import read_history

    *places, what = _object_last(words)
    directories = parameters.ledger_directories(map(Path, places), config, ledger)
    if target is not None:
        check_report_target(target)
    histories = read_history(directories, what, source=source)
    if target is not None:
        from publisher.reports.page.render import render_history

        write_report(target, render_history(histories, datetime.now(UTC)))
        echo([f"{target}: {sum(len(found.entries) for found in histories):,} record(s)"], err=json_)
    if json_:
        echo_json([output.as_json(histories)])
    elif target is None:
        echo(_text(histories))


def _object_last(words: Sequence[str]) -> list[str]:
    """The words with the object at the end; earlier versions had it at the beginning."""
    first, *others = words
    if not others or "=" not in first or Path(first).exists():
        return [*words]
    is_last = "=" in others[-1] and not Path(others[-1]).exists()
    return [*words] if is_last else [*others, first]


def _text(histories: Sequence[IdentityHistory]) -> Iterator[str]:
    for number, found in enumerate(histories):
        if number:
            yield ""
        runs = len({(entry.ledger, entry.story.run) for entry in found.entries})
        yield (
            f"{found.object.key} of {found.object.qualified_table}: {len(found.entries):,} record(s) in "
            f"{runs:,} run(s), {found.documents:,} document(s)"
        )
        for entry in found.entries:
            yield from _entry_text(entry, found.object)


def _entry_text(entry: HistoryEntry, obj: Object) -> Iterator[str]:
    story = entry.story
    columns = f": {', '.join(story.columns)}" if story.columns else ""
    who = f" by {story.perpetrator}" if story.perpetrator else ""
    key = f" as {story.object.key}" if story.object is not None and story.object != obj else ""
    yield f"{story.event_time or 'unknown time'}  {story.event or 'record'}{columns}{who}{key}"
    reason = f" ({story.reason})" if story.reason else ""
    because = f": {story.meaning}" if story.meaning else ""
    written = {None: "", "D": ", row deleted"}.get(story.written, ", written")
    yield (
        f"  {story.position} of {story.source} in {story.run or Path(entry.ledger).absolute().name}: "
        f"{story.outcome}{reason}, status {story.status}{written}{because}"
    )
    if story.document is not None:
        if entry.changes is None:
            yield f"  in the document {story.document.event_id}"
            return
        yield f"  document {story.document.event_id}: {story.document.operation}"
        for change in entry.changes:
            yield f"    {change.attribute}: {_change_text(change)}"


def _change_text(change: ValueChange) -> str:
    """``old → new``, or the removed and added values if the others are unknown."""
    between = ", " if change.after is None else " → "
    return between.join(text for text in change.texts if text)
