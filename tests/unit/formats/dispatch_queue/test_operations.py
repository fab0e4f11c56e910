"""Parts, lists of TYP, destinations: from rows to what counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dispatch_queue_codes import CLOSING, COMMIT, DELETE, INSERT, ROLLBACK, UPDATE
from tests.support.dispatch_queue_files import (
    BIG,
    OPTIONS,
    Queue,
    Row,
    binary,
    delimited_text,
    image,
    jack,
    options,
    read,
    record_text,
    record_texts,
    texts_of_rows,
)

BIG_IMAGE = image(BIG, [4, "x", "y"])


# parts


def big(reading: str = "totals") -> list[Row]:
    return Queue().rows(UPDATE, BIG_IMAGE, BIG_IMAGE, TABNUM_SRC=8, reading=reading)


def enclose(rows: list[Row]) -> list[Row]:
    """With an INSERT before and a COMMIT behind."""
    queue = Queue(address=5 << 32)
    return [queue.row(INSERT, jack(1), SYSLOG_ADDR=1), *rows, queue.row(COMMIT)]


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 2, 0]])
def test_parts_lie_anywhere(order: list[int], tmp_path: Path) -> None:
    rows = big()
    mixed = [rows[place] for place in order]
    queue = Queue(address=5 << 32)
    between = [mixed[0], queue.row(INSERT, jack(2)), *mixed[1:], queue.row(COMMIT)]
    found = texts_of_rows(between, tmp_path, 100)
    assert sorted(found) == ["1 idu=2", "ignored commit", "ignored nothing-to-publish"]


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("reading", ["totals", "per-part"])
def test_a_hole_rejects_the_transaction(missing: int, reading: str, tmp_path: Path) -> None:
    rows = big(reading)
    del rows[missing]
    found = texts_of_rows(enclose(rows), tmp_path, parts=reading)
    if reading == "per-part" and missing == 2:
        # that the last part is missing cannot be seen; the image is too short then
        assert found == ["rejected held-back", "rejected row-image", "ignored commit"]
    else:
        assert found[0] == "rejected held-back"
        assert set(found[1:-1]) == {"rejected parts"}


def test_later_parts_may_repeat_the_totals_or_have_none(tmp_path: Path) -> None:
    rows = big()
    zero = [rows[0], *(row | {"LEN1": 0, "LEN2": 0} for row in rows[1:])]
    zero[1] |= {"TYP": 0, "TABNUM_SRC": 0, "ROWID_SRC": 0}
    assert texts_of_rows(enclose(zero), tmp_path)[1] == "ignored nothing-to-publish"


@pytest.mark.parametrize(
    ("part", "change"),
    [
        (1, {"LEN1": 7}),
        (1, {"LEN1": 0}),
        (2, {"TYP": DELETE}),
        (1, {"TABNUM_SRC": 7}),
        (2, {"ROWID_SRC": 10}),
        (0, {"LEN1": 3400, "LEN2": 1}),
        (0, {"LEN1": -1}),
    ],
)
def test_parts_that_contradict_are_rejected(
    part: int, change: dict[str, int], tmp_path: Path
) -> None:
    rows = [*big(), *(row | {"SYSLOG_ADDR": 99} for row in big())]
    rows[part] |= change
    found = texts_of_rows(enclose(rows), tmp_path)
    assert found == ["rejected held-back", "rejected parts", "rejected held-back", "ignored commit"]


def test_the_reading_of_the_lengths_is_that_of_the_file(tmp_path: Path) -> None:
    rows = [
        row | {"SYSLOG_ADDR": address, "TRANSACT_ID": address}
        for address, reading in ((10, "totals"), (20, "totals"), (30, "per-part"))
        for row in big(reading)
    ]
    queue = Queue(address=5 << 32)
    rows += [queue.row(COMMIT, TRANSACT_ID=number) for number in (10, 20, 30)]
    ends = ["ignored commit"] * 3
    published = "ignored nothing-to-publish"
    assert texts_of_rows(rows, tmp_path) == [published, published, "rejected parts", *ends]
    assert texts_of_rows(rows, tmp_path, parts="per-part") == [
        *["rejected parts"] * 2,
        published,
        *ends,
    ]


def test_a_file_that_does_not_tell_the_reading_asks_for_it(tmp_path: Path) -> None:
    rows = [*big(), *(row | {"SYSLOG_ADDR": 20} for row in big("per-part"))]
    records, _ = read(OPTIONS, binary(enclose(rows)), tmp_path)
    assert [record["reason"] for record in records[1:3]] == ["parts", "parts"]
    assert 'set parts = "totals" or "per-part"' in records[1]["detail"]


def test_a_row_whose_lengths_need_more_rows_is_rejected(tmp_path: Path) -> None:
    row = Queue().row(INSERT, jack(2), LEN1=3401)
    assert texts_of_rows(enclose([row]), tmp_path)[1] == "rejected parts"


def test_text_may_leave_out_what_is_not_used_but_no_more(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(INSERT, jack(2), DATA=jack(2)[:-1])]
    records, _ = read(OPTIONS, delimited_text([*rows, queue.row(COMMIT)]), tmp_path)
    assert record_texts(records[:2]) == ["rejected held-back", "rejected parts"]
    assert "DATA has 58" in records[1]["detail"]


# the same row again


def test_the_same_row_again_is_a_duplicate(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(COMMIT)]
    filler = [row | {"DATA": row["DATA"] + b"other filler"} for row in rows]
    found = texts_of_rows([*rows, *filler], tmp_path)
    assert found == ["1 idu=1", "ignored commit", "ignored duplicate", "ignored duplicate"]


@pytest.mark.parametrize("reading", ["totals", "per-part"])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_the_same_part_again_is_a_duplicate(reading: str, part: int, tmp_path: Path) -> None:
    rows = big(reading)
    again = rows[part] | {"DATA": rows[part]["DATA"] + b"filler" * (part == 2)}
    found = texts_of_rows(enclose([*rows, again]), tmp_path)
    assert found == [
        "1 idu=1",
        "ignored nothing-to-publish",
        "ignored duplicate",
        "ignored commit",
    ]
    again["DATA"] = b"?" + again["DATA"][1:]
    assert texts_of_rows(enclose([*rows, again]), tmp_path)[1] == "rejected double-record"
    text, _ = read(OPTIONS, delimited_text(enclose([*rows, rows[part]])), tmp_path)
    assert record_texts(text[1:3]) == [
        "ignored nothing-to-publish",
        "ignored duplicate",
    ]


def test_a_row_that_contradicts_another_rejects_both(tmp_path: Path) -> None:
    queue = Queue()
    row = queue.row(INSERT, jack(1))
    rows = [row, row | {"DATA": jack(2)}, queue.row(COMMIT)]
    assert texts_of_rows(rows, tmp_path) == ["rejected double-record", "ignored commit"]


# lists of TYP


@pytest.mark.parametrize("typ", [0, 6, 11, -1, 256])
def test_unknown_codes_are_rejected(typ: int, tmp_path: Path) -> None:
    row = Queue().row(typ, jack(2))
    assert texts_of_rows(enclose([row]), tmp_path)[1] == "rejected operation-code"


@pytest.mark.parametrize(
    ("typ", "first", "second"),
    [
        (DELETE, b"", b""),
        (INSERT, b"", b"x"),
        (INSERT, b"x", b"x"),
        (UPDATE, b"x", b""),
        (UPDATE, b"", b"x"),
        (CLOSING, b"x", b""),
        (ROLLBACK, b"x", b""),
        (COMMIT, b"", b"x"),
        (COMMIT, b"x", b"x"),
        (7, b"", b"x"),
    ],
)
def test_images_where_none_belong_are_rejected(
    typ: int, first: bytes, second: bytes, tmp_path: Path
) -> None:
    row = Queue().row(typ, first, second)
    assert texts_of_rows(enclose([row]), tmp_path)[:2] == ["rejected held-back", "rejected parts"]


def test_a_4_with_data_speaks_for_the_other_list_and_holds_its_transaction(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(4, jack(1), BLOBATR=4)]
    assert texts_of_rows(rows, tmp_path) == ["held open-transaction"] * 2
    rows.append(queue.row(COMMIT, BLOBATR=77))
    rows += [queue.row(INSERT, jack(2), TRANSACT_ID=2), queue.row(COMMIT, TRANSACT_ID=2)]
    for wanted in (1, 100):
        found = texts_of_rows(rows, tmp_path, wanted)
        held = ["held open-transaction"] * 2
        assert found == [*held, "ignored commit", "1 idu=2", "ignored commit"]
    records, _ = read(options(blobs="ignore"), binary(rows), tmp_path)
    assert "4 with data, and 4 without data or 7 to 10" in records[2]["detail"]


def test_a_5_holds_its_transaction(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1)),
        queue.row(CLOSING),
        queue.row(INSERT, jack(2)),
        queue.row(COMMIT),
    ]
    held = "held open-transaction"
    assert texts_of_rows(rows, tmp_path) == [held, held, "1 idu=2", "ignored commit"]


def test_evidence_of_both_lists_holds_the_transactions_concerned(tmp_path: Path) -> None:
    queue = Queue()
    rows = []
    for number, (typ, second) in enumerate([(4, b""), (8, b"x"), (INSERT, b"")], 1):
        rows.append(queue.row(typ, jack(number), second, TRANSACT_ID=number, BLOBATR=4))
        rows.append(queue.row(COMMIT, TRANSACT_ID=number))
    for wanted in (1, 100):
        found = texts_of_rows(rows, tmp_path, wanted)
        assert [found[0], found[2], found[4]] == [*["held open-transaction"] * 2, "1 idu=3"]


@pytest.mark.parametrize("typ", [7, 8, 9])
def test_operations_on_blobs_name_their_column(typ: int, tmp_path: Path) -> None:
    queue = Queue()
    row = queue.row(typ, jack(1), b"more", BLOBATR=-256 + 4)
    assert texts_of_rows([row, queue.row(COMMIT)], tmp_path)[0] == "8 idu=1"
    assert texts_of_rows([row, queue.row(COMMIT)], tmp_path, blobs="ignore")[0].endswith(
        "to-publish"
    )
    row["BLOBATR"] = 6
    assert texts_of_rows([row, queue.row(COMMIT)], tmp_path)[0] == "rejected row-image"


@pytest.mark.parametrize("typ", [7, 8, 9])
def test_nothing_is_looked_at_in_operations_on_blobs_that_are_ignored(
    typ: int, tmp_path: Path
) -> None:
    queue = Queue()
    blobs = [
        queue.row(typ, b"no image", BLOBATR=6),
        queue.row(typ, TABNUM_SRC=99),
        queue.row(typ, b"x", LEN1=4000),
        queue.row(typ, b"x", EXTDATA=1),
    ]
    rows = [queue.row(INSERT, jack(1)), *blobs, queue.row(COMMIT)]
    ignored = ["ignored nothing-to-publish"] * len(blobs)
    assert texts_of_rows(rows, tmp_path, blobs="ignore") == ["1 idu=1", *ignored, "ignored commit"]
    rows[0]["LEN1"] -= 1
    held_back = ["rejected held-back"] * len(blobs)
    assert texts_of_rows(rows, tmp_path, blobs="ignore")[1:-1] == held_back


def test_a_4_that_is_wrong_is_no_ignored_blob(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(4, b"x", LEN1=4000), queue.row(COMMIT)]
    assert texts_of_rows(rows, tmp_path, blobs="ignore")[:2] == [
        "rejected held-back",
        "rejected parts",
    ]


# commits


def test_a_commit_may_have_the_address_of_an_operation(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(COMMIT, SYSLOG_ADDR=queue.address)]
    assert texts_of_rows(rows, tmp_path) == ["1 idu=1", "ignored commit"]


def test_an_operation_above_its_commit_says_where_that_is(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(COMMIT), queue.row(INSERT, jack(2))]
    records, _ = read(OPTIONS, binary(rows), tmp_path)
    assert record_text(records[2]) == "held open-transaction"
    assert records[2]["detail"].endswith(
        "the last COMMIT or ROLLBACK of its transaction number is at 3.1200"
    )


def test_a_broken_4_is_no_evidence_of_the_other_list(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(8, jack(1), b"x", BLOBATR=4),
        queue.row(COMMIT),
        queue.row(COMMIT, b"x", TRANSACT_ID=2),
    ]
    assert texts_of_rows(rows, tmp_path) == ["8 idu=1", "ignored commit", "held open-transaction"]


def test_a_commit_below_its_operations_is_told(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(COMMIT, SYSLOG_ADDR=5)]
    records, _ = read(OPTIONS, binary(rows), tmp_path)
    assert record_texts(records) == [
        "held open-transaction",
        "ignored nothing-to-commit",
    ]
    assert "operations of its transaction have higher addresses" in records[1]["detail"]


def test_a_number_used_again_is_another_transaction(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1)),
        queue.row(COMMIT),
        queue.row(INSERT, jack(2)[:-1]),
        queue.row(COMMIT),
        queue.row(INSERT, jack(3)),
        queue.row(ROLLBACK),
        queue.row(INSERT, jack(4)),
    ]
    for wanted in (1, 100):
        found = texts_of_rows(rows, tmp_path, wanted)
        assert found[0::2] == [
            "1 idu=1",
            "rejected row-image",
            "ignored rollback",
            "held open-transaction",
        ]


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ("changed", "2 idu=1 fname=Jack>Jim"),
        ("replaced", "3 idu=1 fname=Jim"),
        ("query-back", "6 idu=1"),
    ],
)
def test_what_an_update_gives(update: str, expected: str, tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(UPDATE, jack(1), jack(1, "Jim")), queue.row(COMMIT)]
    records, _ = read(options(update=update), binary(rows), tmp_path)
    assert record_text(records[0]) == expected


@pytest.mark.parametrize("zone", ["UTC", "Europe/Moscow", None])
def test_times_are_those_of_the_zone(zone: str | None, tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(COMMIT)]
    records, _ = read(options(time_zone=zone), binary(rows), tmp_path)
    hours = {"UTC": 12, "Europe/Moscow": 9}.get(zone or "")
    midnight = 1704067200_000000
    expected = None if hours is None else midnight + hours * 3_600_000_000 + 500_000
    assert records[0]["event_time"] == expected
