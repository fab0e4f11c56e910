"""Files of other formats than event logs, in which every value is planted, and the sources that read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.support import change_table_files, dispatch_queue_files, linkexpress_files
from tests.support.dispatch_queue_codes import COMMIT, DELETE, INSERT, UPDATE
from tests.support.event_log_files import Row
from tests.support.planted_values import PlantedValues
from tests.support.renamed_rows import SETTINGS as OF_ROWS

_ITEMS = ("idu INTEGER", "fname CHARACTER(12)", "pay DECIMAL(5,2)", "note VARCHAR(12)")
_TABLE = replace(linkexpress_files.USR, items=_ITEMS)
EXTRACT = replace(linkexpress_files.OPEN, tables=(_TABLE,))

SETTINGS = {
    "change-table": OF_ROWS["change-table"],
    "dispatch-queue": OF_ROWS["dispatch-queue"],
    "linkexpress": 'format = "linkexpress"\nunit = "table"\nextract = "diff"\nnulls = true\n'
    'difftype = "OPEN"\ncharset = "CP932"\ntables = [{ name = "usr", schema = "hr", key = ["idu"], '
    f"xid = 1, items = {list(_ITEMS)} }}]\n",
}
"""Settings of the source in each format."""


def write_planted(planted: PlantedValues, format_: str, folder: Path, size: int) -> Path:
    """Writes a file with ``size`` objects."""
    if format_ == "change-table":
        return change_table_files.write(folder / "usr__ct.csv", list(_changes(planted, size)))
    path = folder / f"{format_}.dat"
    write = _extract if format_ == "linkexpress" else _queue
    path.write_bytes(write(planted, size))
    return path


def _changes(planted: PlantedValues, size: int) -> Iterator[Row]:
    record = change_table_files.record
    for number in range(1, 10 * size, 10):
        key, name, other = planted.number(), planted.text(), planted.text()
        yield record(number, "I", [0, 1, 2], idu=key, fname=name, lname=other)
        yield record(number + 1, "B", idu=key, fname=name, lname=other)
        yield record(number + 1, "U", [2], idu=key, fname=name, lname=planted.text())
        if number % 3 == 0:
            yield record(number + 2, "D", [0], idu=key)
        if number % 40 == 1:
            yield record(number + 3, planted.text(), idu=key, fname=name)
            yield record(number + 4, "I", [0], idu=None, fname=planted.text())
            wrong = record(number + 5, "I", [0], idu=planted.number(), fname=planted.text())
            yield wrong | {"header__change_seq": planted.text()}


def _queue(planted: PlantedValues, size: int) -> bytes:
    queue, jack = dispatch_queue_files.Queue(), dispatch_queue_files.jack
    rows = []
    for number in range(size):
        key, name, other = int(planted.number()), planted.text(), planted.text()
        rows.append(queue.row(INSERT, jack(key, name[:8], name)))
        rows.append(queue.row(UPDATE, jack(key, name[:8], name), jack(key, name[:8], other)))
        if number % 3 == 0:
            rows.append(queue.row(DELETE, jack(key, name[:8], other)))
        rows.append(queue.row(COMMIT))
        if number % 7 == 0:  # an image that is too short, in a transaction of its own
            text = planted.text()
            rows.append(queue.row(INSERT, jack(key, text[:8], text)[:-9]))
            rows.append(queue.row(COMMIT))
    last = planted.text()  # its transaction does not end
    rows.append(queue.row(INSERT, jack(int(planted.number()), last[:8], last)))
    return dispatch_queue_files.binary(rows)


def _extract(planted: PlantedValues, size: int) -> bytes:
    octets = b""
    for number in range(size):
        key, name = int(planted.number()), planted.text().encode()
        pay = bytes.fromhex("12345C" if number % 5 else "1234FF")
        note = {"length": 12, "data": planted.text().encode()}
        for code in (1, 3) if number % 3 else (1, 2):
            octets += linkexpress_files.record(EXTRACT, 0, code, [key, name, pay, note])
    return octets
