"""Rejected transactions are corrected and published as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from publisher.formats.linkexpress.options import ByteOrder
from tests.support.dispatch_queue_codes import COMMIT, INSERT, UPDATE
from tests.support.dispatch_queue_files import BIG, Queue, Row, binary, delimited_text, image
from tests.support.dispatch_queue_files import jack as queue_jack
from tests.support.dispatch_queue_jobs import JOB as QUEUE_JOB
from tests.support.dispatch_queue_jobs import transactions
from tests.support.linkexpress_files import (
    GROUP,
    WRONG_NAME,
    group_source,
    jack,
    mark,
    record,
)
from tests.support.local_engine import EngineSwitch
from tests.support.retried_rejects import documents, export, export_all, invoke, objects, retry

SINK = '\n[run]\nlanes = 1\n[dispatch]\npath = "out"\n'


def _write_job(base: Path, text: str) -> None:
    (base / "job.toml").write_text(text)
    (base / "in").mkdir()


def _report(base: Path, entries: list[dict[str, Any]], code: int = 0) -> dict[str, Any]:
    result = retry(base, entries)
    assert result.exit_code == code, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


@pytest.mark.parametrize("order", ["big", "little"])
def test_a_transaction_of_a_group_is_published_once(
    tmp_path: Path, local_engine: EngineSwitch, order: ByteOrder
) -> None:
    del local_engine
    _write_job(tmp_path, group_source('snapshots = ["in"]') + SINK)
    first = [record(GROUP, *jack(number, 1), order) for number in (1, 2)]
    second = [record(GROUP, *jack(number, 1), order) for number in (3, 4)]
    wrong = record(GROUP, *jack(5, name=WRONG_NAME), order)
    content = [first[0], wrong, first[1], mark(GROUP, order), *second, mark(GROUP, order)]
    (tmp_path / "in" / "group.dat").write_bytes(b"".join(content))
    invoke(tmp_path, "publish", "--engine", "local")
    assert objects(tmp_path, "job-000001") == ["idu=3", "idu=4"]

    entries = export(tmp_path, "value")
    assert sorted(entry["reason"] for entry in entries) == [*("held-back", "held-back", "value")]
    for entry in entries:
        if entry["reason"] == "value":
            assert bytes.fromhex(entry["raw"]["hex"]) == wrong
            entry["raw"] = {"hex": record(GROUP, *jack(5, 1), order).hex()}
    report = _report(tmp_path, entries[::-1])
    assert (report["read"], report["outcomes"]["published"]) == (4, 3)
    assert objects(tmp_path, "job-000002") == ["idu=1", "idu=5", "idu=2"]
    again = retry(tmp_path, entries)
    assert again.exit_code == 2
    assert again.stderr.count("retried in run job-000002: published") == 3


def test_event_ids_of_retried_extracts_are_new(tmp_path: Path, local_engine: EngineSwitch) -> None:
    del local_engine
    _write_job(
        tmp_path, group_source('snapshots = ["in"]') + SINK + "[documents]\nevent_id = true\n"
    )
    good, wrong = (record(GROUP, *jack(1, name=name)) for name in (b"Jack    ", WRONG_NAME))
    content = [good, mark(GROUP), wrong, good, mark(GROUP)]
    (tmp_path / "in" / "group.dat").write_bytes(b"".join(content))
    invoke(tmp_path, "publish", "--engine", "local")
    entries = export(tmp_path, "value")
    for entry in entries:
        entry["raw"] = {"hex": good.hex()}
    _report(tmp_path, entries)
    published = [*documents(tmp_path, "job-000001"), *documents(tmp_path, "job-000002")]
    ids = [document.partition('event-id="')[2].partition('"')[0] for document in published]
    assert len(ids) == len(set(ids)) == 3
    assert all(ids)


def test_a_transaction_of_several_runs_is_published_together(
    tmp_path: Path, local_engine: EngineSwitch
) -> None:
    del local_engine
    _write_job(tmp_path, group_source('snapshots = ["in"]') + SINK)
    wrong = record(GROUP, *jack(2, name=WRONG_NAME))
    (tmp_path / "in" / "1.dat").write_bytes(record(GROUP, *jack(1, 1)) + wrong)
    invoke(tmp_path, "publish", "--engine", "local")
    (tmp_path / "in" / "2.dat").write_bytes(record(GROUP, *jack(3, 1)) + mark(GROUP))
    invoke(tmp_path, "publish", "--engine", "local")
    entries = export(tmp_path, "value")
    assert len(entries) == 3
    for entry in entries:
        if entry["reason"] == "value":
            entry["raw"] = {"hex": record(GROUP, *jack(2, 1)).hex()}
    assert _report(tmp_path, entries)["outcomes"]["published"] == 3
    run = max(path.name for path in (tmp_path / "out" / "runs").iterdir())
    assert sorted(objects(tmp_path, run)) == ["idu=1", "idu=2", "idu=3"]


def test_records_that_stay_rejected_are_named(tmp_path: Path, local_engine: EngineSwitch) -> None:
    del local_engine
    _write_job(tmp_path, group_source('snapshots = ["in"]') + SINK)
    content = record(GROUP, *jack(1, 1)) + record(GROUP, *jack(3, name=WRONG_NAME)) + mark(GROUP)
    (tmp_path / "in" / "group.dat").write_bytes(content)
    invoke(tmp_path, "publish", "--engine", "local")
    (held_back,) = [
        entry for entry in export(tmp_path, "held-back") if entry["reason"] == "held-back"
    ]
    report = _report(tmp_path, [held_back])
    assert report["outcomes"]["published"] == 1
    (note,) = [note for note in report["notes"] if "stay rejected" in note]
    assert note.startswith(
        "1 other rejected record(s) of the retried transactions are not in the file"
    )
    assert note.endswith(": job-000001:0:43")


def _queue(base: Path, rows: list[Row], *, text: bool, more: str = "") -> None:
    _write_job(base, QUEUE_JOB.format(more=more))
    if text:
        (base / "in" / "queue.csv").write_text(delimited_text(rows))
    else:
        (base / "in" / "queue.dat").write_bytes(binary(rows))
    invoke(base, "publish", "--engine", "local")


def _corrected(
    entries: list[dict[str, Any]], reason: str, **values: object
) -> list[dict[str, Any]]:
    assert reason in {entry["reason"] for entry in entries}
    return [
        entry | {"raw": entry["raw"] | values} if entry["reason"] == reason else entry
        for entry in entries
    ]


@pytest.mark.parametrize("text", [False, True])
def test_a_transaction_of_a_queue_is_published_once(
    tmp_path: Path, local_engine: EngineSwitch, text: bool
) -> None:
    del local_engine
    queue = Queue()
    rows = [
        queue.row(INSERT, queue_jack(1), TRANSACT_ID=1),
        queue.row(99, queue_jack(2), TRANSACT_ID=1),
        queue.row(UPDATE, queue_jack(1), queue_jack(1, "Jim"), TRANSACT_ID=1),
        queue.row(INSERT, queue_jack(3), TRANSACT_ID=2),
        queue.row(COMMIT, TRANSACT_ID=1),
        queue.row(COMMIT, TRANSACT_ID=2),
        queue.row(INSERT, queue_jack(4), TRANSACT_ID=1),  # the number is used again
        queue.row(COMMIT, TRANSACT_ID=1),
    ]
    _queue(tmp_path, rows, text=text)
    assert objects(tmp_path, "job-000001") == ["idu=3", "idu=4"]
    entries = export(tmp_path, "operation-code")
    assert len(entries) == 3
    positions = [entry["position"] for entry in entries]
    report = _report(tmp_path, _corrected(entries, "operation-code", TYP=INSERT)[::-1])
    assert (report["read"], report["outcomes"]["published"]) == (4, 3)
    assert objects(tmp_path, "job-000002") == ["idu=1", "idu=2", "idu=1"]
    assert "Jim" in documents(tmp_path, "job-000002")[2]
    again = retry(tmp_path, entries)
    assert again.stderr.count("retried in run job-000002: published") == 3
    # the positions are those of the rejected operations
    shown = invoke(tmp_path, "explain", "--ledger", str(tmp_path / ".xds-publisher"), positions[0])
    assert shown.exit_code == 0, shown.output
    # another export with the same transaction publishes nothing
    (tmp_path / "in" / "again.dat").write_bytes(binary(rows))
    invoke(tmp_path, "publish", "--engine", "local")
    assert not objects(tmp_path, "job-000003")


def test_operations_that_no_document_can_hold_are_exported_as_they_were(
    tmp_path: Path, local_engine: EngineSwitch
) -> None:
    del local_engine
    _queue(tmp_path, transactions(), text=False)
    entries = export(tmp_path, "forbidden-character")
    assert len(entries) == 7
    fixed = [
        entry | {"raw": entry["raw"] | {"first": entry["raw"]["first"].replace("420162", "426f62")}}
        for entry in entries
    ]
    assert _report(tmp_path, fixed)["outcomes"]["published"] == 7
    assert ">Bob<" in "".join(documents(tmp_path, "job-000002"))


@pytest.mark.parametrize("more", ["", 'key_change = "modify-association"'])
def test_a_record_with_several_changes_is_exported_once(
    tmp_path: Path, local_engine: EngineSwitch, more: str
) -> None:
    del local_engine
    queue = Queue()
    changed = queue.row(UPDATE, queue_jack(1), queue_jack(4, "B\x01b"), TRANSACT_ID=2)
    rows = [queue.row(INSERT, queue_jack(1)), queue.row(COMMIT), changed]
    _queue(tmp_path, [*rows, queue.row(COMMIT, TRANSACT_ID=2)], text=False, more=more)
    (entry,) = export_all(tmp_path)  # in two lanes
    second = entry["raw"]["second"].replace("420162", "426f62")
    report = _report(tmp_path, [entry | {"raw": entry["raw"] | {"second": second}}])
    assert report["documents"] == 2
    assert export_all(tmp_path) == []


@pytest.mark.parametrize("reading", ["totals", "per-part"])
def test_long_operations_of_a_queue_keep_their_images(
    tmp_path: Path, local_engine: EngineSwitch, reading: str
) -> None:
    del local_engine
    queue = Queue()
    content = image(BIG, [7, "a" * 1999, "b" * 2999])
    rows = [
        *queue.rows(INSERT, content, reading=reading, TABNUM_SRC=8, DST_TABLE=b"BIG"),
        queue.row(99, queue_jack(2)),
        queue.row(COMMIT),
    ]
    _queue(tmp_path, rows, text=False, more=f'parts = "{reading}"')
    entries = _corrected(export(tmp_path, "operation-code"), "operation-code", TYP=INSERT)
    assert _report(tmp_path, entries)["outcomes"]["published"] == 3  # one of two rows
    first, _ = documents(tmp_path, "job-000002")
    assert "a" * 1999 in first
    assert "b" * 2999 in first


def test_a_line_that_was_no_row_is_corrected_to_one(
    tmp_path: Path, local_engine: EngineSwitch
) -> None:
    del local_engine
    queue = Queue()
    rows = [queue.row(INSERT, queue_jack(1)), queue.row(INSERT, queue_jack(2)), queue.row(COMMIT)]
    good = delimited_text(rows)
    lines = good.splitlines(keepends=True)
    lines[2] = lines[2].replace(",9,", ",nine,", 1)
    _write_job(tmp_path, QUEUE_JOB.format(more=""))
    (tmp_path / "in" / "queue.csv").write_text("".join(lines))
    invoke(tmp_path, "publish", "--engine", "local")
    entries = export(tmp_path, "broken-record") + export_others(tmp_path)
    (other,) = [entry for entry in entries if entry["reason"] == "held-back"]
    (broken,) = [entry for entry in entries if entry["reason"] == "broken-record"]
    address = other["raw"]["SYSLOG_ADDR"].partition(".")
    raw = other["raw"] | {
        "SYSLOG_ADDR": f"{address[0]}.{int(address[2]) + 100}",
        "first": queue_jack(2).hex(),
    }
    report = _report(tmp_path, [broken | {"raw": raw}, other])
    assert (report["read"], report["outcomes"]["published"]) == (3, 2)
    assert sorted(objects(tmp_path, "job-000002")) == ["idu=1", "idu=2"]


def export_others(base: Path) -> list[dict[str, Any]]:
    (base / "rejects.jsonl").unlink()
    return export(base, "held-back")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"DBNODE": None, "first": "0"}, "raw is no operation"),
        ({"SYSLOG_ADDR": "7"}, "raw is no operation"),
        ({"OPER_DATE": "yesterday"}, "raw is no operation"),
        ({"TABNUM_SRC": 1 << 40}, "no row can hold the values of raw"),
        ({"DST_TABLE": "x" * 67}, "no row can hold the values of raw"),
    ],
)
def test_operations_that_no_row_can_hold_are_refused(
    tmp_path: Path, local_engine: EngineSwitch, values: dict[str, object], message: str
) -> None:
    del local_engine
    queue = Queue()
    _queue(tmp_path, [queue.row(99, queue_jack(1)), queue.row(COMMIT)], text=False)
    entries = _corrected(export(tmp_path, "operation-code"), "operation-code", **values)
    result = retry(tmp_path, entries)
    assert result.exit_code == 2
    assert f"fixed.jsonl:1: {message}" in result.stderr
    assert "write all columns of the row" in result.stderr
    assert not (tmp_path / "out" / "runs" / "job-000002").exists()
