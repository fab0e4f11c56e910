"""The company by the format ``triggerless``: compares the tables of the company with their last known state.

Samples of LINTER's table queue show which tables have changed.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lxml import etree

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.engine.contract import Engine
from publisher.errors import InternalError
from publisher.formats.table_queue.calls import Call
from publisher.formats.table_queue.json_calls import json_line
from publisher.formats.table_queue.layout import dirr_out
from publisher.ledger.conservation import RunReport
from publisher.runs.job import Job
from tests.support.company.acts import PARENTS
from tests.support.company.opening import USERS
from tests.support.company.people import Company

JOB = "comparison.toml"
SAMPLES = Path("recorded") / "dirr"
CLASSES = ("usr", "employee", "membership")
TABLES = (*CLASSES, *PARENTS)
PROMOTED = 12
"""Employees who get a new title."""
TITLE = "Principal"
OLD_PHONE, NEW_PHONE = "222-2222", "555-5555"
"""A phone of user 1, before and after."""
SYSTEM_TABLES = ("$$$SYSRL", "$$$ATTRI", "$$$USR")
"""System tables, which come first in every sweep."""
_OWNER = 5
_SYSTEM_OWNER = 1
_FIRST = datetime(2026, 5, 11, 0, 0, tzinfo=UTC)
_INTERVAL = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class UnrecordedChanges:
    """Changes of the tables between both runs, which no system records."""

    promoted: tuple[int, ...]
    """Numbers of the employees who get a new title."""
    ended_membership: tuple[str, int]
    new_membership: tuple[str, int]

    @property
    def operations(self) -> dict[tuple[str, str], str]:
        """Expected kinds of operations by table and key."""
        operations = {("employee", f"empno={number}"): "modify" for number in self.promoted}
        operations["membership", _member(self.ended_membership)] = "delete"
        operations["membership", _member(self.new_membership)] = "add"
        operations["usr", "idu=1"] = operations["usr", "idu=3"] = "modify"
        return operations

    @property
    def touched(self) -> tuple[str, ...]:
        """The tables that the sample shows as touched."""
        return "usr", "usr_phone", "employee", "membership"


@dataclass(frozen=True, slots=True)
class ComparisonReports:
    """Reports of both runs, and the changes between them."""

    first: RunReport
    second: RunReport
    changes: UnrecordedChanges


def compare(directory: Path, company: Company, engine: Engine) -> ComparisonReports:
    """Reads the tables, changes some rows, and publishes the differences.

    Raises ``InternalError`` if the documents are not exactly those of the changed rows.
    """
    shutil.copyfile(Path(__file__).with_name(JOB), directory / JOB)
    settings = load(directory / JOB)
    (directory / SAMPLES).mkdir(parents=True)
    _sweep(settings, 1, ())
    changes = _choose_changes(company)
    with Job(settings, engine) as job:
        first = _require_report(job.run())
        _change_rows(directory / "company.sqlite", changes)
        _sweep(settings, 2, changes.touched)
        second = _require_report(job.run())
    _check(company, first, second, changes)
    return ComparisonReports(first, second, changes)


def _choose_changes(company: Company) -> UnrecordedChanges:
    promoted = [number for number, row in company.employees.items() if row["title"] != TITLE]
    ended = next(iter(company.memberships))
    begun = next(
        ("sales", number)
        for number in company.employees
        if ("sales", number) not in company.memberships
    )
    return UnrecordedChanges(tuple(promoted[:PROMOTED]), ended, begun)


def _change_rows(database: Path, changes: UnrecordedChanges) -> None:
    connection = sqlite3.connect(database)
    try:
        connection.executemany(
            "UPDATE employee SET title = ? WHERE empno = ?",
            [(TITLE, number) for number in changes.promoted],
        )
        connection.execute(
            "DELETE FROM membership WHERE grp = ? AND empno = ?", changes.ended_membership
        )
        connection.execute(
            "INSERT INTO membership VALUES (?, ?, 'guest', '2026-05-11')", changes.new_membership
        )
        connection.execute(
            "UPDATE usr_phone SET phoneno = ? WHERE phoneno = ?", (NEW_PHONE, OLD_PHONE)
        )
        connection.execute("UPDATE usr SET manager = 1 WHERE idu = 3")
        connection.commit()
    finally:
        connection.close()


def _sweep(settings: Settings, number: int, touched: tuple[str, ...]) -> None:
    """Writes a sweep as a recorder does: the system tables, the tables of the company, then EORR."""
    options = settings.table_queue
    elements = [(_SYSTEM_OWNER, name, 1) for name in SYSTEM_TABLES]
    elements += [(_OWNER, name.upper(), int(name in touched)) for name in TABLES]
    lines = []
    for ordinal, (owner, name, updated) in enumerate(elements, 1):
        field = name.encode("cp866").ljust(options.identifier_length)
        record = dirr_out(options).build({"owner": owner, "table": field, "updated": updated})
        lines.append(_call(number, ordinal, "NORMAL", record))
    lines.append(_call(number, len(lines) + 1, "EORR", None))
    path = settings.directory / SAMPLES / f"sweep-{number}.jsonl"
    path.write_text("".join(f"{json_line(call)}\n" for call in lines), "utf-8")


def _call(sweep: int, ordinal: int, completion: str, record: bytes | None) -> Call:
    time = _FIRST + sweep * _INTERVAL + timedelta(milliseconds=ordinal)
    return Call(sweep, time, ordinal, completion, record=record, node="COMPANY")


def _require_report(report: RunReport | None) -> RunReport:
    if report is None:
        raise InternalError("the comparison found no table to compare")
    return report


def _check(
    company: Company, first: RunReport, second: RunReport, changes: UnrecordedChanges
) -> None:
    row_count = len(company.employees) + len(company.memberships) + len(USERS)
    problems = []
    if first.documents or first.read != row_count:
        problems.append(f"the first comparison read {first.read} objects, expected {row_count}")
    operations = _operations(Path(second.target))
    if operations != changes.operations:
        different = operations.items() ^ changes.operations.items()
        problems.append(f"the second comparison differs from the changes: {sorted(different)[:3]}")
    if second.read != row_count + 1:
        problems.append(
            f"the second comparison read {second.read} objects, expected {row_count + 1}"
        )
    if problems:
        raise InternalError("; ".join(problems))


def _operations(target: Path) -> Mapping[tuple[str, str], str]:
    """Returns the kinds of operations by table and key."""
    operations = {}
    for part in sorted(target.glob("part-*.xds")):
        for line in part.read_text("utf-8").splitlines():
            for operation in etree.fromstring(line.encode()).iterfind("input/*"):
                association = str(operation.findtext("association"))
                key, _, table = association.removesuffix(",schema=indirect").rpartition(",table=")
                operations[table, key] = str(operation.tag)
    return operations


def _member(key: tuple[str, int]) -> str:
    group, number = key
    quoted = f'"{group}"' if any(c in group for c in '+=,"') else group
    return f"grp={quoted}+empno={number}"
