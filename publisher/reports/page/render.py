"""Renders a report as one HTML page that needs no network and loads nothing.

Its content security policy allows only the page's own style and script, by their digests.  All values are
escaped; objects are JSON that the script shows as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from publisher import __version__
from publisher.console import printable
from publisher.model.change import Outcome
from publisher.model.reason_texts import REASON_TEXTS
from publisher.reports.history import IdentityHistory
from publisher.reports.page import charts
from publisher.reports.page.histories import ObjectsText
from publisher.reports.page.overview import LaneCounts, Overview, TableSums
from publisher.reports.page.timeline import Timespan

_TABLES = 200
_LANES = 64
"""Maximum numbers of rows of these tables."""
_LONGEST_DOCUMENT = 10_000
"""Maximum number of characters of a document on the page of a history."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


@dataclass(frozen=True, slots=True)
class ShownObjects:
    """The searchable objects, and the number of all objects, which is an estimate unless all are shown."""

    text: ObjectsText
    count: int
    is_complete: bool

    @property
    def shown(self) -> int:
        """Number of searchable objects."""
        return self.text.shown


@dataclass(frozen=True, slots=True)
class _TableRow:
    name: str | None
    outcomes: Any
    operations: Any
    pieces: Sequence[charts.BarPiece]


@dataclass(frozen=True, slots=True)
class _LaneRow:
    lane: int
    documents: int
    bytes: int
    share: float
    """Documents in percent of the largest lane."""
    seconds: float


def render(view: Overview, objects: ShownObjects, now: datetime) -> str:
    """Renders the page."""
    environment = page_environment()
    style, script = (source_of(environment, name) for name in ("report.css", "report.js"))
    kinds = charts.order_operations(kind for table in view.tables for kind in table.operations)
    labels = _labels(view.operations)
    return environment.get_template(
        "report.html.j2"
    ).render(
        bars=charts.bar_chart(view.operations, labels),
        data=Markup(objects.text.text),  # noqa: S704 - JSON without markup, see histories
        flow=charts.flow_chart(view.flows),
        kinds=kinds,
        labels=labels,
        lanes=_lane_rows(view.lanes),
        longest_phase=max((phase.seconds for phase in view.phases), default=0) or 1,
        meanings={str(reason): text for reason, text in REASON_TEXTS.items()},
        objects=objects,
        policy=policy_of(style, script),
        program=f"xds-publisher {__version__}",
        script=Markup(script),  # noqa: S704 - a file of the program
        span_text=_duration(view.operations.width),
        style=Markup(style),  # noqa: S704 - a file of the program
        tables=[_table_row(table, view) for table in view.tables[:_TABLES]],
        title=f"Report of {', '.join(view.jobs) or 'a run'}",
        view=view,
        width=charts.WIDTH,
        written=now.isoformat(),
    )


def render_history(histories: Sequence[IdentityHistory], now: datetime) -> str:
    """Renders the page of the history of an object; it has no script."""
    environment = page_environment()
    style = source_of(environment, "report.css")
    title = f"History of {histories[0].object.key}" if histories else "History"
    return environment.get_template("history.html.j2").render(
        histories=histories,
        longest=_LONGEST_DOCUMENT,
        policy=policy_of(style),
        program=f"xds-publisher {__version__}",
        style=Markup(style),  # noqa: S704 - a file of the program
        title=title,
        written=now.isoformat(),
    )


@cache
def page_environment() -> Environment:
    """Returns the templates of pages, which escape all values."""
    environment = Environment(
        loader=PackageLoader("publisher.reports.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters |= {
        "number": lambda number: f"{number:,}",
        "size": _size,
        "moment": _moment,
        "count_of": lambda number, noun: f"{number:,} {noun}{'' if number == 1 else 's'}",
    }
    return environment


def source_of(environment: Environment, name: str) -> str:
    """Reads a file beside the templates."""
    loader = environment.loader
    assert loader is not None
    return loader.get_source(environment, name)[0]


def policy_of(style: str, script: str | None = None) -> str:
    """Returns the content security policy: only the page's own style and script are used."""
    style_digest, script_digest = (
        base64.b64encode(hashlib.sha256((text or "").encode()).digest()).decode()
        for text in (style, script)
    )
    scripts = "'none'" if script is None else f"'sha256-{script_digest}'"
    return (
        f"default-src 'none'; style-src 'sha256-{style_digest}'; script-src {scripts}; "
        "base-uri 'none'; form-action 'none'"
    )


def _table_row(table: TableSums, view: Overview) -> _TableRow:
    """Adds a bar in percent of the largest table."""
    largest = max(sum(other.outcomes.values()) for other in view.tables) or 1
    pieces, x = [], 0.0
    for outcome in Outcome:
        count = table.outcomes.get(outcome.label, 0)
        if count:
            width = 100 * count / largest
            pieces.append(charts.BarPiece(x, 0, width, 10, outcome.label, ""))
            x += width
    return _TableRow(table.name, table.outcomes, table.operations, pieces)


def _lane_rows(lanes: Sequence[LaneCounts]) -> list[_LaneRow]:
    largest = max((lane.documents for lane in lanes), default=0) or 1
    return [
        _LaneRow(
            lane.lane, lane.documents, lane.bytes, 100 * lane.documents / largest, lane.seconds
        )
        for lane in lanes[:_LANES]
    ]


def _labels(span: Timespan) -> list[str]:
    """The starts of the intervals in UTC, as exact as their width."""
    seconds = span.width // 1_000_000
    digits = 10 if seconds >= 86_400 else 16 if seconds >= 60 else 19
    return [_text(interval.start)[:digits] for interval in span.intervals]


def _text(microseconds: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:  # years that no calendar of Python has
        return f"{microseconds // 1_000_000:,} s"


def _moment(text: str) -> str:
    """Shows a time in ISO 8601 without fractions of a second."""
    if not text:
        return "an unknown time"
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _duration(microseconds: int) -> str:
    seconds = microseconds // 1_000_000
    unit, size = next(entry for entry in _UNITS if seconds % entry[1] == 0)
    count = seconds // size
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def _size(number: int) -> str:
    size, unit = float(number), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1_000 or unit == "TB":
            break
        size /= 1_000
    return f"{size:,.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
