"""Prints sample documents and counts of the demo, and compares counts with the expected ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from lxml import etree
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from publisher.demo.story import Counts
from publisher.journal.conservation import RunReport
from publisher.model.change import Outcome, Reason
from publisher.xds.layout import layout

SAMPLES = {
    "add": "idu=1,table=usr",
    "modify": "idu=1,table=usr",
    "delete": "idu=2,table=usr",
}
"""Objects whose documents are shown, by kind of operation."""
TITLES = {
    "add": "user 1, Jack Frost, with a manager and two phones",
    "modify": "user 1 gets another name, manager and phone",
    "delete": "user 2",
}
"""Describes the documents that are shown."""


def sample_documents(folder: Path) -> dict[str, str]:
    """Reads one document for each kind of operation."""
    samples: dict[str, str] = {}
    for line in _documents(folder):
        for kind, name in SAMPLES.items():
            if f"<{kind} " in line and f"<association>{name}," in line:
                samples.setdefault(kind, line)
        if len(samples) == len(SAMPLES):
            break
    return samples


def _documents(folder: Path) -> Iterator[str]:
    for part in sorted(folder.glob("part-*.xds")):
        with part.open(encoding="utf-8", newline="\n") as file:
            yield from file


def print_documents(console: Console, documents: Mapping[str, str]) -> None:
    """Prints one sample for each kind of operation, the first with its envelope."""
    for number, (kind, title) in enumerate(TITLES.items()):
        root = etree.fromstring(documents[kind].encode())
        shown = root if number == 0 else root[-1][0]
        console.rule(f"[bold]<{kind}>[/] {title}", align="left", style="dim")
        console.print(Syntax(layout(shown), "xml", background_color="default", word_wrap=True))


def differences(expected: Mapping[str, Counts], report: RunReport) -> list[str]:
    """Returns the differences between the counts of a run and the expected ones, one line each."""
    totals: Counter[tuple[Outcome, Reason | None]] = Counter()
    wanted: dict[str, int] = {}
    for name, counts in expected.items():
        totals.update(counts)
        wanted |= {f"{name}: {key}": n for key, n in flat_counts(counts).items() if "/" not in key}
    wanted |= flat_counts(totals)
    actual = _flat_report(report)
    return [
        f"{name}: {actual.get(name, 0)}, expected {wanted.get(name, 0)}"
        for name in sorted(wanted.keys() | actual.keys())
        if wanted.get(name, 0) != actual.get(name, 0)
    ]


def flat_counts(counts: Counts) -> dict[str, int]:
    """Returns counts by outcome, and by outcome and reason as ``rejected/table-key``."""
    flat = {outcome.label: 0 for outcome in Outcome}
    for (outcome, reason), count in counts.items():
        name = outcome.label
        flat[name] += count
        if reason is not None:
            flat[f"{name}/{reason}"] = count
    return flat | {"read": sum(counts.values())}


def _flat_report(report: RunReport) -> dict[str, int]:
    flat = report.outcomes | {"read": report.read}
    for outcome, reasons in report.reasons.items():
        flat |= {f"{outcome}/{reason}": count for reason, count in reasons.items()}
    for source in report.sources:
        counts = source.outcomes | {"read": source.read}
        flat |= {f"{source.name}: {key}": count for key, count in counts.items()}
    return flat


def print_counts(console: Console, expected: Counts) -> None:
    """Prints the five outcomes and their reasons, which add up to the records read."""
    flat = flat_counts(expected)
    table = Table(title="Every record of the log has exactly one outcome", title_justify="left")
    table.add_column("outcome")
    table.add_column("records", justify="right")
    table.add_column("reasons")
    for outcome in Outcome:
        name = outcome.label
        reasons = [
            f"{key.removeprefix(name + '/')} {count:,}"
            for key, count in sorted(flat.items(), key=lambda item: -item[1])
            if key.startswith(name + "/")
        ]
        table.add_row(name, f"{flat[name]:,}", ", ".join(reasons))
    table.add_section()
    table.add_row("read", f"{flat['read']:,}")
    console.print(table)
