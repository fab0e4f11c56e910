"""Alerts, dashboard and unit for operators fit the program; ``./run release`` tries them for real."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from publisher.cli.main import cli
from publisher.observing.metrics import Metrics
from publisher.observing.options import MetricsOptions

CONF = Path(__file__).parents[3] / "conf"
ALERTS = (CONF / "prometheus-alerts.yml").read_text("utf-8")
DASHBOARD = json.loads((CONF / "grafana-dashboard.json").read_text("utf-8"))
UNIT = (CONF / "xds-publisher@.service").read_text("utf-8")
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def exported() -> dict[str, set[str]]:
    """Names of all series with the names of their labels."""
    registry = Metrics(MetricsOptions(), "hr").series.registry
    found: dict[str, set[str]] = {}
    for family in registry._collector_to_names:
        labels = {*getattr(family, "_labelnames", ())}
        for name in registry._collector_to_names[family]:
            found[name] = labels
    return found


@pytest.mark.parametrize("text", [ALERTS, *QUERIES])
def test_queries_name_metrics_and_labels_of_the_program(text: str) -> None:
    series = exported()
    names = re.findall(r"xds_publisher_\w+", text)
    assert names
    assert set(names) <= set(series)
    for name, selector in re.findall(r"(xds_publisher_\w+)\{([^}]*)\}", text):
        assert set(re.findall(r"(\w+)(?:=~|!=|=)\"", selector)) <= series[name]


def test_alerted_series_exist_from_the_start() -> None:
    """The first count after the start of a series is no increase: it must be 0 before."""
    registry = Metrics(MetricsOptions(), "hr").series.registry
    increases = re.findall(r"increase\((\w+)\{(\w+)=\"(\w+)\"\}", ALERTS)
    assert len(increases) == 2
    for name, label, value in increases:
        assert registry.get_sample_value(name, {"job_name": "hr", label: value}) == 0


def test_panels_lie_beside_each_other() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert all(0 <= x < 24 for x, _ in cells)


def test_the_unit_runs_commands_of_the_program() -> None:
    commands = re.findall(r"^ExecStart(?:Pre)?=\S+/xds-publisher (\w+) ", UNIT, re.MULTILINE)
    assert commands == ["check", "publish"]
    assert set(commands) <= set(cli.commands)
