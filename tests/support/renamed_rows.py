"""Histories of rows whose keys change in chains and in circles, as inputs of several formats."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import change_table_files, dispatch_queue_files, event_log_files
from tests.support.change_table_files import record
from tests.support.dispatch_queue_codes import COMMIT, DELETE, INSERT, UPDATE
from tests.support.dispatch_queue_files import Queue, jack
from tests.support.event_log_files import Row, event

CIRCLES = [(1, 9), (2, 1), (9, 2), (1, 7), (2, 1), (3, 2), (7, 3)]
"""Two rows exchange their keys by way of 9; then three rows move in a circle: 1 → 3 → 2 → 1."""


@dataclass
class RenamedRows:
    """Changes in their order, each with key and last name before and after, and the rows they lead to."""

    rows: dict[int, str] = field(default_factory=dict)
    changes: list[tuple[tuple[int, str] | None, tuple[int, str] | None]] = field(
        default_factory=list
    )

    def put(self, key: int) -> None:
        """Inserts a row, or changes its name."""
        text = f"t{len(self.changes)}"
        before = (key, self.rows[key]) if key in self.rows else None
        self.rows[key] = text
        self.changes.append((before, (key, text)))

    def move(self, key: int, other: int) -> None:
        self.rows[other] = self.rows.pop(key)
        self.changes.append(((key, self.rows[other]), (other, self.rows[other])))

    def delete(self, key: int) -> None:
        self.changes.append(((key, self.rows.pop(key)), None))

    def event_log(self) -> Iterator[Row]:
        """The changes as events of the column ``lname``."""
        for number, (before, after) in enumerate(self.changes, 1):
            key, old = before or after or (0, "")
            new = after[1] if after else None
            row = event(number, table_key=f"idu={key}", table_name="usr", column_name="lname")
            if before is None:
                yield row | {"event_type": 1, "old_value": None, "new_value": new}
            elif after is None:
                yield row | {"event_type": 4, "column_name": None}
            elif key != after[0]:
                moved = {"old_value": key, "new_value": after[0]}
                yield row | {"column_name": "idu"} | moved
            else:
                yield row | {"old_value": old, "new_value": new}

    def change_table(self) -> Iterator[Row]:
        """The changes as records with before images."""
        for number, (before, after) in enumerate(self.changes, 1):
            images = [
                None if image is None else {"idu": str(image[0]), "lname": image[1]}
                for image in (before, after)
            ]
            old, new = images
            if old and new:
                bits = [
                    change_table_files.DATA.index(name) for name in old if old[name] != new[name]
                ]
                yield from (record(number, "B") | old, record(number, "U", bits) | new)
            elif new:
                yield record(number, "I", [0, 2]) | new
            elif old:
                yield record(number, "D", [0]) | old

    def dispatch_queue(self) -> Iterator[dispatch_queue_files.Row]:
        """The changes as operations of one transaction."""
        queue = Queue()
        for before, after in self.changes:
            old, new = (image and jack(image[0], lname=image[1]) for image in (before, after))
            if old and new:
                yield queue.row(UPDATE, old, new)
            else:
                yield queue.row(DELETE if old else INSERT, old or new or b"")
        yield queue.row(COMMIT)


def renamed_rows(seed: int, count: int = 120) -> RenamedRows:
    """A swap, a circle, then random changes of nine rows."""
    rng, table = random.Random(seed), RenamedRows()
    for key in (1, 2, 3):
        table.put(key)
    for key, other in CIRCLES:
        table.move(key, other)
    while len(table.changes) < count:
        key, other = rng.randrange(1, 10), rng.randrange(1, 10)
        if key in table.rows and rng.random() < 0.1:
            table.delete(key)
        elif key in table.rows and other not in table.rows:
            table.move(key, other)
        else:
            table.put(key)
    return table


SETTINGS = {
    "event-log": 'format = "event-log"\nschema = "hr"\n',
    "change-table": 'format = "change-table"\nsource_table = "hr.usr"\nkey = ["idu"]\n'
    'mask_order = "msb"\nheader_columns = 7\nimages = "full"\n',
    "dispatch-queue": 'format = "dispatch-queue"\nnull_mode = "byte_before"\nnull_flag = 1\n'
    'image_charset = "cp866"\ntables = [{ number = 7, name = "usr", schema = "hr", key = ["idu"], '
    'columns = ["idu INTEGER", "fname CHAR(8)", "lname VARCHAR(12)", "photo BLOB(24)", '
    '"note CHAR(4)"] }]\n',
}
"""Settings of the source in each format, without ``key_change``."""


def write_rows(table: RenamedRows, format_: str, folder: Path) -> Path:
    """Writes the changes as a file of a format."""
    if format_ == "event-log":
        return event_log_files.write(folder / "log.csv", list(table.event_log()))
    if format_ == "change-table":
        return change_table_files.write(folder / "usr__ct.csv", list(table.change_table()))
    path = folder / "queue.bin"
    path.write_bytes(dispatch_queue_files.binary(table.dispatch_queue()))
    return path
