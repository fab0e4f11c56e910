"""Reports of table activity: as text, JSON, CSV and a page of HTML."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from lxml import etree

from publisher.activity import measures
from publisher.activity.counts import (
    Activity,
    ActivityCounts,
    CellCounts,
    IntervalCounts,
    NodeCounts,
    ProblemCount,
    SweepGap,
    TableCounts,
    interval_width,
)
from publisher.activity.page import render_page
from publisher.activity.report import ActivityReport
from publisher.cli.activity import activity_notes, activity_text

HOUR = 3_600_000_000
HOSTILE = "<img src=\"http://x\" onerror='a()'>&\x07\u202e[red]"
NODE = NodeCounts(
    node="HR",
    sweeps=10,
    untimed=0,
    first=0,
    last=2 * HOUR,
    observed_us=2 * HOUR,
    gaps=1,
    gap_us=HOUR,
    gap_limit_us=60_000_000,
    shortest=2,
    longest=3,
    missing=4,
    incomplete=5,
    failed=6,
    implausible=9,
    conflicting=7,
    duplicates=8,
)
USED = ActivityCounts(
    present=8,
    ordinals=40,
    dirty=5,
    dirty_observed=4,
    included=3,
    reincluded=2,
    absent_us=30_000_000,
    evicted=6,
    replaced=7,
    doubled=1,
    odd_flags=2,
)
ACTIVITY = Activity(
    calls=100,
    nodes=(NODE,),
    tables=(
        TableCounts("HR", 5, "USR", USED),
        TableCounts("HR", 9, HOSTILE, ActivityCounts(present=1)),
    ),
    interval_us=HOUR,
    intervals=(
        IntervalCounts("HR", 0, 5, HOUR, ActivityCounts(evicted=1)),
        IntervalCounts("HR", 2 * HOUR, 5, HOUR, USED),
    ),
    cells=(
        CellCounts("HR", 5, "USR", 0, ActivityCounts(present=5, ordinals=20, dirty=5)),
        CellCounts("HR", 9, HOSTILE, 2 * HOUR, ActivityCounts(present=1, ordinals=4)),
    ),
    gaps=(SweepGap("HR", HOUR // 2, HOUR),),
    problems=(ProblemCount("json", 3, "<b>.jsonl", 7, "no JSON"),),
    warnings={"flag": 4, "cut": 1},
)
REPORT = ActivityReport(ACTIVITY, {5: "people"})


def test_measures_match_the_page_of_dirr() -> None:
    assert measures.frequency(USED, 10) == 0.8
    assert measures.intensity(USED) == 5
    assert measures.dirty_share(USED, 10) == 0.5
    assert measures.update_rate(USED, 2 * HOUR) == 2
    assert measures.eviction_rate(USED, 2 * HOUR) == 3
    assert measures.reinclusion_rate(USED, 2 * HOUR) == 1
    assert measures.replacement_rate(USED, 2 * HOUR) == 3.5
    assert measures.absence_seconds(USED) == 15


def test_unobserved_time_has_no_measure() -> None:
    nothing = ActivityCounts()
    assert measures.frequency(nothing, 0) is None
    assert measures.intensity(nothing) is None
    assert measures.update_rate(nothing, 0) is None
    assert measures.absence_seconds(nothing) is None


@pytest.mark.parametrize(("last", "seconds"), [(0, 1), (95, 1), (96, 5), (86_400, 1800)])
def test_intervals_are_96_at_most(last: int, seconds: int) -> None:
    assert interval_width(0, last * 1_000_000) == seconds * 1_000_000


def test_a_long_time_has_intervals_of_weeks() -> None:
    years = 500 * 365 * 24 * HOUR
    width = interval_width(0, years)
    assert width % (7 * 24 * HOUR) == 0
    assert years // width < 96


def test_json_keeps_the_views_apart_and_the_biases_with_the_rate() -> None:
    content = json.loads(json.dumps(REPORT.content()))
    first = content["tables"][0]
    assert (first["schema"], first["table"], first["updates_per_hour"]) == ("people", "USR", 2)
    assert first["presence"] == {
        "inclusions": 3,
        "evictions": 6,
        "evictions_per_hour": 3,
        "reinclusions": 2,
        "reinclusions_per_hour": 1,
        "absence_seconds": 15,
    }
    assert first["slots"] == {"replacements": 7, "replacements_per_hour": 3.5}
    assert content["updates_per_hour_biases"] == list(measures.UPDATE_RATE_BIASES)
    assert content["nodes"][0]["sweeps_left_out"] == {
        "incomplete": 5,
        "failed": 6,
        "implausible": 9,
        "conflicting": 7,
    }
    assert content["gaps"] == [
        {"node": "HR", "from": "1970-01-01T00:30:00+00:00", "to": "1970-01-01T01:00:00+00:00"}
    ]


def test_csv_has_a_row_for_each_table() -> None:
    header, *rows = csv.reader("\n".join(REPORT.csv_lines()).splitlines())
    assert [dict(zip(header, row, strict=True))["table"] for row in rows] == ["USR", HOSTILE]
    first = dict(zip(header, rows[0], strict=True))
    assert (first["presence_evictions"], first["slots_replacements"]) == ("6", "7")
    assert (first["doubled"], first["odd_flags"]) == ("1", "2")
    assert dict(zip(header, rows[1], strict=True))["presence_absence_seconds"] == ""


def test_text_shows_every_measure_and_escapes_names() -> None:
    text = "\n".join(activity_text(REPORT, 40))
    for message in ("people.USR", "80.0%", "5 sweeps with a missing call", "presence view"):
        assert message in text
    assert all(bias in text for bias in measures.UPDATE_RATE_BIASES)
    assert "\x07" not in text
    assert "\u202e" not in text
    cells = [line.split("│")[1].strip() for line in text.splitlines() if "│" in line]
    assert "".join(cells).endswith("onerror='a()'>&\\x07\\u202e[red]")
    assert "9 with EORR in place of a system table" in text
    assert "doubled" in text
    assert "odd flags" in text
    plain = replace(ACTIVITY, tables=(TableCounts("HR", 5, "USR", ActivityCounts(present=8)),))
    assert "odd flags" not in "\n".join(activity_text(ActivityReport(plain, {}), 40))
    assert "1 more tables" in "\n".join(activity_text(REPORT, 1))


def test_the_page_is_well_formed_and_stands_alone() -> None:
    text = render_page(REPORT)
    doctype, _, rest = text.partition("\n")
    assert doctype == "<!DOCTYPE html>"
    root = etree.fromstring(rest)
    names = {element.tag for element in root.iter()}
    assert not names & {"script", "img", "link", "a", "iframe", "image", "use", "object"}
    attributes = {name for element in root.iter() for name, _ in element.items()}
    assert not attributes & {"src", "href", "onerror", "srcset", "style"}
    assert not re.search(r"url\(|@import", root.findtext("head/style") or "")
    assert "prefers-color-scheme: dark" in text


def test_the_page_escapes_names() -> None:
    text = render_page(REPORT)
    assert "\x07" not in text
    name = f"9.{HOSTILE}".replace("\x07", "\\x07")
    root = etree.fromstring(text.partition("\n")[2])
    assert name in [cell.text for cell in root.iter("td")]
    assert name in [title.text for title in root.iter("title")]


def test_the_page_has_its_plots_and_its_table() -> None:
    text = render_page(REPORT)
    root = etree.fromstring(text.partition("\n")[2])
    plots = [svg for svg in root.iter("svg") if svg.get("class") == "plot"]
    assert [plot.get("aria-label") for plot in plots] == [
        "Tables over time",
        "Updates per hour",
        "Evictions per hour: presence view",
        "Replacements per hour: slot view",
    ]
    boxes = [box for box in plots[0].iter("rect") if box.get("class") == "heat"]
    assert [box.get("fill-opacity") for box in boxes] == ["1.00", "0.32"]
    assert classes(plots[0])["dirty"] == 1
    # two rows, two intervals with sweeps; the one between stays empty
    assert classes(plots[0])["seen"] == 4
    rows = etree.fromstring(re.findall(r"<table>.*?</table>", text, re.DOTALL)[0]).findall("tr")
    assert len(rows) == 3
    assert rows[1].findtext("td") == "people.USR"


def classes(plot: etree._Element) -> Counter[str | None]:
    return Counter(box.get("class") for box in plot.iter("rect"))


def test_a_page_without_sweeps_is_complete() -> None:
    assert render_page(ActivityReport(Activity(calls=0), {})).endswith("</html>")


LONGEST = ("W" * 66, "\u0428" * 66, "ARCHIVE_" * 8 + "A1", "ARCHIVE_" * 8 + "A2")


def test_long_names_do_not_break_the_page() -> None:
    cells = tuple(CellCounts("HR", 5, name, 0, ActivityCounts(present=1)) for name in LONGEST)
    tables = tuple(TableCounts("HR", 5, name, ActivityCounts(present=1)) for name in LONGEST)
    text = render_page(ActivityReport(replace(ACTIVITY, tables=tables, cells=cells), {5: "people"}))
    root = etree.fromstring(text.partition("\n")[2])
    labels = [svg for plot in root.iter("svg") for svg in plot.findall("svg")]
    shown = [label.findtext("text") or "" for label in labels]
    assert [label.findtext("title") for label in labels] == [f"people.{name}" for name in LONGEST]
    assert len(set(shown)) == len(LONGEST)
    # each begins at the left edge, and what is too wide is clipped at its end
    assert {label.get("x") for label in labels} == {"0"}
    assert {text.get("x") for label in labels for text in label.findall("text")} == {"0"}
    assert all(name.startswith("people.") and len(name) <= 26 for name in shown)
    style = root.findtext("head/style") or ""
    assert re.search(r"td:first-child \{[^}]*overflow-wrap: anywhere", style)


def test_plots_keep_the_size_of_their_text_on_narrow_screens() -> None:
    root = etree.fromstring(render_page(REPORT).partition("\n")[2])
    plots = [svg for svg in root.iter("svg") if svg.get("class") == "plot"]
    assert len(plots) == 4
    scrolled = [plot for box in root.iter("div") if box.get("class") == "wide" for plot in box]
    assert [element for element in scrolled if element.tag == "svg"] == plots
    style = root.findtext("head/style") or ""
    assert ".wide { overflow-x: auto; }" in style
    assert re.search(r"@media \(max-width: \d+px\) \{ .plot \{ width: 1000px", style)


def test_notes_warn_of_problems_and_biases() -> None:
    problem, *odd = activity_notes(REPORT, "text")
    assert problem.startswith("unusable calls (json): 3, the first at <b>.jsonl:7: no")
    assert [note.split(",")[0][:38] for note in odd] == [
        "4 calls have an UpdFlag other than 0 a",
        "1 names are cut inside a character and",
        "a table appears at a second ordinal of",
    ]
    assert all(note.replace("'", "&#x27;") in render_page(REPORT) for note in odd)
    biases, *_ = activity_notes(REPORT, "csv")
    assert all(bias in biases for bias in measures.UPDATE_RATE_BIASES)
    assert [*activity_notes(ActivityReport(Activity(calls=0, nodes=()), {}), "json")] == [
        "the samples have no calls: check whether their recording or an export failed"
    ]
    nothing = ActivityReport(Activity(calls=1, nodes=(replace(NODE, sweeps=0),)), {})
    assert list(activity_notes(nothing, "json")) == [
        "all sweeps were left out: see the reasons above, and check [table_queue] recorded"
    ]
