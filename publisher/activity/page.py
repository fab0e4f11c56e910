"""The report as one page of HTML: no scripts, no other files, nothing from the network."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence

from publisher.activity.counts import CellCounts, IntervalCounts, NodeCounts
from publisher.activity.measures import (
    UPDATE_RATE_BIASES,
    eviction_rate,
    intensity,
    reinclusion_rate,
    replacement_rate,
    update_rate,
)
from publisher.activity.plots import HeatCell, RateLine, TimeAxis, clock, draw_heat_map, draw_rates
from publisher.activity.report import ActivityReport, TableActivity

_MAX_COLUMNS = 400
_MAX_ROWS = 1000
_CONTROLS = {number: f"\\x{number:02x}" for number in (*range(0x20), *range(0x7F, 0xA0))}
"""HTML forbids most control characters, escaped or not."""

_STYLE = """
:root { color-scheme: light dark; --bg: #ffffff; --fg: #1c2128; --muted: #5c6570; --grid: #d5dae1;
  --seen: #eef1f5; --heat: #1f6feb; --dirty: #c2410c; --again: #7c3aed; --slot: #0f766e; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181d; --fg: #e4e8ee; --muted: #9aa4b0; --grid: #3a424c;
  --seen: #1f252c; --heat: #58a6ff; --dirty: #fb923c; --again: #c4a3ff; --slot: #4fd1c5; } }
body { background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif; max-width: 1080px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin-bottom: .3rem; }
p, li { color: var(--muted); }
.plot { width: 100%; height: auto; display: block; } svg text { fill: var(--muted); font-size: 12px; }
svg .end { text-anchor: end; } .grid { stroke: var(--grid); } .seen { fill: var(--seen); }
.heat { fill: var(--heat); } .dirty { fill: var(--dirty); } .again { fill: var(--again); }
.slot { fill: var(--slot); } .touch { fill: transparent; }
.touch:hover { fill: var(--seen); fill-opacity: .5; }
.line { fill: none; stroke-width: 2; } .heat.line { stroke: var(--heat); }
.dirty.line { stroke: var(--dirty); }
.again.line { stroke: var(--again); stroke-dasharray: 6 3; } .slot.line { stroke: var(--slot); }
.wide { overflow-x: auto; }
@media (max-width: 1032px) { .plot { width: 1000px; max-width: none; } }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--grid); }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; min-width: 9rem; }
th { color: var(--muted); font-weight: 600; }
"""
_HEAD = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Activity of the table queue</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Activity of the table queue</h1>"""


def render_page(report: ActivityReport) -> str:
    """Renders the complete page, with names escaped."""
    activity = report.activity
    parts = [_HEAD, f"<p>{activity.calls:,} calls of DIRR.</p>"]
    tables = report.tables()
    for node in activity.nodes:
        parts += _node(report, node, [table for table in tables if table.node == node.node])
    parts += [*_notes(report), *_problems(report), "</body>\n</html>"]
    return "\n".join(parts)


def escape(text: str) -> str:
    """Escapes markup and control characters."""
    return html.escape(text.translate(_CONTROLS))


def _node(
    report: ActivityReport, node: NodeCounts, tables: Sequence[TableActivity]
) -> Iterator[str]:
    yield f"<h2>Node {escape(node.node or '(not recorded)')}</h2>"
    yield "<ul>" + "".join(f"<li>{line}</li>" for line in _facts(report, node)) + "</ul>"
    intervals = [each for each in report.activity.intervals if each.node == node.node]
    if intervals:
        yield from _plots(report, node, intervals)
    yield from _table(tables)


def _facts(report: ActivityReport, node: NodeCounts) -> Iterator[str]:
    if node.first is not None and node.last is not None:
        yield f"{node.sweeps:,} sweeps from {clock(node.first)} to {clock(node.last)} UTC"
    else:
        yield f"{node.sweeps:,} sweeps"
    hours = node.observed_us / 3.6e9
    yield f"observed for {hours:,.2f} h, {node.gaps:,} gaps of {node.gap_us / 1e6:,.1f} s in all"
    gaps = [gap for gap in report.activity.gaps if gap.node == node.node]
    for gap in gaps[:10]:
        yield f"gap from {clock(gap.start)} to {clock(gap.stop)}"
    yield (
        f"left out: {node.incomplete:,} sweeps with a missing call, {node.failed:,} with a failed call,"
        f" {node.implausible:,} with EORR in place of a system table, {node.conflicting:,} with calls that"
        " differ"
    )
    yield f"{node.missing:,} sweep numbers are missing, {node.duplicates:,} calls were recorded twice"
    if node.untimed:
        yield f"{node.untimed:,} sweeps without a time, which have no neighbours"


def _plots(
    report: ActivityReport, node: NodeCounts, intervals: Sequence[IntervalCounts]
) -> Iterator[str]:
    width = report.activity.interval_us
    last = intervals[-1].start
    first = max(intervals[0].start, last - (_MAX_COLUMNS - 1) * width)
    axis = TimeAxis(first, width, (last - first) // width + 1)
    visible = [each for each in intervals if each.start >= first]
    if len(visible) < len(intervals):
        yield f"<p>Plots show the last {_MAX_COLUMNS} intervals.</p>"
    yield "<h3>Tables over time</h3>"
    yield (
        f"<p>Each column covers {width // 1_000_000:,} s (UTC). A stronger colour means that more"
        " sweeps contain the table; the bar below is the share of sweeps with unflushed changes (UpdFlag)."
        " Columns without a background have no sweeps.</p>"
    )
    sweeps = {each.start: each.sweeps for each in visible}
    yield _wide(draw_heat_map(axis, list(sweeps), _rows(report, node, sweeps)))
    for title, about, lines in _rates(visible):
        yield f"<h3>{title}</h3><p>{about}</p>"
        yield _wide(draw_rates(axis, title, lines))


def _wide(plot: str) -> str:
    """Wraps a plot so that narrow screens scroll it sideways instead of shrinking its text."""
    return f'<div class="wide">{plot}</div>'


def _rows(
    report: ActivityReport, node: NodeCounts, sweeps: dict[int, int]
) -> list[tuple[str, list[HeatCell]]]:
    """Collects the cells of each table; tables that are present most often come first."""
    rows: dict[tuple[int, str], list[HeatCell]] = {}
    for table in report.activity.tables:
        if table.node == node.node:
            rows[table.owner, table.name] = []
    for cell in report.activity.cells:
        if cell.node == node.node and cell.start in sweeps and cell.counts.present:
            rows[cell.owner, cell.name].append(_cell(report, cell, sweeps[cell.start]))
    return [
        (report.table_name(*table).translate(_CONTROLS), cells)
        for table, cells in rows.items()
        if cells
    ]


def _cell(report: ActivityReport, cell: CellCounts, sweeps: int) -> HeatCell:
    counts = cell.counts
    label = (
        f"{report.table_name(cell.owner, cell.name)}, {clock(cell.start)}: in {counts.present} of {sweeps}"
        f" sweeps, mean ordinal {intensity(counts) or 0:.1f}, with changes in {counts.dirty}"
    )
    if counts.evicted or counts.reincluded:
        label += f", evicted {counts.evicted}, included again {counts.reincluded}"
    return HeatCell(
        cell.start, counts.present / sweeps, counts.dirty / sweeps, label.translate(_CONTROLS)
    )


def _rates(intervals: Sequence[IntervalCounts]) -> Iterator[tuple[str, str, list[RateLine]]]:
    def line(name: str, style: str, rate: Callable[..., float | None]) -> RateLine:
        values = ((each.start, rate(each.counts, each.observed_us)) for each in intervals)
        return RateLine(name, style, {start: value for start, value in values if value is not None})

    yield (
        "Updates per hour",
        "The sum of UpdFlag of all tables over observed time. The rate is "
        + "; ".join(escape(bias) for bias in UPDATE_RATE_BIASES)
        + ".",
        [line("updates", "dirty", update_rate)],
    )
    yield (
        "Evictions per hour: presence view",
        "An evicted table is missing from a sweep and was in the previous one.",
        [
            line("evicted", "heat", eviction_rate),
            line("included again", "again", reinclusion_rate),
        ],
    )
    yield (
        "Replacements per hour: slot view",
        (
            "A different table has the ordinal in the next sweep. Never add replacements to"
            " evictions: if ordinals are ranks, one inclusion moves many tables."
        ),
        [line("replaced", "slot", replacement_rate)],
    )


_COLUMNS: Sequence[tuple[str, Callable[[TableActivity], float | int | None], str]] = (
    ("sweeps", lambda t: t.sweeps_present, ",d"),
    ("present", lambda t: t.access_frequency, ".1%"),
    ("mean ordinal", lambda t: t.access_intensity, ",.1f"),
    ("dirty", lambda t: t.dirty_share, ".1%"),
    ("updates/h", lambda t: t.updates_per_hour, ",.1f"),
    ("evicted", lambda t: t.presence.evictions, ",d"),
    ("again", lambda t: t.presence.reinclusions, ",d"),
    ("after s", lambda t: t.presence.absence_seconds, ",.1f"),
    ("replaced (slots)", lambda t: t.slots.replacements, ",d"),
    ("doubled", lambda t: t.doubled, ",d"),
    ("odd flags", lambda t: t.odd_flags, ",d"),
)


def _table(tables: Sequence[TableActivity]) -> Iterator[str]:
    if not tables:
        return
    biases = "; ".join(UPDATE_RATE_BIASES)
    yield f"<h3>Tables</h3><p>Updates/h, the sum of UpdFlag over observed time, is {escape(biases)}.</p>"
    yield '<div class="wide"><table>'
    yield _row("th", ["table", *(name for name, _, _ in _COLUMNS)])
    for table in tables[:_MAX_ROWS]:
        name = f"{table.schema if table.schema is not None else table.owner}.{table.table}"
        values = (_text(value(table), form) for _, value, form in _COLUMNS)
        yield _row("td", [name, *values])
    yield "</table></div>"
    if len(tables) > _MAX_ROWS:
        yield f"<p>and {len(tables) - _MAX_ROWS:,} more tables: see --as csv.</p>"


def _text(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _notes(report: ActivityReport) -> Iterator[str]:
    notes = list(report.notes())
    if notes:
        yield "<h2>Suspicious calls, which count nevertheless</h2>"
        yield "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>"


def _problems(report: ActivityReport) -> Iterator[str]:
    if not report.activity.problems:
        return
    yield "<h2>Calls that cannot be used</h2><ul>"
    for problem in report.activity.problems:
        place = f"{problem.file}:{problem.row}"
        text = f"{problem.problem}: {problem.calls:,}, the first at {place}: {problem.detail}"
        yield f"<li>{escape(text)}</li>"
    yield "</ul>"
