"""Tables that a job compares, in which every value is planted, as files and in a database."""

from __future__ import annotations

import csv
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner

from publisher.cli.main import cli
from tests.support.planted_values import PlantedValues
from tests.support.retried_rejects import invoke

TABLES = """
[tables.usr]
key = ["idu"]
columns = { idu = "int", fname = "string", lname = "string", born = "string", manager = "int" }
references = { manager = { table = "usr", key = "idu" } }
children = { phone = { columns = { phoneno = "string" }, link = ["idu"] } }
[documents]
forbidden = "reject"
[dispatch]
path = "out"
[job]
reject_budget = 9999
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
SOURCE = '[[sources]]\nname = "hr"\nformat = "triggerless"\nmost_deleted = 1\n'
KEY_CHANGES = (
    'state = "values"\nkey_change = "modify-association"\nkey_change_by = { usr = ["guid"] }\n'
)
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
    "forbidden",
    "null",
)
"""The change of each row of ten."""


@dataclass
class PlantedTables:
    """Users with phones, which change from one round to the next."""

    planted: PlantedValues
    size: int
    rows: list[Row] = field(default_factory=list)
    phones: list[tuple[str | None, str]] = field(default_factory=list)
    rounds: int = 0

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
        elif change == "forbidden":  # is rejected, and not published
            row["fname"] = f"\x01{self.planted.text()}"
        elif change == "null":
            row["fname"] = None
        elif change == "idu":
            row["idu"] = self.planted.number()
            self.phones = [(row["idu"] if of == key else of, text) for of, text in self.phones]
        elif change == "deleted":
            self.rows.remove(row)
            self.phones = [(of, text) for of, text in self.phones if of != key]

    def write_files(self, folder: Path) -> None:
        """Writes the tables as files with rows that are rejected; in the third round, one is of no object."""
        folder.mkdir(exist_ok=True)
        self.rounds += 1
        text = self.planted.text
        broken: list[Row] = [{"idu": text(), "fname": text()}] if self.rounds == 3 else []
        doubled = [{**self.rows[0], "fname": text()}]
        with (folder / "usr.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows([*self.rows, *doubled, *broken])
        with (folder / "phone.csv").open("w", newline="", encoding="utf-8") as file:
            phones = csv.writer(file)
            phones.writerow(["idu", "phoneno"])
            phones.writerows([*self.phones, (self.planted.number(), text())])

    def write_database(self, folder: Path) -> None:
        """Writes the tables into a database."""
        folder.mkdir(exist_ok=True)
        with closing(sqlite3.connect(folder / "hr.db")) as connection:
            connection.executescript(
                "CREATE TABLE IF NOT EXISTS usr (idu INTEGER PRIMARY KEY, fname TEXT, lname TEXT, born TEXT, "
                "manager INTEGER, guid TEXT); CREATE TABLE IF NOT EXISTS phone (idu INTEGER, phoneno TEXT); "
                "DELETE FROM usr; DELETE FROM phone;"
            )
            marks = ", ".join(f":{name}" for name in COLUMNS)
            connection.executemany(f"INSERT INTO usr VALUES ({marks})", self.rows)
            connection.executemany("INSERT INTO phone VALUES (?, ?)", self.phones)
            connection.commit()


@dataclass
class ComparingJob:
    """A job that compares planted tables, with everything that it has shown and written."""

    folder: Path
    place: str
    """The setting of the source that names its tables."""
    settings: str = ""
    masking: str = ""
    engine: str = "local"
    shown: list[str] = field(default_factory=list)
    found: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        text = f"{SOURCE}{self.place}{self.settings}{TABLES}{self.masking}"
        (self.folder / "job.toml").write_text(text)

    def run(self, planted: PlantedValues, command: str, *words: object) -> str:
        """Runs a command of the job, and looks for planted values in everything."""
        if command in ("publish", "migrate", "verify"):
            words = (*words, "--engine", self.engine)
        result = invoke(self.folder, command, *words)
        assert "Traceback" not in result.output, result.output
        self.shown.append(result.output)
        self.found |= planted.find_in(result.output)
        for written in ("out", ".xds-publisher"):
            self.found |= planted.find_below(self.folder / written)
        return result.output

    def read_reports(self, planted: PlantedValues) -> None:
        """Runs all commands that show runs."""
        key = f"idu={self.object_keys()[0]}"
        for command in ("status", "rejects", "rejects --json", "check", f"history {key}"):
            self.run(planted, *command.split())
        journal = min((self.folder / ".xds-publisher").glob("*/*-0*"))
        for place in (key, "usr:1:1"):
            result = CliRunner().invoke(cli, ["explain", str(journal), place])
            assert result.exit_code == 0, result.output
            self.found |= planted.find_in(result.output)

    def documents(self) -> list[str]:
        """All documents, run by run and lane by lane."""
        runs = sorted((self.folder / "out" / "runs").iterdir())
        parts = [part for run in runs for part in sorted(run.glob("part-*.xds"))]
        return [line for part in parts for line in part.read_text("utf-8").splitlines()]

    def structure(self) -> list[str]:
        """The documents without values and keys."""
        texts = (re.sub(">[^<]+<", ">…<", text) for text in self.documents())
        return [re.sub('-ref="[^"]*"', '-ref="…"', text) for text in texts]

    def object_keys(self) -> list[str]:
        """The keys in the documents: of objects, and of references to them."""
        return re.findall(r'(?:<association>|ref=")idu=(\w+)', "".join(self.documents()))
