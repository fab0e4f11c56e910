"""An event log in which records end in every way there is, and what must become of each of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.config.job_file import Overrides, load
from publisher.config.settings import Settings
from publisher.engine.contract import EngineName
from publisher.ledger.manifest import Manifest
from publisher.ledger.read import find_run
from publisher.ledger.tables import RECORDS
from publisher.model.change import Outcome
from tests.support.event_log_files import NAMES, Row, csv_text, event

JOB = """
[[sources]]
driver_user = "idm"
exclude = ["*_history"]
poll_size = 7
poll_slack = 2
{source}

[tables.usr]
key = ["idu"]
columns = {{ idu = "int", fname = "string", lname = "string", photo = "octet" }}
complete = true

[run]
lanes = 3
engine = "{engine}"
{rest}
"""


@dataclass(frozen=True)
class FatedRow:
    """A row, and its fate without and with a database: the outcome, or outcome and reason."""

    row: Row
    fate: str
    with_database: str


def with_fate(record_id: int, fate: str, with_database: str = "", **changes: object) -> FatedRow:
    usual = {"event_type": 3, "old_value": None, "new_value": f"v{record_id}"}
    row = event(record_id, **usual | changes)
    return FatedRow(row, fate, with_database or fate)


def _type(
    number: int, record_id: int, fate: str, with_database: str = "", **more: object
) -> FatedRow:
    found = with_fate(record_id, fate, with_database, **more)
    found.row["event_type"] = number
    if number in (4, 5, 6):
        found.row["column_name"] = None
    if number > 3 or number == 2:
        found.row["new_value"] = None
    return found


ASKED = "rejected no-database"
REPLACED = "superseded row-query-back"

LOG: tuple[FatedRow, ...] = (
    _type(1, 1, "published"),
    _type(1, 2, "published", column_name="lname"),
    with_fate(3, REPLACED, table_key="idu=2"),
    _type(6, 4, REPLACED, table_key="idu= 2"),
    _type(5, 5, ASKED, "published", table_key="idu=02"),
    with_fate(6, "superseded field-query-back", table_key="idu=3"),
    _type(8, 7, ASKED, "published", table_key="idu=3"),
    with_fate(8, "published", table_key="idu=3", column_name="lname"),
    _type(6, 9, "ignored ended-by-delete", table_key="idu=4"),
    _type(4, 10, "published", table_key="idu=4"),
    _type(2, 11, "ignored nothing-to-publish", table_key="idu=5"),
    with_fate(12, "ignored status", table_key="idu=6", status="S"),
    with_fate(13, "ignored loopback", table_key="idu=6", perpetrator="idm"),
    with_fate(14, "ignored excluded", table_name="usr_history"),
    with_fate(15, "published", table_key="idu=7"),
    with_fate(15, "ignored duplicate", table_key="idu=7"),
    with_fate(16, "published", table_key="idu=7"),
    with_fate(16, "rejected double-record", table_key="idu=7", new_value="w16"),
    _type(9, 17, "rejected event-type"),
    with_fate(18, "rejected event-time", event_time="yesterday"),
    with_fate(19, "rejected table-name", table_name=None),
    with_fate(20, "rejected table-key", table_key="idu"),
    with_fate(21, "rejected column-name", column_name="nick"),
    with_fate(22, "rejected value", column_name="photo", new_value="***"),
    with_fate(23, "rejected forbidden-character", table_key="idu=8", new_value="bell \x07"),
    with_fate(0, "rejected record-id"),
    _type(6, 25, ASKED, "ignored row-gone", table_key="idu=99"),
    _type(6, 26, ASKED, "rejected several-values", table_name="view_twice", table_key="a=7"),
    with_fate(27, "published", table_key="idu=9"),
    with_fate(28, "published", table_key="idu=9"),
    with_fate(40, "published", table_key='idu="9"'),
    with_fate(41, "published", table_key="idu=9", event_time="2024-05-06 07:08:08"),
    with_fate(42, "published", table_key="idu=1", event_time="2999-01-01 00:00:00"),
)
"""Object usr 9 has changes in several polls.  Of record 16, the lesser content stays."""

BROKEN = "rejected broken-record"
ROWS = [entry.row for entry in LOG]


def fates(*, database: bool = False, broken: int = 0, **instead: str) -> Counter[str]:
    """Counts records by fate; ``instead`` has other fates by record_id, as ``r12="published"``."""
    counts = Counter(
        instead.get(f"r{entry.row['record_id']}", entry.with_database if database else entry.fate)
        for entry in LOG
    )
    return counts + Counter({BROKEN: broken})


def job(path: Path, source: str = "", rest: str = "", engine: EngineName = "auto") -> Path:
    """Writes a job file for the log."""
    path.write_text(JOB.format(source=source, rest=rest, engine=engine))
    return path


def settings(path: Path, source: str = "", rest: str = "", **spoken: object) -> Settings:
    """The settings of such a job file under options of the command line."""
    return load(job(path, source, rest), Overrides(**spoken))  # type: ignore[arg-type]


def write_csv(path: Path, rows: Sequence[Row] = ROWS) -> Path:
    """The log as CSV, with a record of three fields at its end."""
    path.write_text(csv_text(rows) + "43,idu=1,N\n")
    return path


def write_jsonl(path: Path, rows: Sequence[Row] = ROWS) -> Path:
    """The log as JSON lines, with a line that is none."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{43\n")
    return path


def write_parquet(path: Path, rows: Sequence[Row] = ROWS) -> Path:
    """The log as Parquet in groups of four rows, with a value that is not text."""
    rows = [*rows, event(43, new_value=b"\xff")]
    columns = {name: pa.array([_bytes(row[name]) for row in rows], pa.binary()) for name in NAMES}
    pq.write_table(pa.table(columns), path, row_group_size=4)
    return path


def _bytes(value: object) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def lines(directory: Path) -> list[str]:
    """All documents of a directory, part after part."""
    return [
        line
        for part in sorted(directory.glob("part-*.xds"))
        for line in part.read_text().splitlines()
    ]


def by_object(documents: Iterable[str]) -> dict[str, list[str]]:
    """The documents of each association, in their order."""
    found: dict[str, list[str]] = {}
    for line in documents:
        found.setdefault(re.findall("<association>(.*?)</association>", line)[0], []).append(line)
    return found


def manifest(directory: Path) -> Manifest:
    return find_run(directory).manifest


def decisions(directory: Path) -> Counter[str]:
    """Records by position and fate, of the first source alone; records without id by their reason."""
    found: Counter[str] = Counter()
    run = find_run(directory)
    for lane in run.with_rows().lanes(run.manifest):
        for row in lane.read(RECORDS).to_pylist():
            position = row["high"] if not row["part"] else "?"
            outcome = Outcome(row["outcome"]).label
            found[" ".join(filter(None, [f"{position}:", outcome, row["reason"]]))] += 1
    return found


def count_fates(directory: Path) -> Counter[str]:
    """Records by fate, as the decisions have them."""
    found: Counter[str] = Counter()
    for name, count in decisions(directory).items():
        found[name.partition(": ")[2]] += count
    return found


def published_files(directory: Path) -> dict[str, bytes]:
    """The bytes of part files and rejects."""
    names = [*directory.glob("part-*.xds"), directory / "rejects.jsonl"]
    return {path.name: path.read_bytes() for path in sorted(names)}


def left_over(directory: Path) -> list[str]:
    """Files that should have gone: staged and half-written ones."""
    paths = directory.rglob("*")
    return [str(path) for path in paths if "staging" in str(path) or path.suffix == ".new"]
