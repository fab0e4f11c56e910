"""A queue in Spark: transactions that interleave and cross the parts that tasks read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.ledger.conservation import RunReport
from publisher.reports.explain import explain
from publisher.runs.replay import replay
from tests.support.dispatch_queue_codes import COMMIT, INSERT, ROLLBACK, UPDATE
from tests.support.dispatch_queue_files import Queue, Row, binary, delimited_text, jack
from tests.support.dispatch_queue_jobs import JOB, keys, rejects, replay_queue, transactions

pytestmark = pytest.mark.usefixtures("spark")


def rows() -> list[Row]:
    """Twenty transactions, one operation of each in turn; some broken, rolled back, open."""
    queue = Queue()
    queue_rows = [queue.row(INSERT, jack(100 + t), TRANSACT_ID=t) for t in range(20)]
    queue_rows += [
        queue.row(UPDATE, jack(100 + t), jack(100 + t, "Jim"), TRANSACT_ID=t) for t in range(20)
    ]
    queue_rows[3]["LEN1"] -= 1
    for t in reversed(range(20)):
        if t != 7:
            queue_rows.append(queue.row(ROLLBACK if t == 5 else COMMIT, TRANSACT_ID=t))
    return queue_rows


def job(base: Path) -> Settings:
    path = base / "job.toml"
    path.write_text(JOB.format(more=""))
    return load(path)


def documents(target: Path) -> list[str]:
    (part,) = target.glob("part-*.xds")
    return part.read_text().splitlines()


@pytest.fixture(scope="module")
def replayed(spark: object, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunReport]:
    base = tmp_path_factory.mktemp("queue")
    (base / "queue.dat").write_bytes(binary(rows()))
    return base / "out", replay(job(base), [base / "queue.dat"], str(base / "out"))


def test_documents_are_in_the_order_of_the_commits(replayed: tuple[Path, RunReport]) -> None:
    target, report = replayed
    assert report.outcomes == {
        "published": 34,
        "superseded": 0,
        "ignored": 21,
        "held": 2,
        "rejected": 2,
    }
    assert report.reasons["rejected"] == {"row-image": 1, "held-back": 1}
    keys = [line.partition("idu=")[2].partition(",")[0] for line in documents(target)]
    committed = [str(100 + t) for t in reversed(range(20)) if t not in (3, 5, 7)]
    assert keys == [key for key in committed for _ in range(2)]


def test_text_gives_the_same_documents(replayed: tuple[Path, RunReport], tmp_path: Path) -> None:
    (tmp_path / "queue.csv").write_text(delimited_text(rows()))
    report = replay(job(tmp_path), [tmp_path / "queue.csv"], str(tmp_path / "out"))
    assert report.outcomes == replayed[1].outcomes
    assert documents(tmp_path / "out") == documents(replayed[0])


def test_explain_shows_the_envelope_and_where_it_was(replayed: tuple[Path, RunReport]) -> None:
    (story,) = explain(replayed[0], "MAIN:3.1100@3.6900")
    assert story.outcome == "published"
    assert story.place.endswith("queue.dat, record 1")
    assert json.loads(story.raw or "")["first"] == jack(100).hex()
    rejected = explain(replayed[0], "idu=103")
    assert [story.reason for story in rejected] == ["held-back"]
    assert "the columns of table 7 need 59" in rejected[0].meaning


def test_a_reject_of_one_lane_reaches_the_others(tmp_path: Path) -> None:
    found = []
    for lanes in (1, 8):
        base = tmp_path / str(lanes)
        base.mkdir()
        report = replay_queue(base, transactions(), lanes=lanes)
        assert report.reasons["rejected"] == {"forbidden-character": 1, "held-back": 6}
        found.append((keys(base / "out"), rejects(base / "out")))
        assert not list(base.rglob("staging"))
    assert found[0] == found[1]
