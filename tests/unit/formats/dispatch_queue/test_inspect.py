"""Output of ``inspect`` for DISPATCH_QUEUE: changes in the order of commits, held ones with values."""

from __future__ import annotations

import json
from pathlib import Path

from publisher.formats.contract import Context
from publisher.formats.dispatch_queue import DispatchQueue
from publisher.formats.dispatch_queue.rows.layout import OperationCode
from publisher.model.catalogue import JobCatalogue
from publisher.reports.changes import in_order
from tests.support.dispatch_queue_codes import CLOSING, COMMIT, DELETE, INSERT, UPDATE
from tests.support.dispatch_queue_files import (
    OPTIONS,
    Queue,
    Record,
    binary,
    jack,
    read,
    record_text,
)
from tests.support.prepare import prepare_here
from tests.support.workbench import Workbench


def inspect_queue(data: bytes, folder: Path) -> list[Record]:
    path = folder / "queue.dat"
    path.write_bytes(data)
    source = DispatchQueue(OPTIONS)
    context = Context(0, 4, JobCatalogue(()))
    with prepare_here(source, [path], 1, context.catalogue) as prepared:
        return list(in_order(prepared.read(0, context), source.format))


def test_changes_come_in_the_order_of_their_commits(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1), TRANSACT_ID=1),
        queue.row(INSERT, jack(2), TRANSACT_ID=2),
        queue.row(DELETE, jack(3), TRANSACT_ID=1),
        queue.row(COMMIT, TRANSACT_ID=2),
        queue.row(INSERT, jack(4), TRANSACT_ID=3),
        queue.row(COMMIT, TRANSACT_ID=1),
    ]
    records = inspect_queue(binary(rows), tmp_path)
    assert [" ".join(record_text(each).split()[:2]) for each in records] == [
        *("1 idu=2", "1 idu=1", "4 idu=3"),
        *("ignored commit", "held open-transaction", "ignored commit"),
    ]
    assert [each["row"] for each in records] == [2, 1, 3, 4, 5, 6]


def test_held_operations_have_their_values(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1, "Ann")),
        queue.row(UPDATE, jack(2, "Jack"), jack(2, "Jim")),
        queue.row(DELETE, jack(3)),
        queue.row(UPDATE, jack(4, "Bob"), jack(5, "Bob")),
        queue.row(OperationCode.INSERT_BLOB, jack(6), BLOBATR=4),
    ]
    records, framed = read(OPTIONS, binary(rows), tmp_path)
    assert framed == sum(each["records"] for each in records) == 5
    assert {each["reason"] for each in records} == {"open-transaction"}
    assert all(each["detail"] for each in records)
    shown = [record_text(each | {"outcome": None}) for each in records]
    assert shown == [
        "1 idu=1 fname=Ann lname=Smith note=n",
        "2 idu=2 fname=Jack>Jim",
        "4 idu=3",
        "4 idu=4",
        "1 idu=5 fname=Bob lname=Smith note=n",
        "8 idu=6 photo",
    ]
    records, _ = read(OPTIONS, binary([*rows, queue.row(COMMIT)]), tmp_path)
    assert [record_text(each) for each in records if each["outcome"] is None] == shown


def test_a_held_update_without_a_difference_shows_its_row(tmp_path: Path) -> None:
    row = Queue().row(UPDATE, jack(1), jack(1))
    (record,), framed = read(OPTIONS, binary([row]), tmp_path)
    assert (framed, record["records"]) == (1, 1)
    assert (record["outcome"], record["reason"]) == (4, "open-transaction")
    assert record["detail"].endswith(
        "; with a COMMIT it would be ignored: the images differ in no published column"
    )
    values = "fname=Jack>Jack lname=Smith>Smith note=n>n"
    assert record_text(record | {"outcome": None}) == f"2 idu=1 {values}"


def test_operations_of_an_undecidable_transaction_have_their_values(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(UPDATE, jack(1), jack(2)), queue.row(CLOSING)]
    records, _ = read(OPTIONS, binary(rows), tmp_path)
    assert {each["outcome"] for each in records} == {4}
    assert [each["key"] for each in records] == ["idu=1", "idu=2", None]
    assert records[0]["detail"] == records[1]["detail"]


def test_a_changed_key_is_deleted_before_it_is_added(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(UPDATE, jack(1), jack(2)), queue.row(COMMIT)]
    for length in (2, 3):
        records = inspect_queue(binary(rows[:length]), tmp_path)
        assert [each["key"] for each in records][:3] == ["idu=1", "idu=1", "idu=2"]
        assert [each["event_type"] for each in records][:3] == [1, 4, 1]


def test_without_settings_images_are_shown_in_hex_with_their_lengths(tmp_path: Path) -> None:
    queue, bench = Queue(), Workbench(tmp_path)
    old, new = jack(1, "Ann"), jack(1, "Jim")
    bench.write("queue.dat", binary([queue.row(UPDATE, old, new), queue.row(COMMIT)]))
    done = bench.run("inspect", "queue.dat", "--format", "dispatch-queue")
    shown = [json.loads(line) for line in done.out.splitlines()]
    (raw,) = [json.loads(each["raw"]) for each in shown if each.get("raw")]
    assert (raw["first"], raw["second"]) == (old.hex(), new.hex())
    assert (raw["LEN1"], raw["LEN2"]) == (len(old), len(new))
