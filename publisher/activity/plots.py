"""Plots as inline SVG: tables over time as a heat map, rates over time as steps.

Colours are classes of the page's style sheet, so that they follow its light or dark theme.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape

_WIDTH = 1000
_LEFT = 230
_RIGHT = 12
_ROW = 18
_AXIS = 26
_HEIGHT = 130
_NAME = 26
_TICKS = 5
_CLOCK = 120
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """All intervals from the first to the last, including empty ones; times in microseconds."""

    start: int
    width: int
    count: int

    @property
    def step(self) -> float:
        """Width of an interval on the page."""
        return (_WIDTH - _LEFT - _RIGHT) / self.count

    def x(self, start: int) -> float:
        """Left edge of an interval on the page."""
        return _LEFT + (start - self.start) // self.width * self.step

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yields positions and labels of the axis."""
        stride = max(1, -(-self.count // _TICKS))
        for number in range(0, self.count, stride):
            yield _LEFT + number * self.step, clock(self.start + number * self.width)


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A table in an interval: two shares of the sweeps, and the label of the cell."""

    start: int
    present: float
    dirty: float
    label: str


@dataclass(frozen=True, slots=True)
class RateLine:
    """Values by the start of their intervals, drawn in one colour."""

    name: str
    style: str
    values: Mapping[int, float]


def clock(us: int) -> str:
    """Formats a time to the second, UTC."""
    return f"{_EPOCH + timedelta(microseconds=us):%Y-%m-%d %H:%M:%S}"


def draw_heat_map(
    axis: TimeAxis, observed: Sequence[int], rows: Sequence[tuple[str, Sequence[HeatCell]]]
) -> str:
    """Draws tables over time.  Intervals whose start is not in ``observed`` had no sweeps and stay empty."""
    height = len(rows) * _ROW + _AXIS
    parts = [_open(height, "Tables over time")]
    for number, (name, cells) in enumerate(rows):
        top = number * _ROW
        parts.append(_label(name, top))
        parts += (_box("seen", axis.x(start), top, axis.step, _ROW) for start in observed)
        parts += (_cell(axis, cell, top) for cell in cells)
    parts += [*_time_axis(axis, len(rows) * _ROW), "</svg>"]
    return "".join(parts)


def _cell(axis: TimeAxis, cell: HeatCell, top: int) -> str:
    x, inner = axis.x(cell.start), _ROW - 2
    bar = 2 + min(1.0, cell.dirty) * inner * 0.5 if cell.dirty else 0.0
    dirty = _box("dirty", x, top + inner - bar, axis.step, bar + 1) if bar else ""
    heat = _box("heat", x, top, axis.step, _ROW, opacity=0.15 + 0.85 * min(1.0, cell.present))
    return f"<g><title>{escape(cell.label)}</title>{heat}{dirty}</g>"


def draw_rates(axis: TimeAxis, title: str, lines: Sequence[RateLine]) -> str:
    """Draws rates over time, one level per interval, with gaps where nothing was observed."""
    highest = max((value for line in lines for value in line.values.values()), default=0.0)
    scale = highest or 1.0
    parts = [_open(_HEIGHT + _AXIS, title)]
    for share in (0.0, 0.5, 1.0):
        y = _y(share)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="end" x="{_LEFT - 6}" y="{y + 4}">{share * scale:,.4g}</text>')
    for line in lines:
        parts += _steps(axis, line, scale)
    for number, line in enumerate(lines):
        y = 16 + 18 * number
        parts.append(_box(f"{line.style} key", 0, y - 9, 14, 10))
        parts.append(f'<text x="20" y="{y}">{escape(line.name)}</text>')
    parts += [*_time_axis(axis, _HEIGHT), "</svg>"]
    return "".join(parts)


def _steps(axis: TimeAxis, line: RateLine, scale: float) -> Iterator[str]:
    path, end = [], None
    for start, value in sorted(line.values.items()):
        x, y = axis.x(start), _y(value / scale)
        continues = end is not None and start == end
        path.append(f"{'L' if continues else 'M'}{x:.1f} {y:.1f}L{x + axis.step:.1f} {y:.1f}")
        end = start + axis.width
    if path:
        yield f'<path class="{line.style} line" d="{"".join(path)}"/>'
    for start, value in sorted(line.values.items()):
        label = escape(f"{line.name}, {clock(start)}: {value:,.4g}")
        box = _box("touch", axis.x(start), 0, axis.step, _HEIGHT)
        yield f"<g><title>{label}</title>{box}</g>"


def _y(share: float) -> float:
    return 8 + (1 - share) * (_HEIGHT - 16)


def _open(height: int, title: str) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>"
    )


def _box(
    style: str, x: float, y: float, width: float, height: float, opacity: float | None = None
) -> str:
    clear = "" if opacity is None else f' fill-opacity="{opacity:.2f}"'
    inner = max(0.5, width - 0.5)
    return (
        f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{inner:.1f}"'
        f' height="{max(0.0, height - 1):.1f}"{clear}/>'
    )


def _label(name: str, top: int) -> str:
    """Draws a name; the middle of a long name is omitted, and a name that is still too wide is clipped."""
    half = (_NAME - 1) // 2
    short = name if len(name) <= _NAME else f"{name[: _NAME - 1 - half]}…{name[-half:]}"
    return (
        f'<svg x="0" y="{top}" width="{_LEFT - 8}" height="{_ROW}"><title>{escape(name)}</title>'
        f'<text x="0" y="{_ROW - 5}">{escape(short)}</text></svg>'
    )


def _time_axis(axis: TimeAxis, top: float) -> Iterator[str]:
    for x, text in axis.ticks():
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + 5}"/>'
        place = "end" if x > _WIDTH - _CLOCK else "start"
        yield f'<text text-anchor="{place}" x="{x:.1f}" y="{top + 18}">{text}</text>'
