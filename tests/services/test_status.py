"""``xds-publisher status`` on real databases and a real broker: looks, and writes nothing."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.config.job_file import load
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.refusals import DispatchRecord, Refusal
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import RunEnd
from publisher.ledger.storage import transaction
from publisher.reports.check import check
from publisher.reports.status import DISCARD, SEND
from tests.services.databases import Place, sqlite_place
from tests.services.topics import Topics
from tests.services.waiting_logs import MOMENTS, ago, make_log
from tests.support.ledgers import commit_run, documents, report, write_identity

LIVE = """
[[sources]]
name = "live"
format = "event-log"
table = "log"

[database]
url = "{url}"
"""
FILES = '[[sources]]\nname = "export"\nformat = "event-log"\nsnapshots = ["in"]\n'
TO_FILES = '\n[dispatch]\npath = "out"\n'
TO_KAFKA = '\n[dispatch]\nto = "kafka"\nbootstrap = "{bootstrap}"\ntopic = "{topic}"\ntimeout = 5\n'


def run_status(base: Path, *more: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["status", "-c", str(base / "people.toml"), *more])
    return result.exit_code, result.stdout, result.stderr


def status(base: Path) -> tuple[int, dict[str, Any]]:
    code, out, _ = run_status(base, "--json")
    return code, json.loads(out)


def write_job(base: Path, text: str) -> Path:
    (base / "people.toml").write_text(text)
    root = base / ".xds-publisher" / "people"
    write_identity(root)
    return root


def everything(base: Path) -> dict[str, int]:
    paths = (path for path in base.rglob("*") if not path.name.endswith(("-wal", "-shm")))
    return {str(path): path.stat().st_mtime_ns for path in paths if path.is_file()}


def test_what_waits_in_a_log(place: Place, tmp_path: Path) -> None:
    rows = [("N", ago(60)), ("N", ago(600)), ("S", ago(9000)), ("E", ago(9)), ("NULL", ago(9))]
    make_log(place, MOMENTS[place.kind], *rows[:4])
    place.execute("INSERT INTO log VALUES (9, NULL, NULL)")
    write_job(tmp_path, LIVE.format(url=place.url) + TO_FILES)
    before = everything(tmp_path)
    code, found = status(tmp_path)
    assert code == 0
    (log,) = found["logs"]
    assert (log["source"], log["table"], log["waiting"]) == ("live", "log", 2)
    assert log["oldest"] == pytest.approx(600, abs=30)
    assert log["statuses"] == {"E": 1, "N": 2, "NULL": 1, "S": 1}
    assert (found["epoch"], found["last"], found["unfinished"]) == (0, None, [])
    assert everything(tmp_path) == before
    _, text, _ = run_status(tmp_path)
    assert "job people: never started" in text
    assert "source live: 2 rows of log wait, the oldest for 10 min" in text
    assert "(1 E, 2 N, 1 NULL, 1 S)" in text


def test_runs_done_and_not_done(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    root = write_job(tmp_path, FILES + TO_FILES)
    first, planned = commit_run(root / "people-000001", [documents(3)], run="people-000001")
    job = Ledger(root, "people")
    job.finish(first, planned, RunEnd(), greatest={}, leftovers={})
    commit_run(root / "people-000002", [documents(5)], run="people-000002")
    (root / "people-000003").mkdir()
    job.begin_epoch()
    job.begin_epoch()
    before = everything(tmp_path)
    code, found = status(tmp_path)
    assert code == 0
    assert found["epoch"] == 2
    last = found["last"]
    assert (last["run"], last["documents"], last["done"]) == ("people-000002", 5, None)
    assert [(run["run"], run["planned"], run["next"]) for run in found["unfinished"]] == [
        ("people-000002", True, SEND),
        ("people-000003", False, DISCARD),
    ]
    assert everything(tmp_path) == before
    _, text, _ = run_status(tmp_path)
    assert "unfinished people-000002: 5 documents, planned: the next start sends" in text
    assert "unfinished people-000003: not planned completely: the next start discards it" in text


def test_files_published_and_new(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "in" / name).write_text(f"record_id,{name}\n")
    root = write_job(tmp_path, FILES + TO_FILES)
    path = str(tmp_path / "in" / "a.csv")
    Ledger(root, "people").open_identity()
    with transaction(root) as ledger:
        entry = json.dumps({"path": path, "bytes": 16})
        ledger.execute("INSERT INTO published_file VALUES (?, ?, ?)", ("export", path, entry))
    (tmp_path / "out" / "runs" / "people-000001").mkdir(parents=True)
    code, found = status(tmp_path)
    assert code == 0
    expected = {"source": "export", "published": 1, "new": 1, "refused": 0, "compared": False}
    assert found["files"] == [expected]
    assert found["sink"]["runs"] == 1
    assert "source export: files: 1 waiting, 1 published" in run_status(tmp_path)[1]


def test_a_database_that_is_gone(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "log.db")
    make_log(place, "TIMESTAMP", ("N", ago(60)))
    root = write_job(tmp_path, LIVE.format(url=place.url) + TO_FILES)
    commit_run(root / "people-000001", [documents(3)], run="people-000001")
    assert run_status(tmp_path)[0] == 0
    (tmp_path / "log.db").unlink()
    code, text, message = run_status(tmp_path)
    assert code == 1
    assert "source live: " in text
    assert "does not exist" in text
    assert "last run people-000001" in text
    assert "unknown state of source live" in message
    assert status(tmp_path)[1]["problems"][0]["exit_code"] == 1


def test_a_log_that_does_not_fit(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "log.db")
    write_job(tmp_path, LIVE.format(url=place.url) + TO_FILES)
    code, text, _ = run_status(tmp_path)
    assert code == 1
    assert "no table or view log" in text


def test_where_the_tokens_stand(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make()
    (tmp_path / "in").mkdir()
    to = TO_KAFKA.format(bootstrap=kafka.bootstrap, topic=topic)
    tokens = f"tokens-{topic}"
    root = write_job(tmp_path, FILES + to + f'token_topic = "{tokens}"\n')
    assert status(tmp_path)[1]["sink"]["tokens"] == []
    ledger_run, manifest = commit_run(
        root / "people-000001", [documents(3), documents(4), documents(4)], run="people-000001"
    )
    options = KafkaOptions(bootstrap=kafka.bootstrap, topic=topic, token_topic=tokens, timeout=30)
    sink = KafkaDispatcher(options, job="people", owner="people", lanes=3)
    sink.prepare("people-000001")
    sink.dispatch(ledger_run, manifest, report(ledger_run, manifest))
    kafka.made.append(tokens)
    ends = kafka.ends(topic), kafka.ends(tokens)
    code, found = status(tmp_path)
    assert code == 0
    assert found["sink"]["whole"] == "people-000001"
    assert [(t["lane"], t["run"], t["documents"]) for t in found["sink"]["tokens"]] == [
        (0, "people-000001", 3),
        (1, "people-000001", 4),
        (2, "people-000001", 4),
    ]
    assert (kafka.ends(topic), kafka.ends(tokens)) == ends
    _, text, _ = run_status(tmp_path)
    assert f"sink {sink.target}: has all of people-000001" in text
    assert "  lane 0: 3 documents of people-000001" in text
    assert "  2 lanes from 1 to 2, each: 4 documents of people-000001" in text


def test_progress_that_does_not_fit_the_ledger_is_a_problem(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make()
    (tmp_path / "in").mkdir()
    to = TO_KAFKA.format(bootstrap=kafka.bootstrap, topic=topic)
    root = write_job(tmp_path, FILES + to)
    ledger_run, manifest = commit_run(root / "people-000001", [documents(3)], run="people-000001")
    options = KafkaOptions(bootstrap=kafka.bootstrap, topic=topic)
    sink = KafkaDispatcher(options, job="people", owner="people", lanes=1)
    sink.prepare("people-000001")
    sink.dispatch(ledger_run, manifest, report(ledger_run, manifest))
    shutil.rmtree(root)
    code, found = status(tmp_path)
    assert code == 1
    assert found["sink"]["whole"] == "people-000001"
    assert ["came from another ledger" in one["message"] for one in found["problems"]] == [True]
    checked = {one.what: one for one in check(load(tmp_path / "people.toml"))}
    assert checked["ledger"].ok
    assert "came from another ledger" in checked["sink"].detail
    assert not root.exists()


def test_what_the_sink_refused_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    root = write_job(tmp_path, FILES + TO_FILES)
    ledger_run, _ = commit_run(root / "people-000001", [documents(3)], run="people-000001")
    refusal = Refusal(0, 1, "log", "2", "2", "too-large", "of so many bytes")
    for sink in ("one", "another"):
        DispatchRecord("people-000001", "plan", sink, ("xds",), 1, 1, (refusal,)).write(
            ledger_run, sink
        )
    last = status(tmp_path)[1]["last"]
    assert last["outcomes"]["rejected"] == 1
    assert last["reasons"]["rejected"] == {"too-large": 1}


def test_brokers_that_are_away(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{nobody.getsockname()[1]}"
        (tmp_path / "in").mkdir()
        write_job(tmp_path, FILES + TO_KAFKA.format(bootstrap=bootstrap, topic="xds"))
        code, text, message = run_status(tmp_path)
    assert code == 5
    assert f"sink kafka://{bootstrap}/xds: Kafka at {bootstrap}" in text
    assert "last run: none" in text
    assert "no answer from: sink" in message
