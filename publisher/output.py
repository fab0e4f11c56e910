"""What the commands print: reports for people, and the same as JSON for machines.

Imports no part of the program at run time, so that the command line starts fast.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from publisher.checks import CheckFinding
    from publisher.explain import Story
    from publisher.journal.report import RunReport

Progress = Callable[[str, float], None]


def as_json(found: Any) -> str:
    """A report, or several, as one JSON text.  ASCII: safe for any terminal and encoding."""
    content = [asdict(item) for item in found] if isinstance(found, list) else asdict(found)
    return json.dumps(_with_names(content), indent=2, default=str)


def _with_names(value: Any) -> Any:
    """Named tuples as objects, where JSON would make them arrays."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _with_names(item) for name, item in value.items()}
    return [_with_names(item) for item in value] if isinstance(value, list | tuple) else value


def checks_text(findings: Iterable[CheckFinding]) -> Iterator[str]:
    """What was checked, a line each."""
    for finding in findings:
        yield printable(f"{'ok' if finding.ok else 'FAILED':<7} {finding.what}: {finding.detail}")


def run_text(report: RunReport) -> Iterator[str]:
    """A run in a few lines: the counts add up to the records read."""
    yield f"run {report.run}: {report.state}"
    sums = " + ".join(
        f"{count:,} {_outcome(name, report)}" for name, count in report.outcomes.items()
    )
    yield f"  records    {report.read:,} read = {sums}"
    for outcome, reasons in report.reasons.items():
        yield f"  {outcome:<10} {_counts(reasons)}"
    if len(report.sources) > 1:
        for source in report.sources:
            outcomes = {_outcome(name, report): n for name, n in source.outcomes.items()}
            yield f"  source     {source.name}: {source.read:,} read, {_counts(outcomes)}"
    operations = f" ({_counts(report.operations)})" if report.operations else ""
    yield f"  documents  {report.documents:,}{operations}, {report.bytes:,} bytes"
    if report.statuses:
        yield f"  statuses   {', '.join(f'{name} {n:,}' for name, n in report.statuses.items())}"
    if report.target:
        yield f"  written to {report.target}"
    if report.journal:
        yield f"  journal    {report.journal}"
    if report.seconds:
        parts = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in report.seconds.items())
        yield f"  seconds    {sum(report.seconds.values()):.1f} ({parts})"
    yield from (printable(sample) for sample in report.samples)


def _outcome(name: str, report: RunReport) -> str:
    """The name of an outcome; nothing of a rehearsal is published."""
    from publisher.journal.report import PLANNED  # noqa: PLC0415 - loaded, as there is a report

    return "to publish" if name == "published" and report.state == PLANNED else name


def stories_text(stories: Sequence[Story]) -> Iterator[str]:
    """The stories of changes, each as a block of lines."""
    for number, story in enumerate(stories):
        if number:
            yield ""
        for name, value in _story_lines(story):
            yield printable(f"{name:<11} {value}")


def _story_lines(story: Story) -> Iterator[tuple[str, str]]:
    yield "position", f"{story.position} of {story.source} ({story.place})"
    yield "record", story.raw or f"not shown: it cannot be read again from {story.place}"
    if story.object is not None:
        schema = f"{story.object.schema}." if story.object.schema else ""
        yield "object", f"{story.object.key} of {schema}{story.object.table}"
    if story.event is not None:
        columns = f": {', '.join(story.columns)}" if story.columns else ""
        yield "change", story.event + columns
    if story.event_time is not None or story.perpetrator:
        who = f" by {story.perpetrator}" if story.perpetrator else ""
        yield "made", (story.event_time or "at an unknown time") + who
    reason = f" ({story.reason})" if story.reason else ""
    yield "outcome", f"{story.outcome}{reason}, status {story.status}"
    if story.late is not None:
        yield "late", story.late
    if story.meaning:
        yield "because", story.meaning
    if story.by is not None:
        yield "see", story.by
    for lookup in story.lookups:
        answer = (
            json.dumps(lookup.row, ensure_ascii=False) if lookup.row is not None else lookup.answer
        )
        yield (
            "looked up",
            f"poll {lookup.poll}: {answer}" + (f": {lookup.detail}" if lookup.detail else ""),
        )
    if story.document is not None:
        document = story.document
        yield (
            "document",
            f"{document.operation} of records {document.records}, event id {document.event_id}",
        )
        yield "went to", f"{story.target}/{document.part}, byte {document.offset}"
        for sink in story.sent_to if story.status != "F" else ():
            yield "and to", sink
        yield "", document.text


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def printable(text: str) -> str:
    """With control characters as escapes, so that no value can drive a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def printable_json(text: str) -> str:
    """The same for a JSON text, which means the same afterwards; its line ends stay."""
    return "".join(
        c if c.isprintable() or c == "\n" else json.dumps(c).removeprefix('"').removesuffix('"')
        for c in text
    )


@contextmanager
def progress() -> Iterator[Progress | None]:
    """A progress bar on standard error where that is a terminal, else ``None``."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only where there is a terminal
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def told(phase: str, done: float) -> None:
            bar.update(task, description=phase, completed=done)

        yield told
