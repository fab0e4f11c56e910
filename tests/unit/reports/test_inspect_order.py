"""The order in which ``inspect`` shows records: that of the file, rejects in their place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.formats.columns.record_batches import Place, nameless, tally
from publisher.model.change import Outcome, Reason
from publisher.reports.changes import in_order
from tests.golden.test_classes import JOB
from tests.support.change_table_files import record, write
from tests.support.event_log_files import Row, csv_text, event

CHANGES = [
    record(1, "I", range(10), idu="1"),
    record(2, "B", idu="1", fname="a"),
    record(2, "U", [1], idu="1", fname="x"),
    record(3, "I", range(10), idu="2") | {"header__change_seq": "none"},
    record(4, "D", [0], idu="1"),
    record(5, "B", idu="3"),
    record(5, "U", range(10), idu="9"),
    record(6, "B", idu="4", fname="waits"),
]


def inspect_rows(path: Path, *options: str) -> list[Row]:
    result = CliRunner().invoke(cli, ["inspect", str(path), *options])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_changes_of_a_table_stand_in_the_order_of_their_file(suffix: str, tmp_path: Path) -> None:
    job = '[[sources]]\nformat = "change-table"\nsource_table = "usr"\nkey = ["idu"]\n'
    settings = 'header_columns = 7\nmask_order = "msb"\n'
    (tmp_path / "job.toml").write_text(job + settings)
    path = write(tmp_path / f"usr__ct{suffix}", CHANGES)
    shown = inspect_rows(path, "-c", str(tmp_path / "job.toml"))
    first = 2 if suffix == ".csv" else 1
    assert [int(str(each["record"])) - first for each in shown] == [0, 2, 3, 4, 6, 6, 7]
    assert [each.get("key") for each in shown[4:6]] == ["idu=3", "idu=9"]
    assert shown[-1]["reason"] == "before-image-alone"
    assert json.loads(str(shown[-1]["raw"]))["fname"] == "waits"


def test_events_stand_in_the_order_of_their_file_with_those_that_a_run_would_hold(
    tmp_path: Path,
) -> None:
    rows = [
        event(1),
        event(2, event_type=99),
        event(3, event_time="2999-01-01 00:00:00"),
        event(None),
        event(5),
    ]
    lines = [",".join(rows[0])]
    lines += [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
    (tmp_path / "log.csv").write_text("\n".join([*lines[:3], "broken", *lines[3:]]) + "\n")
    shown = inspect_rows(tmp_path / "log.csv")
    assert [each["record"] for each in shown] == [2, 3, 4, 5, 6, 7]
    assert [each.get("outcome") for each in shown] == [
        *(None, "rejected", "rejected", None, "rejected", None)
    ]
    assert shown[3]["columns"] == [{"name": "fname", "old": "Jack", "new": "John"}]


def test_rejects_find_their_place_in_a_file_of_any_length() -> None:
    place = Place(0, 0, "log.csv", 4)
    frame, frames = 8192, 20

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, frame * frames, frame):
            numbers = np.arange(start, start + frame)
            for parity in (1, 0):
                expected = {"outcome": Outcome.IGNORED.value, "reason": str(Reason.STATUS)}
                yield nameless(place, numbers[parity::2], **expected)
        yield tally(place, frame * frames)

    rows = [each["row"] for each in in_order(batches(), "event-log")]
    assert rows == list(range(frame * frames))


@pytest.mark.parametrize(
    ("table", "column"), [("usr_phone", "phoneno"), ("usr", "usr_phone.phoneno")]
)
def test_columns_of_child_tables_are_shown_with_their_table_and_the_object_of_the_parent(
    table: str, column: str, tmp_path: Path
) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    names = {"table_name": table, "column_name": column}
    path = tmp_path / "log.csv"
    path.write_text(csv_text([event(1, **names), event(2, column_name="fname")]))
    of_child, of_parent = inspect_rows(path, "-c", str(tmp_path / "job.toml"))
    assert (of_child["table"], of_child["key"]) == ("usr", "idu=1")
    images = {"old": "Jack", "new": "John"}
    assert of_child["columns"] == [{"name": "usr_phone.phoneno", "child": "usr_phone"} | images]
    assert of_parent["columns"] == [{"name": "fname"} | images]
