"""Change files that somebody will feed to the program some day, and what must come of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from publisher.errors import FatalError
from publisher.formats.files.options import SnapshotOptions
from publisher.model.change import Outcome
from tests.support.change_table_files import options, read, record, seq
from tests.support.event_log_files import Row, csv_text

ALL = range(10)
GOOD: list[Row] = [
    record(1, "I", ALL, idu="1", fname="Ann"),
    record(2, "B", idu="1", fname="Ann"),
    record(2, "U", [1], idu="1", fname="Eve"),
    record(3, "D", [0], idu="1"),
]
MASK, SEQ, OPER = "header__change_mask", "header__change_seq", "header__change_oper"


class ChangeTableCase(NamedTuple):
    """A file: what it holds, and records and rejects that come of it, or why it is refused."""

    name: str
    content: str | bytes
    records: int = 0
    rejected: dict[str, int] = {}  # noqa: RUF012 - never changed
    refused: str = ""


def with_bad_rows(*rows: Row, **values: str | None) -> str:
    return csv_text([*GOOD, *(row | values for row in rows)])


def every(name: str, value: str) -> str:
    return csv_text([row | {name: value} for row in GOOD])


ONE = record(4, "U", [1], idu="1", fname="x")
CASES = [
    ChangeTableCase("empty", "", refused="change_seq"),
    ChangeTableCase("header only", csv_text(GOOD).splitlines()[0] + "\n"),
    ChangeTableCase("one record", csv_text(GOOD[:1]), 1),
    ChangeTableCase("no final line end", csv_text(GOOD)[:-1], 4),
    ChangeTableCase("cut in a record", csv_text(GOOD)[:-30], 4, {"broken-record": 1}),
    ChangeTableCase("byte order mark, CRLF", ("\ufeff" + csv_text(GOOD)).replace("\n", "\r\n"), 4),
    ChangeTableCase(
        "a field too many", csv_text(GOOD) + '"' + '","' * 17 + '"\n', 5, {"broken-record": 1}
    ),
    ChangeTableCase(
        "no UTF-8",
        csv_text(GOOD).encode().replace(b"Eve", b"\xe9ve"),
        4,
        {"broken-record": 1, "before-image-alone": 1},
    ),
    ChangeTableCase(
        "unknown operation", with_bad_rows(ONE, **{OPER: "X"}), 5, {"change-operation": 1}
    ),
    ChangeTableCase(
        "letter against word", with_bad_rows(ONE, **{OPER: "D"}), 5, {"change-operation": 1}
    ),
    ChangeTableCase(
        "no operation at all",
        with_bad_rows(ONE, **{OPER: None, "header__operation": None}),
        5,
        {"change-operation": 1},
    ),
    ChangeTableCase(
        "sequence as a float",
        with_bad_rows(ONE, **{SEQ: "2.0240318104726E+34"}),
        5,
        {"change-seq": 1},
    ),
    ChangeTableCase(
        "sequence one short", with_bad_rows(ONE, **{SEQ: seq(4)[1:]}), 5, {"change-seq": 1}
    ),
    ChangeTableCase(
        "sequence one long", with_bad_rows(ONE, **{SEQ: "0" + seq(4)}), 5, {"change-seq": 1}
    ),
    ChangeTableCase("sequences all NULL", every(SEQ, ""), 4, {"change-seq": 4}),
    ChangeTableCase(
        "mask beyond the table", with_bad_rows(ONE, **{MASK: "FF" * 200}), 5, {"change-mask": 1}
    ),
    ChangeTableCase("huge mask", with_bad_rows(ONE, **{MASK: "0" * 100_000 + "0100"}), 5),
    ChangeTableCase(
        "mask of a header column", with_bad_rows(ONE, **{MASK: "0101"}), 5, {"change-mask": 1}
    ),
    ChangeTableCase(
        "mask that is not hex", with_bad_rows(ONE, **{MASK: "b'\\x01'"}), 5, {"change-mask": 1}
    ),
    ChangeTableCase("masks all of header columns", every(MASK, "01"), refused="header_columns"),
    ChangeTableCase("masks all beyond", every(MASK, "FF" * 200), refused="header_columns"),
    ChangeTableCase("key NULL", with_bad_rows(ONE, idu=None), 5, {"table-key": 1}),
    ChangeTableCase(
        "no time", with_bad_rows(ONE, header__timestamp="yesterday"), 5, {"event-time": 1}
    ),
    ChangeTableCase(
        "year 0", with_bad_rows(ONE, header__timestamp="0000-00-00 00:00:00"), 5, {"event-time": 1}
    ),
    ChangeTableCase(
        "header twice", csv_text(GOOD).replace("header__operation", SEQ, 1), refused="twice"
    ),
    ChangeTableCase("other prefix", csv_text(GOOD).replace("header__", "hdr_"), refused="prefix"),
    ChangeTableCase("before images only", csv_text([GOOD[1]]), 1, {"before-image-alone": 1}),
    ChangeTableCase("the same update twice", with_bad_rows(GOOD[2]), 5),
    ChangeTableCase("the same before image twice", with_bad_rows(GOOD[1]), 5),
    ChangeTableCase(
        "another before image", with_bad_rows(GOOD[1], fname="no"), 5, {"double-record": 3}
    ),
]


@pytest.mark.parametrize("block_size", [64, 1 << 20])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile_input_gives_what_its_case_says(
    tmp_path: Path, case: ChangeTableCase, block_size: int
) -> None:
    path = tmp_path / "usr__ct.csv"
    content = case.content.encode() if isinstance(case.content, str) else case.content
    path.write_bytes(content)
    snapshot = SnapshotOptions(block_size=block_size)
    if case.refused:
        with pytest.raises(FatalError, match=case.refused) as refusal:
            read(path, options(), snapshot)
        assert str(path) in refusal.value.message
        return
    found = read(path, options(header_columns=7), snapshot)
    assert sum(int(str(one["records"])) for one in found) == case.records
    reasons = Counter(str(one["reason"]) for one in found if one["outcome"] == Outcome.REJECTED)
    assert dict(reasons) == case.rejected


def test_the_wrong_order_rejects_and_never_guesses(tmp_path: Path) -> None:
    path = tmp_path / "usr__ct.csv"
    path.write_text(csv_text(GOOD))
    found = read(path, options(mask_order="lsb", header_columns=7, key_from_deletes=False))
    assert [one["reason"] for one in found if one["outcome"]] == ["change-mask"] * 3


NO_TEXT = json.dumps({"dataInfo": {"columns": [{"ordinal": 1, "name": 5}]}})
NO_TABLE = json.dumps({"dataInfo": {"sourceTable": ["usr"], "columns": []}})
DEEP = '{"dataInfo": ' + "[" * 200_000 + "]" * 200_000 + "}"
BROKEN_DFM = [
    NO_TEXT,
    NO_TABLE,
    DEEP,
    "",
    "{",
    "[]",
    "{}",
    '{"dataInfo": {"columns": 3}}',
    '{"dataInfo": {"columns": [1]}}',
]


@pytest.mark.parametrize("content", BROKEN_DFM, ids=range(len(BROKEN_DFM)))
def test_metadata_that_cannot_be_read_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "usr__ct.csv"
    path.write_text(csv_text(GOOD))
    path.with_suffix(".dfm").write_text(content)
    with pytest.raises(FatalError, match=r"usr__ct\.dfm"):
        read(path)
