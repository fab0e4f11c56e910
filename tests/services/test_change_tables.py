"""Reading a change table live: sorted by change_seq, binary masks, only what is new."""

from __future__ import annotations

import pytest

from publisher.change import TALLY
from publisher.errors import FatalError
from publisher.sources.change_table.options import Options
from publisher.sources.change_table.table import LiveChangeTable
from publisher.sources.contract import Context
from publisher.xds.values import text_of
from tests.services.databases import BINARY, Place
from tests.unit.change_table_files import seq, told
from tests.unit.event_log_files import OPEN

KEYED = Options(key=("idu",))


def make(place: Place, order: str) -> None:
    binary, moment = BINARY[place.kind], "DATETIME" if place.kind == "mariadb" else "TIMESTAMP"

    def row(number: int, oper: str, mask: str, values: str) -> str:
        octets = bytes.fromhex(mask)[:: 1 if order == "msb" else -1].hex()
        literal = f"'\\x{octets}'" if place.kind == "postgresql" else f"X'{octets}'"
        return f"('{seq(number)}', '{oper}', {literal}, '2024-03-18 10:47:26', {values})"

    rows = [
        row(4, "D", "10", "'2', NULL, NULL"),
        row(2, "U", "0060", "'1', 'Eve', NULL"),
        row(3, "U", "10", "'2', 'Eve', NULL"),
        row(1, "I", "0170", "'1', 'Ann', 'Li'"),
        row(3, "B", "", "'1', 'Eve', NULL"),
        row(2, "B", "", "'1', 'Ann', 'Li'"),
        row(5, "U", "0100", "'9', 'x', NULL"),
    ]
    padding = ", ".join(f"c{n} VARCHAR(5)" for n in range(8))
    place.execute(
        f"CREATE TABLE usr__ct (header__change_seq VARCHAR(35), header__change_oper VARCHAR(1),"
        f" header__change_mask {binary}, header__timestamp {moment}, idu VARCHAR(9),"
        f" fname VARCHAR(9), lname VARCHAR(9), {padding})",
        "INSERT INTO usr__ct (header__change_seq, header__change_oper, header__change_mask,"
        f" header__timestamp, idu, fname, lname) VALUES {', '.join(rows)}",
    )


def read(place: Place, options: Options = KEYED, after: str | None = None) -> list[object]:
    live = LiveChangeTable(options, place.database().options, "usr__ct", text_of, after)
    records = []
    with live.opened(3) as splits:
        for number, split in enumerate(splits):
            for batch in live.read(split, number, Context(0, 5, OPEN)):
                records += batch.to_pylist()
    framed = sum(record["row"] for record in records if record["outcome"] == TALLY)
    changes = [record for record in records if record["outcome"] != TALLY]
    assert sum(record["records"] for record in changes) == framed
    assert {record["event_time"] for record in changes} == {1_710_758_846_000_000}
    changes.sort(key=lambda record: (record["high"], record["low"], record["ordinal"]))
    return [told(record) for record in changes]


@pytest.mark.parametrize("order", ["msb", "lsb"])
def test_changes_come_in_order_with_their_before_images(place: Place, order: str) -> None:
    make(place, order)
    found = read(place)
    assert found[0] == (1, "idu=1", ("idu", "1"), ("fname", "Ann"), ("lname", "Li"), ("c1", None))
    assert found[1:] == [
        (2, "idu=1", ("fname", "Ann", "Eve"), ("lname", "Li", None)),
        (4, "idu=1"),
        (1, "idu=2", ("idu", "2"), ("fname", "Eve"), ("lname", None), *_empty()),
        (4, "idu=2"),
        (3, "idu=9", ("c1", None)),
    ]
    assert read(place, after=seq(3)) == found[4:]


def _empty() -> list[tuple[str, None]]:
    return [(f"c{n}", None) for n in range(8)]


def test_a_table_that_is_none_is_refused(place: Place) -> None:
    place.execute("CREATE TABLE usr__ct (idu VARCHAR(9))")
    with pytest.raises(FatalError, match="header__change_seq"):
        read(place)
