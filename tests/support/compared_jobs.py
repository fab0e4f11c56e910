"""Jobs that compare one table of three columns."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from lxml import etree

from publisher.config.job_file import load
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish as publish_job

Row = Mapping[str, str | None]

COLUMNS = ("idu", "fname", "lname")

TABLE = """
[tables.usr]
key = ["idu"]
columns = { idu = "int", fname = "string", lname = "string" }
[run]
lanes = 1
[dispatch]
path = "out"
"""


def table_row(idu: object, fname: str | None = "Ann", lname: str | None = None) -> Row:
    return {"idu": str(idu), "fname": fname, "lname": lname}


def write_table(base: Path, rows: Sequence[Row], name: str = "usr.csv") -> Path:
    path = base / "in" / name
    path.parent.mkdir(exist_ok=True)
    text = io.StringIO()
    text.write(",".join(COLUMNS) + "\n")
    for values in rows:
        cells = ("" if v is None else '"' + v.replace('"', '""') + '"' for v in values.values())
        text.write(",".join(cells) + "\n")
    path.write_text(text.getvalue(), newline="")
    return path


def write_job(base: Path, more: str = "", rest: str = "") -> Path:
    path = base / "job.toml"
    path.write_text(
        f'[[sources]]\nname = "hr"\nformat = "triggerless"\nsnapshots = ["in"]\n{more}\n{TABLE}{rest}'
    )
    return path


def publish(base: Path, more: str = "", rest: str = "") -> RunReport:
    return publish_job(load(write_job(base, more, rest)))


def operations_of(report: RunReport, base: Path) -> list[etree._Element]:
    """The operations of a run, in the order of its part files."""
    lines = [
        line
        for part in sorted((base / "out" / "runs" / report.run).glob("part-*.xds"))
        for line in part.read_text("utf-8").splitlines()
    ]
    return [op for line in lines for op in etree.fromstring(line.encode()).iterfind("input/*")]


def kinds_and_keys(report: RunReport, base: Path) -> list[tuple[str, str]]:
    """Kind and key of each operation."""
    return sorted((op.tag, key_of(op)) for op in operations_of(report, base))


def key_of(op: etree._Element) -> str:
    return str(op.findtext("association")).partition(",")[0].partition("=")[2]
