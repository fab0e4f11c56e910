"""JSON messages of the product that writes change tables (reference, §6)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.formats.change_table.source import ChangeTable
from publisher.formats.files.file_splits import Split
from publisher.model.catalogue import JobCatalogue
from tests.support.change_table_files import change_text, options, read, seq
from tests.support.prepare import prepare_here
from tests.support.raw_records import raw_record

COLUMNS = [f"c{n:02}" for n in range(1, 17)]


def message(
    number: int | None,
    operation: str,
    data: dict[str, object] | None,
    before: dict[str, object] | None = None,
    **headers: object,
) -> dict[str, object]:
    return {
        "data": data,
        "beforeData": before,
        "headers": {
            "operation": operation,
            "changeSequence": None if number is None else seq(number),
            "timestamp": "2023-03-21T21:34:19.511",
            "streamPosition": "x",
            "transactionId": "0A",
            "changeMask": None,
            "columnMask": None,
            **headers,
        },
    }


def row(**values: object) -> dict[str, object]:
    return dict.fromkeys(COLUMNS) | {"c01": 1} | values


def meant(tmp_path: Path, *messages: object, **changes: object) -> list[object]:
    path = tmp_path / "messages.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in messages))
    given = {"layout": "messages", "key": ("c01",)} | changes
    return [change_text(one) for one in read(path, options(**given), wanted=2)]


def test_each_operation_gives_its_event_type(tmp_path: Path) -> None:
    update = message(
        2,
        "UPDATE",
        row(c08="new", c16=None),
        row(c08="old", c16="was"),
        changeMask="008080",
        columnMask="00FFFF",
    )
    found = meant(
        tmp_path,
        message(1, "INSERT", row(c02="x"), columnMask="000003"),
        {"magic": "atMSG", "type": "DT", "headers": None, "message": update},
        message(3, "DELETE", row(), None, changeMask="01"),
        message(4, "DELETE", None, row()),
        message(5, "UPDATE", row(c01=2), row(c01=1), changeMask="01", columnMask="00FFFF"),
        message(None, "REFRESH", row()),
    )
    assert found == [
        ("change-operation",),
        (1, "c01=1", ("c01", "1"), ("c02", "x")),
        (2, "c01=1", ("c08", "old", "new"), ("c16", "was", None)),
        (4, "c01=1"),
        (4, "c01=1"),
        (4, "c01=1"),
        (1, "c01=2", *((name, "2" if name == "c01" else None) for name in COLUMNS)),
    ]


@pytest.mark.parametrize("images", [None, "full", "sparse"])
def test_a_column_outside_the_column_mask_is_no_null_of_a_new_key(
    tmp_path: Path, images: str | None
) -> None:
    """NULL outside the columnMask is not a value, even if ``images`` is full (reference, §6, columnMask)."""
    update = message(
        5, "UPDATE", row(c01=2), row(c01=1, c03="b"), changeMask="0001", columnMask="0003"
    )
    deleted, added = meant(tmp_path, update, mask_order="msb", images=images)
    assert deleted == (4, "c01=1")
    assert added == (1, "c01=2", ("c01", "2"), ("c02", None), ("c03", "b"))


def test_the_order_of_the_manual_is_inferred_too(tmp_path: Path) -> None:
    update = message(2, "UPDATE", row(c09="new"), row(c09="old"), changeMask="000100")
    assert meant(tmp_path, update) == [(2, "c01=1", ("c09", "old", "new"))]
    lsb = message(2, "UPDATE", row(c09="new"), row(c09="old"), changeMask="0001")
    assert meant(tmp_path, lsb) == [(2, "c01=1", ("c09", "old", "new"))]
    doubtful = message(2, "UPDATE", row(c09="new"), changeMask="0001")
    with pytest.raises(FatalError, match="mask_order"):
        meant(tmp_path, doubtful)


def test_lines_that_are_no_messages_are_rejected_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    lines = [
        '{"a": 1}',
        "nothing",
        json.dumps(message(1, "INSERT", None)),
        '{"headers": {}, "data": 3}',
    ]
    path.write_text("\n".join(lines))
    source = ChangeTable(options(layout="messages"))
    found = read(path, source.options)
    assert [change_text(one) for one in found] == [("broken-record",)] * 4
    with prepare_here(source, [path], 1, JobCatalogue(())) as prepared:
        (split,) = prepared.splits
    assert isinstance(split, Split)
    for one in found:
        assert one["raw"] == raw_record(source, split, int(str(one["row"])))


def test_messages_name_their_table(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    one = message(1, "DELETE", row(), schema="hr", table="people")
    path.write_text(json.dumps(one))
    (found,) = read(path, options(layout="messages", key=("c01",), source_table=None))
    assert (found["schema"], found["table"]) == ("hr", "people")


def test_a_message_without_table_or_key_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    lines = [
        message(1, "INSERT", row(), table="people"),
        message(2, "INSERT", row()),
        message(3, "INSERT", {"c02": "1"}, table="people"),
        message(4, "INSERT", row(), table='"people'),
        message(5, "DELETE", row(), table="people"),
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = ChangeTable(options(layout="messages", key=("c01",), source_table=None))
    found = read(path, source.options)
    reasons = [change_text(one)[0] for one in sorted(found, key=lambda one: int(str(one["row"])))]
    assert reasons == [1, "table-name", "table-key", "table-name", 4]
    with prepare_here(source, [path], 1, JobCatalogue(())) as prepared:
        (split,) = prepared.splits
    assert isinstance(split, Split)
    for one in found:
        assert one["raw"] in (None, raw_record(source, split, int(str(one["row"]))))
