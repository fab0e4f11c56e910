"""Output of the commands: reports as text for people and as JSON for machines.

Imports no part of the program at run time, so that the command line starts fast.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from publisher.console import (
    Styled,
    counts_text,
    is_terminal,
    printable,
    style,
    terminal_width,
)
from publisher.model.change import Reason, Status

if TYPE_CHECKING:
    from publisher.ledger.conservation import RunReport
    from publisher.ledger.run_reader import PublishedDocument
    from publisher.reports.check import CheckFinding
    from publisher.reports.classes import ClassDescription
    from publisher.reports.explain import RecordStory
    from publisher.reports.resolution import Resolution
    from publisher.reports.status import LastRun


def as_json(report: Any) -> str:
    """Formats a report, or a list of them, as JSON.  ASCII: safe for any terminal and encoding."""
    content = [asdict(item) for item in report] if isinstance(report, list) else asdict(report)
    return json.dumps(_with_names(content), indent=2, default=str)


def _with_names(value: Any) -> Any:
    """Turns named tuples into objects; JSON would make them arrays."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _with_names(item) for name, item in value.items()}
    return [_with_names(item) for item in value] if isinstance(value, list | tuple) else value


def checks_text(findings: Iterable[CheckFinding]) -> Iterator[str]:
    """Lines of text, one for each check."""
    for finding in findings:
        result = f"{'ok' if finding.ok else 'FAILED':<7}"
        if is_terminal():
            result = style(result, green=finding.ok, red=not finding.ok, bold=not finding.ok)
        yield Styled(f"{result} {printable(finding.what)}: {printable(finding.detail)}")


def classes_text(classes: Iterable[ClassDescription]) -> Iterator[str]:
    """Lines of text: each class with its attributes, then the tables that are part of none."""
    left_out = []
    for found in classes:
        if found.problem is not None:
            left_out.append(f"not a class: {found.name}: {found.problem}")
            continue
        kind = "view" if found.is_view else "table"
        schema = f" in schema {found.schema}" if found.schema else ""
        yield f"{found.name}: {kind}{schema}, key {', '.join(found.key)}"
        width = max((len(attribute.name) for attribute in found.attributes), default=0)
        for attribute in found.attributes:
            values = "multi-valued" if attribute.multiple else "single-valued"
            target = f"  refers to {attribute.target}" if attribute.target else ""
            yield f"  {attribute.name:<{width}}  {attribute.type:<9}  {values}{target}"
    yield from left_out


def run_text(report: RunReport) -> Iterator[str]:
    """Lines of text about a run; its counts add up to the records read."""
    yield f"run {report.run}: {report.state}"
    outcomes = {_outcome(name, report): count for name, count in report.outcomes.items()}
    yield from outcomes_text(report.read, outcomes, report.reasons)
    if len(report.sources) > 1:
        for source in report.sources:
            outcomes = {_outcome(name, report): n for name, n in source.outcomes.items()}
            yield f"  source     {source.name}: {source.read:,} read, {counts_text(outcomes)}"
    yield documents_text(report)
    if report.statuses:
        yield f"  statuses   {', '.join(f'{name} {n:,}' for name, n in report.statuses.items())}"
    if report.target:
        yield f"  written to {report.target}"
    rejects = rejects_file(report)
    if rejects is not None:
        yield f"  rejects    {rejects}"
    if report.ledger:
        yield f"  ledger     {report.ledger}"
    if report.engine is not None:
        yield f"  engine     {report.engine.name}: {report.engine.reason}"
    if report.seconds:
        parts = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in report.seconds.items())
        yield f"  seconds    {sum(report.seconds.values()):.1f} ({parts})"
    for sample in report.samples:
        yield from ["", *_document_text(sample)] if is_terminal() else [printable(sample)]


def _document_text(text: str, margin: str = "") -> Iterator[Styled]:
    """Lines of a document for a terminal."""
    from publisher.xds.layout import document_lines

    lines = document_lines(text, terminal_width() - len(margin))
    return (Styled(margin + line) for line in lines)


def rejects_file(report: RunReport) -> Path | None:
    """Returns the file with the rejected records, which is at the target or, for Kafka, in the ledger."""
    from publisher.dispatch.files import REJECTS

    places = (Path(place) / REJECTS for place in (report.target, report.ledger) if place)
    return next(filter(Path.is_file, places), None) if report.rejected else None


def outcomes_text(
    read: int, outcomes: Mapping[str, int], reasons: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    """Lines of text about the records of a run."""
    sums = " + ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
    yield f"  records    {read:,} read = {sums}"
    for outcome, counts in reasons.items():
        yield f"  {outcome:<10} {counts_text(counts)}"


def documents_text(report: RunReport | LastRun) -> str:
    """The line of text about the documents of a run."""
    operations = f" ({counts_text(report.operations)})" if report.operations else ""
    return f"  documents  {report.documents:,}{operations}, {report.bytes:,} bytes"


def _outcome(name: str, report: RunReport) -> str:
    """Name of an outcome; a rehearsal publishes nothing."""
    from publisher.ledger.conservation import PLANNED

    return "to publish" if name == "published" and report.state == PLANNED else name


_WRITTEN = {"D": "row deleted"}
_MOST_DIGITS = 80
_HEX = re.compile(rf"\b(?:[0-9a-f]{{2}}){{{_MOST_DIGITS // 2 + 1},}}\b", re.IGNORECASE)
"""Raw bytes that are too long to show; the JSON form of a report has all of them."""


def stories_text(stories: Sequence[RecordStory]) -> Iterator[str]:
    """Lines of text about changes, one block for each."""
    for number, story in enumerate(stories):
        if number:
            yield ""
        for name, value in _story_lines(story):
            if not is_terminal():
                yield printable(f"{name:<11} {value}")
            elif name:
                yield Styled(f"{style(f'{name:<11}', dim=True)} {printable(value)}")
            else:
                yield from _document_text(value, "  ")


def raw_text(story: RecordStory) -> str:
    """A record as it was, or why it is not shown."""
    reason = story.not_shown or f"it cannot be read again from {story.place}"
    return _HEX.sub(_cut_hex, story.raw) if story.raw else f"not shown: {reason}"


def _cut_hex(match: re.Match[str]) -> str:
    digits = match.group()
    return f"{digits[:_MOST_DIGITS]}… ({len(digits) // 2:,} bytes)"


def _story_lines(story: RecordStory) -> Iterator[tuple[str, str]]:
    if story.run is not None:
        yield "run", story.run
    yield "position", f"{story.position} of {story.source} ({story.place})"
    yield "record", raw_text(story)
    if story.object is not None:
        yield "object", f"{story.object.key} of {story.object.qualified_table}"
    if story.resolution is not None:
        yield from _resolution_lines(story.resolution)
        if story.reason != Reason.EXCLUDED:
            yield from _left_out_lines(story.resolution)
    if story.event is not None:
        columns = f": {', '.join(story.columns)}" if story.columns else ""
        yield "change", story.event + columns
    if story.event_time is not None or story.perpetrator:
        who = f" by {story.perpetrator}" if story.perpetrator else ""
        yield "time", (story.event_time or "unknown") + who
    yield from _outcome_lines(story)
    for lookup in story.lookups:
        answer = (
            json.dumps(lookup.row, ensure_ascii=False) if lookup.row is not None else lookup.answer
        )
        yield (
            "looked up",
            f"poll {lookup.poll}: {answer}" + (f": {lookup.detail}" if lookup.detail else ""),
        )
    if story.document is not None:
        yield from _document_lines(story, story.document)


def _resolution_lines(resolution: Resolution) -> Iterator[tuple[str, str]]:
    """Describes a class that has child tables or is a view; the object shows the table of others."""
    logged = (("table", resolution.logged_table), ("column", resolution.logged_column))
    names = [f"{what} {name}" for what, name in logged if name is not None]
    if names:
        yield "logged as", ", ".join(names)
    tables = dict.fromkeys(column.child for column in resolution.columns if column.child)
    children = [f"values of child table {name}" for name in tables]
    if children or names or resolution.is_view:
        kind = "view" if resolution.is_view else "table"
        yield "class", "; ".join([f"{kind} {resolution.class_name}", *children])


def _left_out_lines(resolution: Resolution) -> Iterator[tuple[str, str]]:
    """Names the columns whose values documents leave out."""
    for column in resolution.columns:
        if column.left_out is not None:
            yield "left out", f"{column.name}: {column.left_out}"


def _outcome_lines(story: RecordStory) -> Iterator[tuple[str, str]]:
    reason = f" ({story.reason})" if story.reason else ""
    written = "" if story.written is None else f", {_WRITTEN.get(story.written, 'written')}"
    yield "outcome", f"{story.outcome}{reason}, status {story.status}{written}"
    if story.late is not None:
        yield "late", story.late
    if story.meaning:
        yield "because", story.meaning
    if story.by is not None:
        yield "see", story.by
    if story.retry is not None:
        yield "retry", story.retry.text()
    if story.retry_of is not None:
        yield "corrects", f"rejected record {story.retry_of}"


def _document_lines(story: RecordStory, document: PublishedDocument) -> Iterator[tuple[str, str]]:
    yield (
        "document",
        f"{document.operation} of records {document.records}, event id {document.event_id}",
    )
    if story.ledger is not None:
        yield "written to", f"ledger {story.ledger}"
    else:
        line = f"{story.target}/{document.part}:{document.number + 1}"
        yield "written to", f"{line}, byte {document.offset}"
    for sink in story.sent_to if story.status != Status.FATAL else ():
        yield "sent to", sink
    yield "", document.text
