"""Reading a change table live: sorted by change_seq, binary masks, only what is new."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from publisher.database.identity import TableOrigin, identity_of
from publisher.errors import FatalError
from publisher.formats.change_table.backlog import ChangeTableBacklog
from publisher.formats.change_table.carry_over import Mark, read_marks, write_marks
from publisher.formats.change_table.live_table import LiveChangeTable
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.contract import CarryOver, Context
from publisher.formats.live.find_table import LiveTable, relation_of
from publisher.formats.live.table_split import DatabaseTable
from publisher.model.change import TALLY
from publisher.xds.values import text_of
from tests.services.databases import BINARY, Place
from tests.support.change_table_files import change_text, seq
from tests.support.event_log_files import OPEN
from tests.support.prepare import prepare_here, read_prepared

KEYED = ChangeTableOptions(key=("idu",), pair_wait=0)


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


def read(
    place: Place, options: ChangeTableOptions = KEYED, after: str | None = None
) -> list[object]:
    if after is None:
        return found_in(place, options, None)
    with TemporaryDirectory() as name:
        before = Path(name) / "before"
        with place.database() as database:
            identity = identity_of(database, relation_of(database, LiveTable("usr__ct")))
        write_marks(before, {"usr__ct": Mark(after, after, origin=TableOrigin(identity))})
        return found_in(place, options, CarryOver(before, Path(name) / "after"))


def found_in(place: Place, options: ChangeTableOptions, kept: CarryOver | None) -> list[object]:
    live = LiveChangeTable(
        options, table=DatabaseTable(place.database().options, "usr__ct", text_of)
    )
    records = []
    with prepare_here(live, (), 3, OPEN, carry_over=kept) as prepared:
        for batches in read_prepared(prepared, Context(0, 5, OPEN)):
            for batch in batches:
                records += batch.to_pylist()
    framed = sum(record["row"] for record in records if record["outcome"] == TALLY)
    changes = [record for record in records if record["outcome"] != TALLY]
    assert sum(record["records"] for record in changes) == framed
    assert {record["event_time"] for record in changes} <= {1_710_758_846_000_000, None}
    changes.sort(key=lambda record: (record["high"], record["low"], record["ordinal"]))
    return [change_text(record) for record in changes]


@pytest.mark.parametrize("order", ["msb", "lsb"])
def test_changes_come_in_order_with_their_before_images(place: Place, order: str) -> None:
    make(place, order)
    found = read(place)
    assert found[0] == (1, "idu=1", ("idu", "1"), ("fname", "Ann"), ("lname", "Li"), ("c1", None))
    assert found[1:] == [
        (2, "idu=1", ("fname", "Ann", "Eve"), ("lname", "Li", None)),
        (4, "idu=1"),
        (1, "idu=2", ("idu", "2"), ("fname", "Eve")),
        (4, "idu=2"),
        (3, "idu=9", ("c1", None)),
    ]
    assert read(place, after=seq(3)) == found[4:]


def test_a_table_that_is_none_is_refused(place: Place) -> None:
    place.execute("CREATE TABLE usr__ct (idu VARCHAR(9))")
    with pytest.raises(FatalError, match="header__change_seq"):
        read(place)


HEADS = (
    "header__change_seq, header__change_oper, header__change_mask, header__timestamp, idu, fname"
)


def add(place: Place, *rows: str) -> None:
    place.execute(f"INSERT INTO usr__ct ({HEADS}) VALUES {', '.join(rows)}")


def change_values(change_seq: str, oper: str, idu: str, fname: str, mask: str = "0060") -> str:
    return f"({change_seq}, '{oper}', X'{mask}', '2024-03-18 10:47:26', '{idu}', '{fname}')"


def test_only_what_is_newer_than_the_last_run_is_read(place: Place, tmp_path: Path) -> None:
    make(place, "msb")
    literal = "'\\x" if place.kind == "postgresql" else "X'"

    def row(change_seq: str, oper: str, fname: str, mask: str = "20") -> str:
        return change_values(change_seq, oper, "1", fname, mask).replace("X'", literal)

    waits = ChangeTableBacklog(KEYED, place.database().options, "usr__ct")
    try:
        assert waits.count_after(Mark()).rows == 7
        assert len(found_in(place, KEYED, CarryOver(None, tmp_path / "1"))) == 6
        (mark,) = read_marks(tmp_path / "1").values()
        assert (mark.change_seq, mark.rows_in_window, mark.others) == (seq(5), 7, 0)
        assert mark.calibrated is not None
        assert mark.calibrated.order == "msb"
        assert waits.count_after(mark).rows == 0
        assert found_in(place, KEYED, CarryOver(tmp_path / "1", tmp_path / "2")) == []
        # a mask of one byte says nothing of the order: that is known from the run before
        add(place, row(f"'{seq(6)}'", "U", "Kim"), row(f"'{seq(6)}'", "B", "Eve", ""))
        waiting = waits.count_after(mark)
        assert (waiting.rows, waiting.oldest is not None) == (2, True)
        found = found_in(place, KEYED, CarryOver(tmp_path / "2", tmp_path / "3"))
        assert found == [(2, "idu=1", ("fname", "Eve", "Kim"))]
        # a row without change_seq is rejected once, one with a letter in it moves no mark
        add(
            place,
            row("NULL", "I", "no"),
            row("'9x'", "I", "odd"),
            row(f"'{seq(7)}'", "D", "x", "10"),
        )
        third = found_in(place, KEYED, CarryOver(tmp_path / "3", tmp_path / "4"))
        assert third[-1] == (4, "idu=1")
        assert len(third) == 3
        assert found_in(place, KEYED, CarryOver(tmp_path / "4", tmp_path / "5")) == []
        (mark,) = read_marks(tmp_path / "5").values()
        assert (mark.change_seq, mark.rows_in_window, mark.others) == (seq(7), 10, 2)
    finally:
        waits.close()


def test_rows_that_come_late_are_read_once(place: Place, tmp_path: Path) -> None:
    make(place, "msb")
    place.execute(f"DELETE FROM usr__ct WHERE header__change_seq = '{seq(3)}'")
    found_in(place, KEYED, CarryOver(None, tmp_path / "1"))
    add(place, change_values(f"'{seq(3)}'", "D", "2", "x", "10").replace("X'10'", "NULL"))
    late = [
        found_in(place, KEYED, CarryOver(tmp_path / f"{number}", tmp_path / f"{number + 1}"))
        for number in (1, 2)
    ]
    assert late == [[(4, "idu=2")], []]
