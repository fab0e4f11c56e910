"""Queues from run to run: what is open goes on, and nothing is published twice.  Without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.errors import FatalError, UsageError
from publisher.formats.dispatch_queue.transactions import carry_over
from publisher.ledger.conservation import RunReport
from publisher.reports.explain import explain
from tests.support.dispatch_queue_codes import COMMIT, INSERT, ROLLBACK
from tests.support.dispatch_queue_files import BIG, Queue, binary, image, jack
from tests.support.dispatch_queue_jobs import JOB, QueueJob

pytestmark = pytest.mark.usefixtures("local_engine")


def reasons(report: RunReport) -> dict[str, int]:
    found: dict[str, int] = {}
    for by_reason in report.reasons.values():
        for reason, count in by_reason.items():
            found[reason] = found.get(reason, 0) + count
    return found


@pytest.mark.parametrize("text", [False, True])
def test_an_open_transaction_goes_on_in_a_later_run(text: bool, tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    big = image(BIG, [3, "x" * 1999, "Ж"])
    name = "{}.csv" if text else "{}.dat"
    first = [
        queue.row(INSERT, jack(1), TRANSACT_ID=1),
        *queue.rows(INSERT, big, TRANSACT_ID=1, TABNUM_SRC=8),
        queue.row(INSERT, jack(2), TRANSACT_ID=2),
        queue.row(COMMIT, TRANSACT_ID=2),
    ]
    job.publish(name.format(1), *first, text=text)
    assert job.keys() == ["idu=2"]
    job.publish(name.format(2), queue.row(INSERT, jack(4), TRANSACT_ID=1), text=text)
    assert job.keys() == ["idu=2"]
    report = job.publish(name.format(3), queue.row(COMMIT, TRANSACT_ID=1), text=text)
    assert job.keys() == ["idu=2", "idu=1", "id=3", "idu=4"]
    assert report.outcomes["published"] == 4
    assert job.publish(name.format(4), queue.row(COMMIT, TRANSACT_ID=9), text=text).documents == 0


def test_an_export_that_overlaps_publishes_nothing_twice(tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    first = [
        queue.row(INSERT, jack(1), TRANSACT_ID=1),
        queue.row(INSERT, jack(2), TRANSACT_ID=2),
        queue.row(COMMIT, TRANSACT_ID=1),
        queue.row(INSERT, jack(3), TRANSACT_ID=3),
        queue.row(ROLLBACK, TRANSACT_ID=3),
        queue.row(INSERT, jack(4)[:-1], TRANSACT_ID=4),
        queue.row(COMMIT, TRANSACT_ID=4),
    ]
    job.publish("1.dat", *first)
    assert job.keys() == ["idu=1"]
    more = [queue.row(COMMIT, TRANSACT_ID=2), queue.row(INSERT, jack(5), TRANSACT_ID=5)]
    second = job.publish("2.dat", *first, *more)
    assert job.keys() == ["idu=1", "idu=2"]
    # the transactions 1, 3 and 4 with their ends, and the held row, which is in the export again
    assert reasons(second) == {"duplicate": 7, "commit": 1, "open-transaction": 1}
    third = job.publish("3.dat", *first[2:], *more, queue.row(COMMIT, TRANSACT_ID=5))
    assert job.keys() == ["idu=1", "idu=2", "idu=5"]
    assert third.documents == 1


def test_rows_that_stay_open_are_kept_once(tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(INSERT, jack(2))]
    for number in range(3):
        report = job.publish(f"{number}.dat", *rows)
        assert report.outcomes["held"] == (2 if number == 0 else 4)
    assert job.publish("4.dat", queue.row(COMMIT)).documents == 2
    assert job.keys() == ["idu=1", "idu=2"]


def test_a_commit_that_comes_late_is_published(tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    one = [queue.row(INSERT, jack(1), TRANSACT_ID=1), queue.row(COMMIT, TRANSACT_ID=1)]
    two = [queue.row(INSERT, jack(2), TRANSACT_ID=2), queue.row(COMMIT, TRANSACT_ID=2)]
    job.publish("1.dat", *two)
    job.publish("2.dat", *one)
    assert job.keys() == ["idu=2", "idu=1"]


def test_what_is_not_remembered_is_not_published_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry_over, "REMEMBERED", 2)
    job, queue = QueueJob(tmp_path), Queue()
    rows = []
    for number in range(1, 5):
        rows.append(queue.row(INSERT, jack(number), TRANSACT_ID=number))
        rows.append(queue.row(COMMIT, TRANSACT_ID=number))
    job.publish("1.dat", *rows)
    again = job.publish("2.dat", *rows)
    assert job.keys() == ["idu=1", "idu=2", "idu=3", "idu=4"]
    assert reasons(again) == {"held-back": 2, "commit": 2, "duplicate": 4}


def test_a_state_that_is_damaged_stops_the_run(tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    job.publish("1.dat", queue.row(INSERT, jack(1)))
    for name in ("ended.arrow", "open-unknown.arrow"):
        (path,) = tmp_path.rglob(f"state/**/{name}")
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FatalError, match="is missing or was changed: what source"):
            job.publish(f"{name}.dat", queue.row(COMMIT))
        path.write_bytes(whole)
        (tmp_path / "in" / f"{name}.dat").unlink()
    job.publish("2.dat", queue.row(COMMIT))
    assert job.keys() == ["idu=1"]


def test_kept_rows_obey_parts_when_it_is_set_later(tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    big = queue.rows(INSERT, image(BIG, [3, "x", "y"]), TABNUM_SRC=8)
    each = queue.rows(INSERT, image(BIG, [4, "x", "y"]), TABNUM_SRC=8, reading="per-part")
    assert job.publish("1.dat", *big, *each).outcomes["held"] == 4
    (tmp_path / "job.toml").write_text(JOB.format(more='parts = "totals"'))
    assert reasons(job.publish("2.dat", queue.row(COMMIT)))["parts"] == 2  # each is not a total
    assert job.keys() == []


def test_kept_rows_whose_names_are_no_text_are_not_published(tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    job.publish("1.dat", queue.row(INSERT, jack(1), DBNODE=b"\xffA"))
    report = job.publish("2.dat", queue.row(COMMIT, DBNODE=b"\xffA"))
    assert reasons(report) == {"broken-record": 1}
    assert job.keys() == []


def test_explain_knows_operations_by_their_own_address(tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    rows = [
        queue.row(INSERT, jack(1), TRANSACT_ID=1),
        queue.row(INSERT, jack(2), TRANSACT_ID=2),
        queue.row(COMMIT, TRANSACT_ID=1),
    ]
    report = job.publish("1.dat", *rows)
    (story,) = explain(Path(report.ledger), "idu=1")
    address = story.position.partition("@")[0]
    assert [found.position for found in explain(Path(report.ledger), address)] == [story.position]
    (open_,) = explain(Path(report.ledger), "idu=2")
    assert (open_.outcome, "@" in open_.position) == ("held", False)
    assert [found.position for found in explain(Path(report.ledger), open_.position)] == [
        open_.position
    ]
    with pytest.raises(UsageError, match="has no record"):
        explain(Path(report.ledger), f"{address}0@9.9")


def test_a_commit_that_names_a_blob_is_told_of(tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    rows = [
        queue.row(INSERT, jack(1), TRANSACT_ID=1),
        queue.row(COMMIT, TRANSACT_ID=1, BLOBATR=0x0103),
    ]
    report = job.publish("1.dat", *rows)
    assert (job.keys(), reasons(report)) == (["idu=1"], {"commit": 1})
    (story,) = explain(Path(report.ledger), "idu=1")
    node, _, addresses = story.position.rpartition(":")
    (mark,) = explain(Path(report.ledger), f"{node}:{addresses.partition('@')[2]}")
    assert "its BLOBATR is 259" in mark.meaning


DEPT = """
[[sources.tables]]
number = 9
name = "dept"
columns = ["idu INTEGER", "fname CHAR(8)", "lname VARCHAR(12)", "photo BLOB(24)", "note CHAR(4)"]
key = ["idu"]
"""


def describe_dept(base: Path) -> None:
    text = (base / "job.toml").read_text()
    (base / "job.toml").write_text(text.replace("[dispatch]", f"{DEPT}[dispatch]"))


def test_a_refused_export_among_good_ones_is_published_once_it_can_be_read(tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    wrong = [queue.row(INSERT, jack(2), TRANSACT_ID=2, TABNUM_SRC=9)]
    wrong.append(queue.row(COMMIT, TRANSACT_ID=2))
    (tmp_path / "in" / "2.dat").write_bytes(binary(wrong))
    good = [queue.row(INSERT, jack(1), TRANSACT_ID=1), queue.row(COMMIT, TRANSACT_ID=1)]
    assert job.publish("1.dat", *good).reasons["rejected"] == {"row-image": 1}
    describe_dept(tmp_path)
    job.publish("3.dat", *good)
    assert job.keys() == ["idu=1", "idu=2"]


def test_a_rejected_transaction_of_several_exports_stays_rejected(tmp_path: Path) -> None:
    job, queue = QueueJob(tmp_path), Queue()
    good = [queue.row(INSERT, jack(1), TRANSACT_ID=1), queue.row(COMMIT, TRANSACT_ID=1)]
    job.publish("1.dat", *good, queue.row(INSERT, jack(3), TRANSACT_ID=2))
    rest = [queue.row(INSERT, jack(2), TRANSACT_ID=2, TABNUM_SRC=9)]
    rest.append(queue.row(COMMIT, TRANSACT_ID=2))
    assert job.publish("2.dat", *rest).outcomes["rejected"] == 2
    describe_dept(tmp_path)
    report = job.publish("3.dat", *good)
    assert (job.keys(), report.outcomes["held"]) == (["idu=1"], 0)
