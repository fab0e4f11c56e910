"""Rejected rows of compared tables are corrected, and later comparisons know what was published of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from publisher.journal.conservation import RunReport
from tests.support.compared_classes import publish_classes, write_classes
from tests.support.compared_jobs import kinds_and_keys, publish, table_row, write_job, write_table
from tests.support.event_log_files import csv_text, event
from tests.support.retried_rejects import documents, export_all, invoke, retry

pytestmark = pytest.mark.usefixtures("local_engine")

BELL = "bell \x07"
STATES = pytest.mark.parametrize("state", ["columns", "values"])


def _ring_off(entry: dict[str, Any]) -> dict[str, Any]:
    """Corrects a character that XML forbids."""
    return entry | {"raw": json.loads(json.dumps(entry["raw"]).replace(" \\u0007", "!"))}


def _retry(base: Path, entries: list[dict[str, Any]]) -> dict[str, Any]:
    result = retry(base, entries)
    assert result.exit_code in {0, 4}, result.stderr  # 4: rejected again
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def _refusal(base: Path, entries: list[dict[str, Any]]) -> str:
    result = retry(base, entries)
    assert result.exit_code == 2, result.output
    return result.stderr


@STATES
def test_corrected_rows_are_published_once(tmp_path: Path, state: str) -> None:
    more = f'state = "{state}"'
    write_table(tmp_path, [table_row(1), table_row(2, "Bob", "x")])
    publish(tmp_path, more)
    wrong = [table_row(1, BELL), table_row("x"), table_row(4, "a"), table_row(4, "b")]
    write_table(tmp_path, [*wrong, table_row(2, "Bob", BELL)])
    assert publish(tmp_path, more).outcomes["rejected"] == 5
    entries = [_ring_off(entry) for entry in export_all(tmp_path)]
    assert len(entries) == 5
    chosen = [entry for entry in entries if entry["raw"].get("fname") != "b"]
    for entry in chosen:
        if entry["reason"] == "table-key":
            entry["raw"]["idu"] = "7"
    assert _retry(tmp_path, chosen)["outcomes"]["published"] == 4
    text = "".join(documents(tmp_path, "job-000003"))
    assert text.count("<add ") == text.count("<modify ") == 2
    assert text.count(">bell!<") == 2
    assert ("<remove-value>" in text) == (state == "values")
    again = retry(tmp_path, chosen)
    assert again.stderr.count("retried in run job-000003: published") == 4
    journals = ("--journal", tmp_path / ".xds-publisher")
    shown = invoke(tmp_path, "explain", *journals, "idu=7").stdout
    (corrected,) = [entry for entry in chosen if entry["reason"] == "table-key"]
    assert f"rejected record {corrected['id']}" in shown
    listed = json.loads(invoke(tmp_path, "rejects", "--json").stdout)
    assert listed == []  # one of several rows with a key is corrected: none is rejected

    # the table is corrected as the records were: nothing is published
    rows = [table_row(1, "bell!"), table_row("7"), table_row(4, "a")]
    write_table(tmp_path, [*rows, table_row(2, "Bob", "bell!")])
    assert publish(tmp_path, more).reasons == {"ignored": {"unchanged": 4}}
    write_table(tmp_path, [*rows, table_row(2, "Eve", "bell!")])
    assert kinds_and_keys(publish(tmp_path, more), tmp_path) == [("modify", "2")]


@STATES
def test_rows_that_stay_wrong_are_not_published_again(tmp_path: Path, state: str) -> None:
    more = f'state = "{state}"'
    write_table(tmp_path, [table_row(1)])
    publish(tmp_path, more)
    wrong = [table_row(1, BELL), table_row("x"), table_row(3, BELL)]
    write_table(tmp_path, wrong)
    publish(tmp_path, more)
    entries = [_ring_off(entry) for entry in export_all(tmp_path)]
    for entry in entries:
        if entry["reason"] == "table-key":
            entry["raw"]["idu"] = "7"
    assert _retry(tmp_path, entries)["outcomes"]["published"] == 3
    write_table(tmp_path, [*wrong, table_row(9)])
    report = publish(tmp_path, more)
    assert kinds_and_keys(report, tmp_path) == [("add", "9")]
    assert report.reasons["rejected"] == {"table-key": 1}
    # another correction, and rows that are gone, are compared with the corrected rows
    write_table(tmp_path, [table_row(1, "Ann"), table_row(9)])
    report = publish(tmp_path, more)
    assert kinds_and_keys(report, tmp_path) == [("delete", "3"), ("delete", "7"), ("modify", "1")]


@STATES
def test_a_correction_that_is_rejected_again_is_not_counted_as_published(
    tmp_path: Path, state: str
) -> None:
    more = f'state = "{state}"'
    write_table(tmp_path, [table_row(1)])
    publish(tmp_path, more)
    write_table(tmp_path, [table_row(1, BELL), table_row("x", "Bob")])
    publish(tmp_path, more)
    entries = export_all(tmp_path)
    for entry in entries:
        if entry["reason"] == "table-key":
            entry["raw"] |= {"idu": "7", "fname": BELL}
    assert _retry(tmp_path, entries)["outcomes"]["rejected"] == 2
    again = [entry for entry in export_all(tmp_path) if entry["id"].startswith("job-000003")]
    fixed = [_ring_off(entry) for entry in again if "idu=1" in json.dumps(entry["raw"])]
    assert _retry(tmp_path, fixed)["outcomes"]["published"] == 1
    write_table(tmp_path, [table_row(1, "bell!"), table_row(7, "Bob")])
    report = publish(tmp_path, more)
    assert kinds_and_keys(report, tmp_path) == [("add", "7")]


def test_a_row_still_unreadable_is_rejected_again(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row("x"), table_row(1)])
    publish(tmp_path)
    entries = export_all(tmp_path)
    report = _retry(tmp_path, entries)
    assert (report["read"], report["reasons"]) == (1, {"rejected": {"table-key": 1}})
    (again,) = [entry for entry in export_all(tmp_path) if entry["id"].startswith("job-000002")]
    assert again["raw"] == entries[0]["raw"]
    again["raw"]["idu"] = "1"  # is known as it is
    assert _retry(tmp_path, [again])["reasons"] == {"ignored": {"unchanged": 1}}


def test_a_retry_keeps_the_states_of_other_tables_and_sources(tmp_path: Path) -> None:
    rest = '[tables.dep]\nkey = ["idu"]\n[[sources]]\nname = "log"\nsnapshots = ["log"]\n'
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.csv").write_text(csv_text([event(1, event_type="9"), event(2)]))
    write_table(tmp_path, [table_row(1, BELL), table_row(2)])
    write_table(tmp_path, [table_row(1), table_row(3, BELL)], "dep.csv")
    assert publish(tmp_path, rest=rest).outcomes["rejected"] == 3
    entries = [_ring_off(entry) for entry in export_all(tmp_path)]
    for entry in entries:
        if entry["source"] == "log":
            entry["raw"]["event_type"] = "1"
    dry = invoke(tmp_path, "rejects", "--json", "--dry-run", "--retry", _write(tmp_path, entries))
    assert json.loads(dry.stdout)["outcomes"]["published"] == 3
    assert _retry(tmp_path, entries[::-1])["outcomes"]["published"] == 3
    assert invoke(tmp_path, "rejects").stdout == "no rejected records\n"
    assert publish(tmp_path, rest=rest).state == "nothing new to read"
    write_table(tmp_path, [table_row(1), table_row(3, "bell!"), table_row(4)], "dep.csv")
    assert kinds_and_keys(publish(tmp_path, rest=rest), tmp_path) == [("add", "4")]


def _write(base: Path, entries: list[dict[str, Any]]) -> Path:
    path = base / "dry.jsonl"
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


def _child_row(base: Path, more: str) -> tuple[RunReport, dict[str, Any]]:
    """Rejects a row of a child table."""
    tables = {"usr": [("1", "Ann")], "phone": [("1", "222")], "member": []}
    write_classes(base, tables)
    publish_classes(base, more)
    write_classes(base, tables | {"phone": [("1", "222"), ("x", "333")]})
    report = publish_classes(base, more)
    (entry,) = export_all(base)
    assert entry["raw"] == {"idu": "x", "no": "333"}
    return report, entry | {"raw": {"idu": "1", "no": "333"}}


def test_a_row_of_a_child_table_adds_its_value(tmp_path: Path) -> None:
    more = 'state = "values"'
    _, entry = _child_row(tmp_path, more)
    assert _retry(tmp_path, [entry])["outcomes"]["published"] == 1
    (text,) = documents(tmp_path, "job-000003")
    assert text.count("<value") == 1
    assert ">333<" in text
    write_classes(
        tmp_path, {"usr": [("1", "Ann")], "phone": [("1", "333"), ("1", "222")], "member": []}
    )
    assert publish_classes(tmp_path, more).documents == 0


def test_one_value_cannot_be_added_to_hashes(tmp_path: Path) -> None:
    _, entry = _child_row(tmp_path, 'state = "columns"')
    message = _refusal(tmp_path, [entry])
    assert "fixed.jsonl:1 has single values of phone.no" in message
    assert "correct it in the table" in message


@pytest.mark.parametrize("state", ["columns", "values"])
def test_changed_values_of_an_object_are_corrected(tmp_path: Path, state: str) -> None:
    more = f'state = "{state}"'
    write_classes(
        tmp_path, {"usr": [("1", "Ann")], "phone": [("1", "2"), ("1", "3")], "member": []}
    )
    publish_classes(tmp_path, more)
    now = {"usr": [("1", "Ann")], "phone": [("1", "3"), ("1", BELL)], "member": []}
    write_classes(tmp_path, now)
    publish_classes(tmp_path, more)
    (entry,) = map(_ring_off, export_all(tmp_path))
    assert _retry(tmp_path, [entry])["outcomes"]["published"] == 1
    (text,) = documents(tmp_path, "job-000003")
    values = ["2", "bell!"] if state == "values" else ["3", "bell!"]
    assert text.count("<value") == len(values)
    assert all(f">{value}<" in text for value in values)
    write_classes(tmp_path, now | {"phone": [("1", "3"), ("1", "bell!")]})
    assert publish_classes(tmp_path, more).documents == 0


def test_the_row_of_a_parent_keeps_the_values_of_its_child_tables(tmp_path: Path) -> None:
    tables = {"usr": [("1", "Ann"), ("2", "Bob")], "phone": [("1", "222")], "member": []}
    write_classes(tmp_path, tables)
    publish_classes(tmp_path)
    write_classes(tmp_path, tables | {"usr": [("x", "Eve"), ("2", "Bob")]})
    publish_classes(tmp_path)
    (entry,) = [e for e in export_all(tmp_path) if "fname" in e["raw"]]
    entry["raw"]["idu"] = "1"
    assert _retry(tmp_path, [entry])["operations"] == {"modify": 1}
    write_classes(tmp_path, tables | {"usr": [("1", "Eve"), ("2", "Bob")]})
    assert publish_classes(tmp_path).documents == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw | {"other": "x", "idu": "1"}, "no comparison of usr has read other"),
        (lambda raw: {"fname": "x"}, "the key column idu of usr is missing"),
        (lambda raw: "idu=1", "raw is not an object"),
        (
            lambda raw: {"key": "idu=1", "event_type": 99, "columns": [], "old": None, "new": []},
            "raw is no change of usr",
        ),
        (
            lambda raw: {"key": "7", "event_type": 3, "columns": [], "old": None, "new": []},
            "raw is no change of usr (",
        ),
    ],
)
def test_what_is_no_row_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    write_job(tmp_path)
    write_table(tmp_path, [table_row("x")])
    publish(tmp_path)
    (entry,) = export_all(tmp_path)
    refusal = _refusal(tmp_path, [entry | {"raw": change(entry["raw"])}])
    assert "fixed.jsonl:1" in refusal
    assert message in refusal
    assert publish(tmp_path).state == "nothing new to read"
