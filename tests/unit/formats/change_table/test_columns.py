"""Places of header columns, first records that name columns, and the order of masks."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.formats.files.options import SnapshotOptions
from tests.support.change_table_files import (
    DATA,
    HEADERS,
    change_text,
    options,
    read,
    record,
    write,
)
from tests.support.event_log_files import Row, csv_text

PARTITION = {"header__partition_name": "20170313T123000_20170313T170000"}
WHOLE, CHANGED = range(10), [1, 4]


def rows_of(headers: int) -> list[Row]:
    """An INSERT, an UPDATE and a DELETE whose masks count this number of header columns."""
    return [
        record(1, "I", WHOLE, headers=headers, idu="1", fname="Ann") | PARTITION,
        record(2, "U", CHANGED, headers=headers, idu="1", fname="Eve") | PARTITION,
        record(3, "D", [0], headers=headers, idu="1") | PARTITION,
    ]


@pytest.mark.parametrize("headers", [7, 8])
@pytest.mark.parametrize("name", ["t__ct.csv", "t__ct.parquet", "t__ct.jsonl"])
def test_a_partition_column_may_be_last(tmp_path: Path, headers: int, name: str) -> None:
    found = read(write(tmp_path / name, rows_of(headers)))
    assert change_text(found[1]) == (3, "idu=1", ("fname", "Eve"), ("c05", None))
    assert [one["event_type"] for one in found] == [1, 3, 4]
    assert "header__partition_name" not in str(found[0]["columns"])


def test_all_header_columns_may_be_last(tmp_path: Path) -> None:
    rows = [{name: row[name] for name in (*DATA, *HEADERS)} for row in rows_of(7)]
    found = read(write(tmp_path / "t__ct.csv", rows))
    assert change_text(found[1]) == (3, "idu=1", ("fname", "Eve"), ("c05", None))


def test_header_columns_between_data_columns_are_refused(tmp_path: Path) -> None:
    order = (*HEADERS[:5], *DATA[:3], *HEADERS[5:], *DATA[3:])
    rows = [{name: row[name] for name in order} for row in rows_of(7)]
    with pytest.raises(FatalError, match="between data columns"):
        read(write(tmp_path / "t__ct.csv", rows))


@pytest.mark.parametrize("header", ["auto", "no"])
def test_a_value_that_equals_a_column_name_is_no_header(tmp_path: Path, header: str) -> None:
    rows = [record(1, "I", WHOLE, idu="1", fname="fname"), record(2, "D", [0], idu="1")]
    path = tmp_path / "t__ct.csv"
    path.write_text(csv_text(rows, header=False))
    reading = SnapshotOptions(header=header)  # type: ignore[arg-type]
    found = read(path, options(columns=tuple(rows[0])), reading)
    assert [one["event_type"] for one in found] == [1, 4]
    assert ("fname", "fname") in change_text(found[0])


def test_a_header_is_read_as_the_setting_says(tmp_path: Path) -> None:
    rows = [record(1, "I", WHOLE, idu="1"), record(2, "D", [0], idu="1")]
    path = tmp_path / "t__ct.csv"
    path.write_text(csv_text(rows))
    told_ = options(columns=tuple(rows[0]))
    assert len(read(path, told_, SnapshotOptions(header="yes"))) == 2
    found = read(path, told_, SnapshotOptions(header="no"))
    assert [one["reason"] for one in found if one["outcome"]] == ["change-seq"]
    path.write_text(csv_text(rows, header=False))
    with pytest.raises(FatalError, match="description"):
        read(path, told_, SnapshotOptions(header="yes"))


@pytest.mark.parametrize("key", [("d00", "d17"), ("d01", "d16")])
def test_deletes_show_the_order_of_masks_if_the_key_is_known(
    tmp_path: Path, key: tuple[str, ...]
) -> None:
    """The mask sets bits 4 and 21 in one order, bits 5 and 20 in the other; there are 4 header columns."""
    headers = {name: record(1, "D", [])[name] for name in HEADERS[:4]}
    row = headers | {f"d{place:02}": str(place) for place in range(24)}
    path = write(tmp_path / "t__ct.csv", [row | {"header__change_mask": "200010"}])
    with pytest.raises(FatalError, match="mask_order"):
        read(path, options(key=(), key_from_deletes=False))
    (found,) = read(path, options(key=key))
    assert found["key"] == "+".join(f"{name}={int(name[1:])}" for name in key)
