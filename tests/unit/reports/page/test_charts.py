"""Geometry of the charts: nothing overlaps, nothing is lost, heights are in proportion."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.model.change import Outcome
from publisher.reports.page.charts import WIDTH, bar_chart, flow_chart
from publisher.reports.page.overview import Flow
from publisher.reports.page.timeline import Interval, Timespan

OUTCOMES = [outcome.label for outcome in Outcome]
flows = st.lists(
    st.builds(
        Flow,
        st.sampled_from(["hr", "crm", "badge"]),
        st.sampled_from(OUTCOMES),
        st.none() | st.sampled_from([f"reason-{n}" for n in range(30)]),
        st.integers(1, 10**9),
    ),
    min_size=1,
    max_size=60,
)


@given(flows)
def test_each_column_holds_its_records_without_overlap(each: list[Flow]) -> None:
    chart = flow_chart(each)
    total = sum(flow.records for flow in each)
    columns: dict[float, list] = {}
    for node in chart.nodes:
        columns.setdefault(node.x, []).append(node)
    sources, outcomes, *reasons = [columns[x] for x in sorted(columns)]
    assert sum(node.records for node in sources) == total
    assert sum(node.records for node in outcomes) == total
    with_reason = sum(flow.records for flow in each if flow.reason)
    assert sum(node.records for nodes in reasons for node in nodes) == with_reason
    for nodes in columns.values():
        for above, below in pairwise(sorted(nodes, key=lambda node: node.y)):
            assert above.y + above.height < below.y
            assert below.y - above.y >= 17  # labels need a line each
        assert max(node.y + node.height for node in nodes) <= chart.height


@given(flows)
def test_bands_stay_inside_the_chart(each: list[Flow]) -> None:
    chart = flow_chart(each)
    for link in chart.links:
        numbers = [float(text) for text in re.findall(r"-?\d+\.\d", link.path)]
        assert 0 <= min(numbers) <= max(numbers) <= max(WIDTH, chart.height)


def test_rare_reasons_are_combined() -> None:
    chart = flow_chart([Flow("hr", "rejected", f"r{n}", 1 + n) for n in range(40)])
    labels = [node.label for node in chart.nodes]
    assert labels.count("other reasons") == 1
    assert len(labels) == 1 + 1 + 13


def test_without_records_there_is_no_chart() -> None:
    assert flow_chart([]).nodes == ()
    assert bar_chart(Timespan(1, (), 0, 0), []).pieces == ()


@pytest.mark.parametrize("count", [1, 7, 60])
def test_bars_reach_the_top_and_stay_inside(count: int) -> None:
    intervals = tuple(Interval(n, {"add": n + 1, "delete": 1}) for n in range(count))
    chart = bar_chart(Timespan(1, intervals, 0, 0), [str(n) for n in range(count)])
    assert chart.top == count + 1
    assert min(piece.y for piece in chart.pieces) == pytest.approx(0, abs=1e-6)
    assert all(piece.x + piece.width <= WIDTH for piece in chart.pieces)
    heights = sum(piece.height for piece in chart.pieces if piece.title.startswith(f"{count - 1}:"))
    assert heights == pytest.approx(chart.height)
