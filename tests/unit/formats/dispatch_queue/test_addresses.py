"""Log addresses have no sign; names of fixed width end with blanks or zeros."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.formats.dispatch_queue import DispatchQueue, DispatchQueueOptions
from publisher.formats.dispatch_queue.dispatch_attrs import with_attributes
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.positions import parse_position
from publisher.runs import replay
from tests.support.dispatch_queue_codes import COMMIT, INSERT
from tests.support.dispatch_queue_files import (
    OPTIONS,
    Queue,
    binary,
    delimited_text,
    jack,
    options,
    read,
)
from tests.support.dispatch_queue_jobs import QUEUE
from tests.support.local_engine import EngineSwitch

HALF = 1 << 63
ADDRESSES = [HALF - 200, HALF - 100, HALF, HALF + 100, (1 << 64) - 1]


def test_operations_are_published_in_the_order_of_unsigned_addresses(
    tmp_path: Path, local_engine: EngineSwitch
) -> None:
    queue = Queue(address=HALF - 300)
    rows = [queue.row(INSERT, jack(number)) for number in (1, 2, 3, 4)]
    (tmp_path / "0.dat").write_bytes(
        _with_signed_addresses([*rows[2:], *rows[:2], queue.row(COMMIT)])
    )
    (tmp_path / "job.toml").write_text(QUEUE.format(more="", lanes=1))
    replay.replay(load(tmp_path / "job.toml"), [tmp_path / "0.dat"], str(tmp_path / "out"))
    (part,) = (tmp_path / "out").glob("part-*.xds")
    keys = [line.partition("idu=")[2][0] for line in part.read_text().splitlines()]
    assert keys == ["1", "2", "3", "4"]


def _with_signed_addresses(rows: list[dict[str, object]]) -> bytes:
    """Writes binary rows whose SYSLOG_ADDR has a sign, as BIGINT has one."""
    for row in rows:
        address = row["SYSLOG_ADDR"]
        assert isinstance(address, int)
        row["SYSLOG_ADDR"] = address - (1 << 64) if address >= HALF else address
    return binary(rows)


def test_positions_are_in_the_order_of_unsigned_addresses() -> None:
    source = DispatchQueue(OPTIONS)
    texts = [f"MAIN:{a >> 32}.{a & 0xFFFFFFFF}" for a in ADDRESSES]
    found = [parse_position(text, source.parse_position) for text in texts]
    assert found == sorted(found)
    assert [source.position_text(position) for position in found] == texts


def test_no_address_is_taken_for_a_piece_that_is_no_row() -> None:
    source = DispatchQueue(OPTIONS)
    piece = source.parse_position("queue.dat:7")
    assert source.position_text(piece) == "queue.dat:7"
    address = source.parse_position("queue.dat:4294967295.4294967295")
    assert address != piece
    assert source.position_text(address) == "queue.dat:4294967295.4294967295"


@pytest.mark.parametrize("text", [False, True])
def test_zeros_behind_names_are_padding(text: bool, tmp_path: Path) -> None:
    queue = Queue()
    names = {"DBNODE": b"MAIN\0\0\0\0", "DST_SERVER": b"SRV1\0 \0", "DST_TABLE": b"USR\0\0"}
    rows = [queue.row(INSERT, jack(1), **names), queue.row(COMMIT)]
    used = options(nodes=("MAIN",), destination="SRV1", layout="text" if text else "binary")
    data = delimited_text(rows) if text else binary(rows)
    records, _ = read(used, data, tmp_path)
    assert [record["event_type"] for record in records] == [1, None]
    assert {record["part"] for record in records} == {"MAIN"}


@pytest.mark.parametrize("name", ["DBNODE", "DST_TABLE"])
def test_a_zero_inside_a_name_rejects_the_row(name: str, tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1), **{name: b"A\0B"}), queue.row(COMMIT)]
    records, _ = read(OPTIONS, binary(rows), tmp_path)
    assert "contains a zero" in records[0]["detail"]


def test_zeros_behind_names_of_dispatch_attrs_are_padding(tmp_path: Path) -> None:
    rows = "TABNUM_SRC,NAME,ATRNUM,TYP,PKEY,LEN\n7,id \0\0,1,2,1,4\n"
    (tmp_path / "attrs.csv").write_text(rows)
    used = DispatchQueueOptions(attributes=Path("attrs.csv"), null_mode="none")
    (table,) = with_attributes(used, tmp_path, SnapshotOptions()).tables
    assert (table.columns, table.key) == (("id INTEGER",), ("id",))
