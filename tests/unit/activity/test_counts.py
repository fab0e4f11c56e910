"""Counts over sweeps of the table queue, compared with plain loops."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from publisher.activity.count_activity import count_activity
from publisher.activity.counts import Activity, ActivityCounts
from publisher.activity.options import ActivityOptions
from publisher.activity.work import Samples
from publisher.cli.main import cli
from publisher.formats.table_queue.calls import Call
from publisher.formats.table_queue.json_calls import json_line
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.formats.table_queue.reading import sample_files, sample_splits
from tests.support.activity_oracle import NodeSamples, counts
from tests.support.table_queue_files import OPTIONS, START, element, text_file

Recorded = tuple[Call, str | None, int]
FAULTS = ["", "", "", "", "no end", "hole", "twice", "conflict", "fails", "late start", "early end"]


@st.composite
def recordings(draw: st.DrawFn) -> list[Recorded]:
    """The calls of some sweeps, a few of them with a fault."""
    number, time, found = 1, START, []
    for _ in range(draw(st.integers(1, 9))):
        names = draw(st.lists(st.sampled_from("ABCDE"), max_size=5))
        flags = draw(st.lists(st.sampled_from([0, 0, 1, 7]), min_size=5, max_size=5))
        found += faulty(
            whole(number, time, names, flags),
            draw(st.sampled_from(FAULTS)),
            draw(st.integers(0, 9)),
        )
        number += draw(st.sampled_from([1, 1, 1, 3]))
        time += timedelta(seconds=draw(st.sampled_from([10, 10, 10, 11, 29, 30, 31, 500])))
    return draw(st.permutations(found))


def whole(number: int, time: Any, names: Sequence[str], flags: Sequence[int]) -> list[Recorded]:
    system = [("$$$SYSRL", 1), ("A", 0), ("$$$USR", 0)]
    queue = [*system, *zip(names, flags, strict=False)]
    calls: list[Recorded] = []
    for ordinal, (name, flag) in enumerate(queue, 1):
        moment = time + timedelta(milliseconds=ordinal)
        record = element(name, 5, flag)
        calls.append((Call(number, moment, ordinal, "NORMAL", 0, record), name, flag))
    end = time + timedelta(milliseconds=len(calls) + 1)
    return [*calls, (Call(number, end, len(calls) + 1, "EORR"), None, 0)]


def faulty(calls: list[Recorded], fault: str, at: int) -> list[Recorded]:
    picked = calls[at % len(calls)]
    call = picked[0]
    match fault:
        case "no end":
            return calls[:-1]
        case "hole":
            return [each for each in calls if each != picked]
        case "twice":
            return [*calls, picked]
        case "conflict":
            other = replace(call, time=call.time + timedelta(seconds=1))
            return [*calls, (other, *picked[1:])]
        case "fails":
            failed = replace(call, completion="SMALLBUFKOR", code=1206, record=None)
            return [each for each in calls if each != picked] + [(failed, None, 0)]
        case "early end":
            end, number = calls[-1][0], 1 + at % 3
            kept = [each for each in calls if each[0].ordinal < number]
            return [*kept, (replace(end, ordinal=number), None, 0)]
        case "late start":
            return [each for each in calls if each[0].ordinal > 3 + at % 2]
    return calls


def count_sweeps(
    paths: Sequence[Path],
    options: TableQueueOptions = OPTIONS,
    counting: ActivityOptions | None = None,
) -> Activity:
    splits = sample_splits(sample_files(paths), options, 3)
    return count_activity(Samples(tuple(splits), options, counting or ActivityOptions()))


def write_nodes(directory: Path, recorded: Sequence[Sequence[Recorded]]) -> None:
    """Writes the calls of nodes; those of a node are in several files."""
    for number in range(3):
        lines = [
            json_line(replace(call, node=f"n{node:02}"))
            for node, calls in enumerate(recorded)
            for call, _, _ in calls[number::3]
        ]
        text_file(directory / f"{number}.jsonl", lines)


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(st.lists(recordings(), min_size=20, max_size=30), st.sampled_from([None, 30]))
def test_counts_are_those_of_plain_loops(
    tmp_path_factory: pytest.TempPathFactory,
    recorded: list[list[Recorded]],
    gap: int | None,
) -> None:
    directory = tmp_path_factory.mktemp("samples")
    write_nodes(directory, recorded)
    found = count_sweeps([directory], counting=ActivityOptions(gap_seconds=gap))
    nodes = {
        f"n{node:02}": NodeSamples(f"n{node:02}", calls, gap and gap * 1_000_000)
        for node, calls in enumerate(recorded)
        if calls
    }
    assert found.calls == sum(map(len, recorded))
    limits = {node.node: node.gap_limit_us for node in found.nodes}
    assert {node.node: node for node in found.nodes} == {
        name: replace(samples.node, gap_limit_us=limits[name]) if gap else samples.node
        for name, samples in nodes.items()
    }
    assert {(t.node, t.owner, t.name): t.counts for t in found.tables} == {
        (name, *table): counts(sums)
        for name, samples in nodes.items()
        for table, sums in samples.tables.items()
    }
    assert len(found.gaps) == min(50, sum(node.gaps for node in found.nodes))


def write_bare_records(directory: Path) -> None:
    for number, names in enumerate(["ABCXY", "ABCXZ"]):
        path = directory / f"{number}.raw"
        path.write_bytes(b"".join(element(name, 5, name == "Y") for name in names))


def test_bare_records_have_no_neighbours(tmp_path: Path) -> None:
    write_bare_records(tmp_path)
    found = count_sweeps([tmp_path])
    (node,) = found.nodes
    assert (node.sweeps, node.untimed, node.failed, node.first, node.observed_us) == (
        2,
        2,
        0,
        None,
        0,
    )
    assert {table.name: table.counts for table in found.tables} == {
        "X": ActivityCounts(present=2, ordinals=8),
        "Y": ActivityCounts(present=1, ordinals=5, dirty=1),
        "Z": ActivityCounts(present=1, ordinals=5),
    }


def unusable_calls() -> list[str]:
    """Lines of six good calls and three bad ones."""
    good = [json_line(call) for call, _, _ in whole(1, START, "AB", [1, 7])]
    bad = json_line(Call(2, START, 1, "NORMAL", 0, b"short"))
    return [*good, "nothing", bad, bad]


def test_unusable_calls_are_counted_with_their_place(tmp_path: Path) -> None:
    path = text_file(tmp_path / "a.jsonl", unusable_calls())
    found = count_sweeps([path])
    assert found.calls == 9
    assert [(p.problem, p.calls, p.file, p.row) for p in found.problems] == [
        ("json", 1, str(path), 7),
        ("length", 2, str(path), 8),
    ]
    assert found.warnings == {"flag": 1}
    assert (found.nodes[0].sweeps, found.nodes[0].failed) == (1, 1)


def test_no_samples_give_no_counts(tmp_path: Path) -> None:
    assert count_sweeps([text_file(tmp_path / "a.jsonl", [])]).nodes == ()


class TestCommand:
    @pytest.fixture
    def run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
        monkeypatch.chdir(tmp_path)
        lines = [
            json_line(call)
            for number, names in enumerate(["AB", "A", "AB"], 1)
            for call, _, _ in whole(number, START + timedelta(seconds=10 * number), names, [1, 0])
        ]
        text_file(tmp_path / "a.jsonl", [*lines, "nothing"])
        (tmp_path / "job.toml").write_text(
            '[table_queue]\ncode_page = "CP866"\nowners = { 5 = "HR" }\n[activity]\ngap_seconds = 30\n',
            "utf-8",
        )
        return lambda *args: CliRunner().invoke(cli, ["activity", *args])

    @pytest.mark.usefixtures("spark")  # the command works in the session that exists
    @pytest.mark.usefixtures("local_engine")
    def test_a_table_for_people(self, run: Callable[..., Result]) -> None:
        done = run("a.jsonl", "-c", "job.toml")
        assert done.exit_code == 0, done.stderr
        (row,) = [line for line in done.stdout.splitlines() if "HR.B" in line]
        # two of three sweeps, evicted once and included again after 10 s; B is last: never replaced
        assert row.replace("│", "").split() == [
            "HR.B",
            "66.7%",
            "5.0",
            "0.0%",
            "0.0",
            "1",
            "1",
            "10.0",
            "0",
        ]
        assert "note: unusable calls (json): 1" in done.stderr
        assert "a.jsonl:18: not JSON" in done.stderr

    @pytest.mark.usefixtures("local_engine")
    def test_json_to_a_file(self, run: Callable[..., Result], tmp_path: Path) -> None:
        done = run("a.jsonl", "-c", "job.toml", "--as", "json", "--to", "out.json")
        assert (done.exit_code, done.stdout) == (0, "")
        content = json.loads((tmp_path / "out.json").read_text("utf-8"))
        assert [(t["schema"], t["table"]) for t in content["tables"]] == [("HR", "A"), ("HR", "B")]
        assert content["tables"][0]["updates_per_hour"] == 360
        assert content["calls"] == 18
