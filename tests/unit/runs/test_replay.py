"""Replays of one log: the commands about a finished run, and directories that are not those of a run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.config.job_file import defaults
from publisher.errors import UsageError
from publisher.ledger.conservation import RunReport
from publisher.reports.explain import explain
from publisher.runs.replay import dispatch, replay
from tests.support import whole_log as log

pytestmark = pytest.mark.usefixtures("local_engine")

Run = tuple[Path, RunReport]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replay")


@pytest.fixture(scope="module")
def csv_run(base: Path) -> Run:
    """The log as one CSV file, replayed in one lane."""
    snapshot = log.write_csv(base / "log.csv")
    target = base / "csv"
    settings = log.settings(base / "job.toml", lanes=1, engine="local")
    return target, replay(settings, [snapshot], str(target))


def run(base: Path, *arguments: object) -> tuple[int, str, str]:
    """The command line in this process: exit code, stdout, stderr."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_rejects_are_whole_and_in_order(csv_run: Run) -> None:
    target, report = csv_run
    rejects = [json.loads(line) for line in (target / "rejects.jsonl").read_text().splitlines()]
    assert len(rejects) == report.rejected
    assert [entry["reason"] for entry in rejects if entry["position"] == "16"] == ["double-record"]
    places = [entry["position"].rpartition(":") for entry in rejects]
    numbers = [(part, int(number)) for part, _, number in places]
    assert numbers == sorted(numbers)
    for entry in rejects:
        assert entry["file"].endswith("log.csv")
        assert entry["detail"].partition(":")[2] or ";" in entry["detail"]
        assert json.loads(entry["raw"])


def test_one_lane_is_in_the_order_of_positions(csv_run: Run) -> None:
    target, _ = csv_run
    documents = log.lines(target)
    first = [
        text.split("<value")[1].split(">")[1].split("<")[0]
        for text in documents
        if "<value" in text
    ]
    numbers = [int(text[1:]) for text in first]
    assert numbers == sorted(numbers)
    assert len(documents) == len(numbers) + 1  # the delete has no value


def test_finished_replay_sends_nothing_more_unless_told(csv_run: Run, base: Path) -> None:
    target, report = csv_run
    before = log.published_files(target), (target / "run.json").stat().st_mtime_ns
    arguments = ["replay", base / "log.csv", "--to", target, "-c", base / "job.toml"]
    code, out, _ = run(base, *arguments, "--lanes", 1, "--json")
    shown = json.loads(out)
    assert (code, shown["state"], shown["outcomes"]) == (0, "already published", report.outcomes)
    assert (log.published_files(target), (target / "run.json").stat().st_mtime_ns) == before
    code, out, _ = run(base, *arguments, "--lanes", 1, "--json", "--again")
    assert (code, json.loads(out)["state"]) == (0, "published")
    assert log.published_files(target) == before[0]
    assert (target / "run.json").stat().st_mtime_ns != before[1]
    assert not log.left_over(target)


@pytest.mark.parametrize("other", [["--status", "any"], ["--until", "40"], ["other.csv"]])
def test_directory_of_another_run_is_refused(csv_run: Run, base: Path, other: list[str]) -> None:
    target, _ = csv_run
    log.write_csv(base / "other.csv", log.ROWS[:3])
    snapshot = base / (other[0] if len(other) == 1 else "log.csv")
    options = other if len(other) == 2 else []
    before = log.published_files(target)
    code, out, err = run(
        base, "replay", snapshot, "--to", target, "-c", base / "job.toml", *options
    )
    assert (code, out) == (2, "")
    assert "other input or settings" in err
    assert log.published_files(target) == before


@pytest.mark.parametrize(
    ("snapshot", "target", "options", "words"),
    [
        ("log.csv", "new", ["--from", "9", "--until", "3"], "--from 9 lies after --until 3"),
        ("log.csv", "new", ["--from", "x"], "'x' is not a position"),
        (".", "new", [], "lies in the snapshot"),
        ("log.csv", "log.csv", [], "is not a directory"),
        ("log.csv", ".", [], "is not empty"),
        ("absent.csv", "new", [], "does not exist"),
    ],
)
def test_command_that_makes_no_sense_is_refused_and_writes_nothing(
    csv_run: Run, base: Path, snapshot: str, target: str, options: list[str], words: str
) -> None:
    before = sorted(base.rglob("*"))
    code, out, err = run(base, "replay", base / snapshot, "--to", base / target, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert sorted(base.rglob("*")) == before


def test_dispatch_to_a_further_directory_gives_equal_bytes(csv_run: Run, base: Path) -> None:
    target, _ = csv_run
    further = base / "further"
    code, out, _ = run(base, "dispatch", target, "--to", further)
    assert code == 0
    assert "published" in out
    assert log.published_files(further) == log.published_files(target)
    assert not log.left_over(further)
    assert dispatch(target, str(further), defaults()).state == "already published"
    (further / "part-00000.xds").write_text("damaged")
    assert dispatch(target, str(further), defaults(), again=True).state == "published"
    assert log.published_files(further) == log.published_files(target)
    with pytest.raises(UsageError, match="not empty"):
        dispatch(target, str(base), defaults())
    with pytest.raises(UsageError, match="has no ledger"):
        dispatch(base / "log.csv", str(further), defaults())


EXPLAINED = {
    "1": ("published", "", "S"),
    "3": ("superseded", "5", "E"),  # its query-back could not be asked
    "6": ("superseded", "7", "E"),
    "7": ("rejected", "--database", "E"),
    "9": ("ignored", "delete", "W"),
    "11": ("ignored", "modify would be empty", "W"),
    "12": ("ignored", "--status any", "S"),
    "13": ("ignored", "allow_loopback", "W"),
    "14": ("ignored", "exclude", "W"),
    "17": ("rejected", "not 1 to 8", "E"),
    "23": ("rejected", "XML", "E"),
}


@pytest.mark.parametrize("position", EXPLAINED)
def test_explain_tells_each_outcome(csv_run: Run, position: str) -> None:
    target, _ = csv_run
    (story,) = explain(target, position)
    outcome, words, status = EXPLAINED[position]
    assert (story.outcome, story.status) == (outcome, status)
    assert words in story.meaning or words == story.by
    assert story.raw is not None
    raw = json.loads(story.raw)
    assert str(raw.get("record_id", raw.get("position"))) == position
    assert story.place.endswith(f"log.csv, record {story_row(position)}")
    assert (story.document is None) == (outcome != "published")


def story_row(position: str) -> int:
    """The line of a record in the CSV file, where each has one, below the header."""
    ids = [str(row["record_id"]) for row in log.ROWS]
    return ids.index(position) + 2


@pytest.mark.parametrize(
    ("what", "positions"),
    [
        ("event-log:16", ["16", "16"]),
        ("idu=7", ["15", "15", "16", "16"]),
        ("idu= 07", ["15", "15", "16", "16"]),
        ("idu=9,table=usr", ["27", "28", "40", "41"]),
        ("a=7,table=view_twice", ["26"]),
    ],
)
def test_explain_finds_by_event_id_key_and_association(
    csv_run: Run, base: Path, what: str, positions: list[str]
) -> None:
    target, _ = csv_run
    assert [story.position for story in explain(target, what)] == positions
    code, out, _ = run(base, "explain", target, what)
    assert code == 0
    assert out.count("outcome ") == len(positions)


def test_explain_finds_records_without_an_id(csv_run: Run, base: Path) -> None:
    target, _ = csv_run
    (entry,) = (
        entry
        for entry in map(json.loads, (target / "rejects.jsonl").read_text().splitlines())
        if entry["reason"] == "record-id"
    )
    (story,) = explain(target, entry["position"])
    assert story.reason == "record-id"
    code, _, err = run(base, "explain", target, "4711")
    assert code == 2
    assert "no record '4711'" in err


def test_window_keeps_both_ends_and_what_polls_decided(csv_run: Run, base: Path) -> None:
    expected, _ = csv_run
    target = base / "window"
    code, _, _ = run(
        base, "replay", base / "log.csv", "--to", target, "-c", base / "job.toml",
        "--from", 2, "--until", 41,
    )  # fmt: skip
    assert code == 0
    cut = {"1: published": "1: ignored out-of-range", "42: published": "42: ignored out-of-range"}
    instead = [cut.get(name, name) for name in log.decisions(expected).elements()]
    assert log.decisions(target) == Counter(instead)


def test_any_status_publishes_what_was_processed(csv_run: Run, base: Path) -> None:
    target = base / "any"
    code, _, _ = run(
        base, "replay", base / "log.csv", "--to", target, "-c", base / "job.toml", "--status", "any"
    )
    assert code == 0
    assert log.count_fates(target) == log.fates(broken=1, r12="published")
