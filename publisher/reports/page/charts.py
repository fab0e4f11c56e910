"""Geometry of the charts: where every record went, and operations over time.  Units are pixels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from publisher.model.change import Outcome
from publisher.reports.page.overview import Flow
from publisher.reports.page.timeline import Timespan

WIDTH = 960
_NODE_WIDTH = 14
_GAP = 10
_ROW = 18
"""Minimum height of a node with its gap, so that labels do not overlap."""
_LEFT, _RIGHT = 150, 250
"""Room for the labels of sources and reasons."""
_REASONS = 12
"""Maximum number of reasons in the flow chart; others are combined."""
_OTHERS = "other reasons"
_FLOW_HEIGHT = 260
_BAR_HEIGHT = 180
_OPERATIONS = ("add", "modify", "delete")
_OUTCOMES = [outcome.label for outcome in Outcome]


@dataclass(frozen=True, slots=True)
class Node:
    """A bar of the flow chart with its label; ``kind`` selects the colour."""

    label: str
    records: int
    kind: str
    x: float
    y: float
    height: float
    label_left: bool


@dataclass(frozen=True, slots=True)
class Link:
    """A band between two nodes as the data of an SVG path."""

    path: str
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class FlowChart:
    """Records from sources over outcomes to reasons."""

    height: float
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class BarPiece:
    """A part of a stacked bar."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class BarChart:
    """Stacked bars over time; ``top`` is the count at the upper edge."""

    height: float
    pieces: tuple[BarPiece, ...]
    top: int


def flow_chart(flows: Sequence[Flow]) -> FlowChart:
    """Lays the flow chart out; heights are in proportion to records."""
    flows = _combine_reasons(flows)
    total = sum(flow.records for flow in flows)
    if not total:
        return FlowChart(0, (), ())
    columns = _columns(flows)
    longest = max(len(column) for column in columns)
    height = max(_FLOW_HEIGHT, longest * (_ROW + _GAP))
    scale = (height - longest * _ROW) / total
    middle = (WIDTH - _LEFT - _RIGHT - _NODE_WIDTH) / 2
    nodes: list[dict[tuple[str, ...], Node]] = []
    for number, column in enumerate(columns):
        nodes.append(_place(column, _LEFT + number * middle, scale, is_first=number == 0))
    links = [
        *_links(flows, nodes[0], nodes[1], scale, from_source=True),
        *_links([f for f in flows if f.reason], nodes[1], nodes[2], scale, from_source=False),
    ]
    bottom = max(node.y + max(node.height, _ROW) for column in nodes for node in column.values())
    placed = tuple(node for column in nodes for node in column.values())
    return FlowChart(bottom + _GAP, placed, tuple(links))


_Column = dict[tuple[str, ...], int]
"""Records by node: source, outcome, or outcome and reason."""


def _columns(flows: Iterable[Flow]) -> list[_Column]:
    sources, outcomes, reasons = (
        Counter[tuple[str, ...]](),
        Counter[tuple[str, ...]](),
        Counter[tuple[str, ...]](),
    )
    for flow in flows:
        sources[flow.source,] += flow.records
        outcomes[flow.outcome,] += flow.records
        if flow.reason:
            reasons[flow.outcome, flow.reason] += flow.records
    by_outcome: _Column = {(name,): outcomes[name,] for name in _OUTCOMES if (name,) in outcomes}
    ordered = sorted(reasons, key=lambda node: (_OUTCOMES.index(node[0]), -reasons[node]))
    return [dict(sources.most_common()), by_outcome, {node: reasons[node] for node in ordered}]


def _combine_reasons(flows: Sequence[Flow]) -> list[Flow]:
    """Combines the rarest reasons of each outcome, so that at most ``_REASONS`` and one each remain."""
    records = Counter[tuple[str, str]]()
    for flow in flows:
        if flow.reason:
            records[flow.outcome, flow.reason] += flow.records
    shown = {node for node, _ in records.most_common(_REASONS)}
    return [
        flow
        if not flow.reason or (flow.outcome, flow.reason) in shown
        else Flow(flow.source, flow.outcome, _OTHERS, flow.records)
        for flow in flows
    ]


def _place(
    column: Mapping[tuple[str, ...], int], x: float, scale: float, *, is_first: bool
) -> dict[tuple[str, ...], Node]:
    heights = [max(1.0, records * scale) for records in column.values()]
    tops = [0.0, *accumulate(max(height, _ROW - _GAP) + _GAP for height in heights)]
    return {
        node: Node(
            node[-1], records, "source" if is_first else node[0], x, top + 2, height, is_first
        )
        for (node, records), top, height in zip(column.items(), tops, heights, strict=False)
    }


def _links(
    flows: Iterable[Flow],
    left: Mapping[tuple[str, ...], Node],
    right: Mapping[tuple[str, ...], Node],
    scale: float,
    *,
    from_source: bool,
) -> list[Link]:
    """Bands between two columns; those of a node lie below one another without gaps."""
    records = Counter[tuple[tuple[str, ...], tuple[str, ...]]]()
    for flow in flows:
        outcome = (flow.outcome,)
        ends = (
            ((flow.source,), outcome)
            if from_source
            else (outcome, (flow.outcome, flow.reason or ""))
        )
        records[ends] += flow.records
    order = [(start, end) for start in left for end in right if (start, end) in records]
    used_left, used_right = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    links = []
    for start, end in order:
        count = records[start, end]
        thickness = max(1.0, count * scale)
        path = _band(
            (left[start].x + _NODE_WIDTH, left[start].y + used_left[start] * scale),
            (right[end].x, right[end].y + used_right[end] * scale),
            thickness,
        )
        used_left[start] += count
        used_right[end] += count
        kind = end[0] if from_source else start[0]
        links.append(Link(path, kind, f"{start[-1]} → {end[-1]}: {count:,} records"))
    return links


def _band(start: tuple[float, float], end: tuple[float, float], thickness: float) -> str:
    (x0, y0), (x1, y1) = start, end
    bend = (x0 + x1) / 2
    return (
        f"M{x0:.1f} {y0:.1f}C{bend:.1f} {y0:.1f} {bend:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
        f"V{y1 + thickness:.1f}C{bend:.1f} {y1 + thickness:.1f} {bend:.1f} {y0 + thickness:.1f} "
        f"{x0:.1f} {y0 + thickness:.1f}Z"
    )


def order_operations(names: Iterable[str]) -> list[str]:
    """Lists each operation once: the frequent ones in the order of an object's life, then others."""
    each = set(names)
    usual = [name for name in _OPERATIONS if name in each]
    return [*usual, *sorted(each.difference(usual))]


def bar_chart(span: Timespan, labels: Sequence[str]) -> BarChart:
    """Lays stacked bars out; ``labels`` are the starts of the intervals for people."""
    kinds = order_operations(kind for interval in span.intervals for kind in interval.counts)
    top = max((sum(interval.counts.values()) for interval in span.intervals), default=0)
    if not top:
        return BarChart(0, (), 0)
    step = WIDTH / max(len(span.intervals), 8)
    pieces = []
    for number, (interval, label) in enumerate(zip(span.intervals, labels, strict=True)):
        y = float(_BAR_HEIGHT)
        for kind in kinds:
            count = interval.counts.get(kind, 0)
            height = count * _BAR_HEIGHT / top
            y -= height
            if count:
                title = f"{label}: {count:,} {kind}"
                pieces.append(BarPiece(number * step, y, step * 0.86, height, kind, title))
    return BarChart(_BAR_HEIGHT, tuple(pieces), top)
