"""Reports of table activity: as text, JSON and CSV."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

from publisher.activity import measures
from publisher.activity.counts import (
    Activity,
    ActivityCounts,
    NodeCounts,
    ProblemCount,
    SweepGap,
    TableCounts,
)
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


def test_notes_warn_of_problems_and_biases() -> None:
    problem, *odd = activity_notes(REPORT, "text")
    assert problem.startswith("unusable calls (json): 3, the first at <b>.jsonl:7: no")
    assert [note.split(",")[0][:38] for note in odd] == [
        "4 calls have an UpdFlag other than 0 a",
        "1 names are cut inside a character and",
        "a table appears at a second ordinal of",
    ]
    biases, *_ = activity_notes(REPORT, "csv")
    assert all(bias in biases for bias in measures.UPDATE_RATE_BIASES)
    assert [*activity_notes(ActivityReport(Activity(calls=0, nodes=()), {}), "json")] == [
        "the samples have no calls: check whether their recording or an export failed"
    ]
    nothing = ActivityReport(Activity(calls=1, nodes=(replace(NODE, sweeps=0),)), {})
    assert list(activity_notes(nothing, "json")) == [
        "all sweeps were left out: see the reasons above, and check [table_queue] recorded"
    ]
