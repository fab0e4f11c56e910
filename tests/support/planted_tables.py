"""Tables that are compared, in which every value is planted, as files."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.planted_values import PlantedValues

JOB = """
[source]
format = "triggerless"
before = ["{before}"]
most_deleted = 1
state = "values"
key_change = "modify-association"
key_change_by = {{ usr = ["guid"] }}
[tables.usr]
key = ["idu"]
columns = {{ idu = "int", fname = "string", lname = "string", born = "string", manager = "int" }}
references = {{ manager = {{ table = "usr", key = "idu" }} }}
children = {{ phone = {{ columns = {{ phoneno = "string" }}, link = ["idu"] }} }}
[run]
lanes = 3
"""
MASKING = """
[masking]
hash = ["idu", "manager", "fname", "guid", "phone.*"]
redact = ["usr.born"]
shorten = ["usr.lname"]
key_env = "MASK_KEY"
"""
COLUMNS = ("idu", "fname", "lname", "born", "manager", "guid")
Row = dict[str, str | None]
_CHANGES = (
    "fname",
    "born",
    "lname",
    "tail",
    "idu",
    "deleted",
    "phone",
    "manager",
    "null",
)
"""The change of each row of nine."""


@dataclass
class PlantedTables:
    """Users with phones, which change from one round to the next."""

    planted: PlantedValues
    size: int
    rows: list[Row] = field(default_factory=list)
    phones: list[tuple[str | None, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number in range(self.size):
            self._add(number)

    def _add(self, number: int) -> None:
        text = self.planted.text
        row: Row = {
            "idu": self.planted.number(),
            "fname": f'<b>"{text()}", ]]>&amp;' if number % 7 == 0 else text(),
            "lname": f"same beginning {text()}",
            "born": text(),
            "manager": self.rows[-1]["idu"] if number % 3 and self.rows else None,
            "guid": text(),
        }
        self.rows.append(row)
        self.phones += [(row["idu"], text()) for _ in range(number % 3)]

    def change(self) -> None:
        """Changes most rows: values, keys, phones; deletes some, and adds others."""
        for number, row in enumerate(list(self.rows)):
            self._change(_CHANGES[number % len(_CHANGES)], row)
        for number in range(self.size // 10):
            self._add(number)

    def _change(self, change: str, row: Row) -> None:
        key = row["idu"]
        if change in ("fname", "born", "lname"):
            row[change] = self.planted.text()
        elif change == "tail":  # the mask stays the same
            row["lname"] = f"{row['lname']} {self.planted.text()}"
        elif change == "phone":
            self.phones.append((key, self.planted.text()))
        elif change == "manager":
            row["manager"] = self.rows[0]["idu"]
        elif change == "null":
            row["fname"] = None
        elif change == "idu":
            row["idu"] = self.planted.number()
            self.phones = [(row["idu"] if of == key else of, text) for of, text in self.phones]
        elif change == "deleted":
            self.rows.remove(row)
            self.phones = [(of, text) for of, text in self.phones if of != key]

    def write_files(self, folder: Path) -> None:
        """Writes the tables as files with rows that are rejected."""
        folder.mkdir(exist_ok=True)
        text = self.planted.text
        doubled = [{**self.rows[0], "fname": text()}]
        with (folder / "usr.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows([*self.rows, *doubled])
        with (folder / "phone.csv").open("w", newline="", encoding="utf-8") as file:
            phones = csv.writer(file)
            phones.writerow(["idu", "phoneno"])
            phones.writerows([*self.phones, (self.planted.number(), text())])
