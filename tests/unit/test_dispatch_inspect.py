"""What ``inspect`` shows of DISPATCH_QUEUE: changes in the order of commits, held ones with values."""

from __future__ import annotations

from pathlib import Path

from publisher.catalogue import JobCatalogue
from publisher.inspection import in_order
from publisher.sources.contract import Context
from publisher.sources.dispatch_queue import DispatchQueue
from publisher.surveys import surveyed_source
from tests.unit.dispatch_queue_codes import COMMIT, DELETE, INSERT, UPDATE
from tests.unit.dispatch_queue_files import OPTIONS, Queue, Record, binary, jack, read, short


def inspected(data: bytes, folder: Path) -> list[Record]:
    path = folder / "queue.dat"
    path.write_bytes(data)
    source = DispatchQueue(OPTIONS)
    context = Context(0, 4, JobCatalogue(()))
    (split,) = source.splits([path], 1)
    reader = surveyed_source(source, [split], context)
    return list(in_order(reader.read(split, 0, context), source.format))


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
    records = inspected(binary(rows), tmp_path)
    assert [" ".join(short(each).split()[:2]) for each in records] == [
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
        queue.row(UPDATE, jack(4), jack(5)),
    ]
    records, framed = read(OPTIONS, binary(rows), tmp_path)
    assert framed == sum(each["records"] for each in records) == 4
    assert {each["reason"] for each in records} == {"open-transaction"}
    assert all(each["detail"] for each in records)
    shown = [short(each | {"outcome": None}) for each in records[:3]]
    assert shown == ["1 idu=1 fname=Ann lname=Smith note=n", "2 idu=2 fname=Jack>Jim", "4 idu=3"]
    assert (records[3]["key"], records[3]["columns"]) == ("idu=4", None)
    records, _ = read(OPTIONS, binary([*rows, queue.row(COMMIT)]), tmp_path)
    published = [short(each) for each in records if each["outcome"] is None]
    assert published[:3] == shown
