"""Rejected records over runs: listed, grouped, exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from publisher.cli.main import cli
from tests.support.documentation import agrees, shown_commands, text_of
from tests.support.event_log_files import csv_text
from tests.support.local_engine import EngineSwitch

JOB = """
[[sources]]
format = "event-log"
name = "hr"
snapshots = ["in"]

[dispatch]
path = "out"
"""


def row(number: int, **values: object) -> dict[str, object]:
    usual: dict[str, object] = {
        "record_id": str(number),
        "table_key": f"idu={number}",
        "status": "N",
        "event_type": "1",
        "event_time": "2026-01-01 00:00:00",
        "perpetrator": "ann",
        "table_name": "indirect.usr",
        "column_name": "fname",
        "old_value": "",
        "new_value": f"Ann {number}",
    }
    return usual | values


class RejectJob:
    """A job in a directory of its own; each publication reads one new file."""

    def __init__(self, base: Path) -> None:
        self.base = base
        (base / "hr.toml").write_text(JOB)
        (base / "in").mkdir()

    def publish(self, name: str, rows: list[dict[str, object]], more: str = "") -> Result:
        (self.base / "in" / name).write_text(csv_text(rows) + more)
        return self.run("publish", "--engine", "local")

    def run(self, command: str, *words: object) -> Result:
        config = str(self.base / "hr.toml")
        return CliRunner().invoke(cli, [command, "-c", config, *map(str, words)])

    def groups(self, *words: object) -> list[dict]:
        result = self.run("rejects", "--json", *words)
        assert result.exit_code == 0, result.output
        found: list[dict] = json.loads(result.stdout)
        return found


@pytest.fixture
def job(tmp_path: Path, local_engine: EngineSwitch) -> RejectJob:
    del local_engine
    return RejectJob(tmp_path)


def test_rejects_of_all_runs_are_grouped_by_reason(job: RejectJob) -> None:
    job.publish("a.csv", [row(1), row(2, event_type="9"), row(3, table_key="")], "broken,line\n")
    job.publish("b.csv", [row(4, event_type="0"), row(5)])
    groups = job.groups()
    assert [(g["reason"], g["records"], g["runs"]) for g in groups] == [
        ("event-type", 2, 2),
        ("broken-record", 1, 1),
        ("table-key", 1, 1),
    ]
    assert groups[0]["sample"]["position"] == "4"
    assert "fix the trigger" in groups[0]["sample"]["detail"]
    assert [g["reason"] for g in job.groups("--reason", "table-key")] == ["table-key"]
    assert job.groups("--source", "other") == []
    result = job.run("rejects", "--reason", "table-key", "--reason", "eventtype")
    assert result.stdout.startswith("hr: table-key")
    assert result.stderr == (
        "note: no rejected record has reason eventtype; known reasons: broken-record, event-type, table-key\n"
    )
    text = job.run("rejects").stdout
    assert "hr: event-type: 2 record(s) in 2 run(s)" in text
    assert "for instance 4 of idu=4 of usr" in text or "for instance 4 in run hr-000002" in text


def test_raw_records_are_exported_to_a_private_file(job: RejectJob) -> None:
    job.publish("a.csv", [row(1), row(2, event_type="9")], "broken,line\n")
    target = job.base / "fixed.jsonl"
    assert "fixed.jsonl: 2 record(s)" in job.run("rejects", "--export", target).stdout
    entries = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(entry["id"], entry["source"], entry["reason"]) for entry in entries] == [
        ("hr-000001:0:3", "hr", "event-type"),
        ("hr-000001:0:4", "hr", "broken-record"),
    ]
    assert entries[0]["raw"]["event_type"] == "9"
    assert entries[1]["raw"] == "broken,line"
    assert target.stat().st_mode & 0o077 == 0
    again = job.run("rejects", "--export", target)
    assert again.exit_code == 2
    assert "exists" in again.stderr.casefold()


def test_hostile_values_are_shown_as_escapes(job: RejectJob) -> None:
    job.publish("a.csv", [row(2, event_type="\x1b[31m9", new_value="x" * 100_000)])
    text = job.run("rejects").stdout
    assert "\x1b" not in text
    assert len(text) < 2_000


def test_a_job_without_rejects(job: RejectJob) -> None:
    job.publish("a.csv", [row(1)])
    assert job.run("rejects").stdout == "no rejected records\n"
    assert job.groups() == []


def test_a_job_without_a_run_has_no_rejects_to_list(job: RejectJob) -> None:
    assert job.run("publish").exit_code == 0  # there is no file yet
    for words in ([], ["--json"], ["--export", job.base / "rejects.jsonl"]):
        result = job.run("rejects", *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "no complete run: publish first" in result.stderr
    assert not (job.base / "rejects.jsonl").exists()


def test_no_ledger_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["rejects"])
    assert result.exit_code == 2
    assert "no ledger is given" in result.stderr


def correct(job: RejectJob, **values: str | None) -> Path:
    """Exports the rejected records, and writes them with other values into a new file."""
    exported, target = job.base / "rejects.jsonl", job.base / "fixed.jsonl"
    exported.unlink(missing_ok=True)
    assert job.run("rejects", "--export", exported).exit_code == 0
    entries = [json.loads(line) for line in exported.read_text().splitlines()]
    for entry in entries:
        entry["raw"] = {**entry["raw"], **values}
    target.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return target


def retry(job: RejectJob, target: Path) -> Result:
    return job.run("rejects", "--engine", "local", "--json", "--retry", target)


def published(job: RejectJob, run: int) -> list[str]:
    parts = sorted((job.base / "out" / "runs" / f"hr-{run:06d}").glob("part-*.xds"))
    return [line for part in parts for line in part.read_text().splitlines()]


def test_corrected_records_are_published_once_as_what_they_were(job: RejectJob) -> None:
    job.publish(
        "a.csv", [row(1), row(2, event_type="9"), row(3, event_type="9", table_key="idu=1")]
    )
    target = correct(job, event_type="1")
    result = retry(job, target)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["outcomes"]["published"] == 2
    documents = published(job, 2)
    assert sorted("Ann 2" in text for text in documents) == [False, True]
    assert job.groups() == []
    texts = CliRunner().invoke(cli, ["explain", "-c", str(job.base / "hr.toml"), "2"]).stdout
    assert "retry       retried in run hr-000002: published" in texts
    assert "corrects    rejected record hr-000001:0:3" in texts
    again = retry(job, target)
    assert again.exit_code == 2
    assert "hr-000001:0:3 is left out: retried in run hr-000002: published" in again.stderr
    assert not (job.base / "out" / "runs" / "hr-000003").exists()
    more = job.base / "more.jsonl"
    assert job.run("rejects", "--export", more).stdout == f"{more}: 0 record(s)\n"


def test_only_records_that_were_not_retried_are_published(job: RejectJob) -> None:
    job.publish("a.csv", [row(2, event_type="9"), row(3, event_type="9")])
    target = correct(job, event_type="1")
    lines = target.read_text().splitlines()
    target.write_text(lines[0] + "\n\n")
    assert retry(job, target).exit_code == 0
    target.write_text("\n".join(lines))
    result = retry(job, target)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["read"] == 1
    assert "is left out: retried in run hr-000002" in result.stderr
    assert len(published(job, 3)) == 1


def test_a_correction_that_is_rejected_again_can_be_retried(job: RejectJob) -> None:
    job.publish("a.csv", [row(2, event_type="9", table_key="")])
    assert retry(job, correct(job, event_type="1")).exit_code == 4
    assert [(group["reason"], group["records"]) for group in job.groups()] == [("table-key", 1)]
    result = retry(job, correct(job, table_key="idu=2"))
    assert result.exit_code == 0, result.stderr
    assert "idu=2,table=usr" in published(job, 3)[0]
    assert job.groups() == []


def test_a_retry_does_not_touch_files_that_wait(job: RejectJob) -> None:
    job.publish("a.csv", [row(2, event_type="9")])
    (job.base / "in" / "b.csv").write_text(csv_text([row(4)]))
    assert retry(job, correct(job, event_type="1")).exit_code == 0
    assert [("Ann 2" in text) for text in published(job, 2)] == [True]
    assert job.run("publish", "--engine", "local").exit_code == 0
    assert [("Ann 4" in text) for text in published(job, 3)] == [True]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no json", "fixed.jsonl:1 is not a rejected record"),
        ("[]", "fixed.jsonl:1 is not a rejected record"),
        ('{"id": 1, "source": "hr", "raw": {}}', "fixed.jsonl:1 is not a rejected record"),
        ('{"id": "hr-000001:0:9", "source": "hr", "raw": {}}', "no kept run of job hr"),
        ('{"id": "hr-000001:0:2", "source": "crm", "raw": {}}', "job hr has no source crm"),
        ('{"id": "hr-000001:0:2", "source": "hr", "raw": "a,b"}', "raw is not an object"),
        ("", "nothing to retry: the file has no records"),
    ],
)
def test_wrong_lines_are_refused_before_anything_is_published(
    job: RejectJob, line: str, message: str
) -> None:
    job.publish("a.csv", [row(2, event_type="9")])
    target = job.base / "fixed.jsonl"
    target.write_text(line)
    result = retry(job, target)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (job.base / "out" / "runs" / "hr-000002").exists()


def test_the_same_record_twice_in_a_file_is_refused(job: RejectJob) -> None:
    job.publish("a.csv", [row(2, event_type="9")])
    target = correct(job, event_type="1")
    target.write_text(target.read_text() * 2)
    result = retry(job, target)
    assert result.exit_code == 2
    assert "fixed.jsonl:2: " in result.stderr
    assert "has the same id hr-000001:0:2" in result.stderr


def test_a_retry_needs_a_job_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["rejects", "--retry", str(tmp_path / "fixed.jsonl")])
    assert result.exit_code == 2
    assert "name its job file with -c" in result.stderr


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    values=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1, max_size=5
    )
)
def test_any_text_survives_export_and_retry(
    tmp_path_factory: pytest.TempPathFactory, local_engine: EngineSwitch, values: list[str]
) -> None:
    """The records are rejected again for the same reason, or published with the same value."""
    del local_engine
    job = RejectJob(tmp_path_factory.mktemp("job"))
    rows = [row(n, event_type="9", new_value=text) for n, text in enumerate(values, 1)]
    job.publish("a.csv", rows)
    exported = job.base / "exported.jsonl"
    assert job.run("rejects", "--export", exported).exit_code == 0
    entries = [json.loads(line) for line in exported.read_text().split("\n") if line]
    texts = {int(entry["position"]): entry["raw"]["new_value"] or "" for entry in entries}
    assert [texts[number] for number in sorted(texts)] == values
    result = retry(job, exported)
    assert result.exit_code == 4, result.stderr
    assert json.loads(result.stdout)["reasons"] == {"rejected": {"event-type": len(values)}}
    again = [group["records"] for group in job.groups()]
    assert again == [len(values)]


def test_the_page_shows_what_the_commands_print(
    job: RejectJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(job.base)
    rows = [row(1, event_type="2"), row(2, event_type="9"), row(3, table_key=None)]
    job.publish("a.csv", [*rows, row(5, event_type="9", table_key="idu=1")])
    commands = list(shown_commands(text_of("how-to/rejects.md")))
    assert len(commands) == 4
    for number, command in enumerate(commands):
        if number == 2:
            exported = Path("fixed.jsonl").read_text()
            Path("fixed.jsonl").write_text(exported.replace('"9"', '"1"'))
        words = command.line.removeprefix("xds-publisher ").split()
        engine = ["--engine", "local"] if "--retry" in words else []
        printed = [
            line for line in CliRunner().invoke(cli, words + engine).output.splitlines() if line
        ]
        shown = [line for line in command.printed if line.strip() != "…"]
        assert all(map(agrees, shown, printed)), (shown, printed)


def test_lines_of_published_files_lead_to_their_records(job: RejectJob) -> None:
    job.publish("a.csv", [row(n) for n in range(1, 30)])
    parts = sorted((job.base / "out" / "runs" / "hr-000001").glob("part-*.xds"))
    seen = set()
    for part in parts:
        for number, text in enumerate(part.read_text().splitlines(), 1):
            place = f"{part}:{number}"
            result = CliRunner().invoke(cli, ["explain", "--document", place, "--json"])
            assert result.exit_code == 0, result.stderr
            (story,) = json.loads(result.stdout)
            assert story["document"]["text"] == text
            assert f">Ann {story['position']}<" in text
            seen.add(story["position"])
    assert len(seen) == 29
    beyond = CliRunner().invoke(cli, ["explain", "--document", f"{parts[0]}:0"])
    assert beyond.exit_code == 2
    assert "correct line 0" in beyond.stderr
