"""The dispatch-queue source from files to changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dispatch_queue_codes import COMMIT, DELETE, INSERT, ROLLBACK, UPDATE
from tests.support.dispatch_queue_files import (
    BIG,
    OPTIONS,
    USR,
    Queue,
    binary,
    delimited_text,
    image,
    jack,
    options,
    read,
    record_text,
    record_texts,
)


def test_operations_become_changes_at_their_commit(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1)),
        queue.row(UPDATE, jack(1), jack(1, "Jim", None)),
        queue.row(UPDATE, jack(1), jack(2)),
        queue.row(UPDATE, jack(2), jack(2)),
        queue.row(DELETE, jack(2)),
        queue.row(8, jack(2), b"more", BLOBATR=0x0204),
        queue.row(COMMIT),
    ]
    records, framed = read(OPTIONS, binary(rows), tmp_path)
    assert record_texts(records) == [
        "1 idu=1 fname=Jack lname=Smith note=n",
        "2 idu=1 fname=Jack>Jim lname=Smith>NULL",
        "4 idu=1",
        "1 idu=2 fname=Jack lname=Smith note=n",
        "ignored nothing-to-publish",
        "4 idu=2",
        "8 idu=2 photo",
        "ignored commit",
    ]
    assert framed == 7 == sum(record["records"] for record in records)
    assert {record["transaction"] for record in records} == {"1"}
    assert records[0]["event_time"] == 1704110400_500000


@pytest.mark.parametrize("stride", [3596, 3600])
@pytest.mark.parametrize("reading", ["totals", "per-part"])
def test_parts_are_joined(stride: int, reading: str, tmp_path: Path) -> None:
    queue = Queue()
    one, two = (image(BIG, [4, "x" * 1999, name]) for name in ("old", "new"))
    rows = [
        *queue.rows(INSERT, one, TABNUM_SRC=8, reading=reading),
        *queue.rows(UPDATE, one, two, TABNUM_SRC=8, reading=reading),
        queue.row(COMMIT),
    ]
    assert [row["EXTDATA"] for row in rows] == [0, 1, 0, 1, 2, 0]
    records, _ = read(OPTIONS, binary(rows, stride=stride), tmp_path)
    assert [record_text(record)[-9:] for record in records] == [
        "xxx b=old",
        "b=old>new",
        "ed commit",
    ]
    assert [record["records"] for record in records] == [2, 3, 1]


def test_text_gives_the_same_as_binary(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1, "Жак")),
        *queue.rows(INSERT, image(BIG, [4, "x" * 1999, "b"]), TABNUM_SRC=8),
        queue.row(COMMIT),
    ]
    from_binary, _ = read(OPTIONS, binary(rows), tmp_path)
    from_text, framed = read(OPTIONS, delimited_text(rows), tmp_path)
    assert record_texts(from_text) == record_texts(from_binary)
    assert framed == 4
    assert record_text(from_text[0]) == "1 idu=1 fname=Жак lname=Smith note=n"


def test_transactions_go_by_their_commits(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1), TRANSACT_ID=1),
        queue.row(INSERT, jack(2), TRANSACT_ID=2),
        queue.row(INSERT, jack(3), TRANSACT_ID=3),
        queue.row(COMMIT, TRANSACT_ID=2),
        queue.row(ROLLBACK, TRANSACT_ID=3),
        queue.row(COMMIT, TRANSACT_ID=1),
        queue.row(INSERT, jack(4), TRANSACT_ID=4),
        queue.row(COMMIT, TRANSACT_ID=5),
    ]
    for wanted in (1, 3, 100):
        records, _ = read(OPTIONS, binary(rows), tmp_path, wanted)
        assert [record_text(record)[:21] for record in records] == [
            "1 idu=1 fname=Jack ln",
            "1 idu=2 fname=Jack ln",
            "ignored rollback",
            "ignored commit",
            "ignored rollback",
            "ignored commit",
            "held open-transaction",
            "ignored nothing-to-co",
        ]
        published = [record for record in records if record["outcome"] is None]
        ranked = sorted(published, key=lambda r: (r["rank"], r["high"], r["low"], r["ordinal"]))
        assert [record["key"] for record in ranked] == ["idu=2", "idu=1"]


def test_a_rejected_operation_holds_back_its_transaction(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1)),
        queue.row(INSERT, jack(2)[:-1]),
        queue.row(COMMIT),
        queue.row(INSERT, jack(3), TRANSACT_ID=2),
        queue.row(COMMIT, TRANSACT_ID=2),
    ]
    records, _ = read(OPTIONS, binary(rows), tmp_path, 100)
    assert [record_text(record)[:20] for record in records] == [
        "rejected held-back",
        "rejected row-image",
        "ignored commit",
        "1 idu=3 fname=Jack l",
        "ignored commit",
    ]


def test_without_a_catalogue_the_envelope_and_the_images_are_shown(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(UPDATE, b"\x01\x02", b"\x03"), queue.row(COMMIT)]
    records, _ = read(options(tables=()), binary(rows), tmp_path)
    assert record_texts(records) == ["rejected row-image", "ignored commit"]
    raw = records[0]["raw"]
    assert '"first": "0102", "second": "03"' in raw
    assert '"DST_TABLE": "USR"' in raw


def test_usr_is_described() -> None:
    assert len(jack(1)) == sum((1 + 4, 1 + 8, 1 + 14, 1 + 24, 1 + 4))
    assert USR.parse_columns()[2].capacity == 12
