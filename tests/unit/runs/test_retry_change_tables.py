"""Rejected UPDATEs of change tables come back with their before images, as one change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.change_table_files import record as change
from tests.support.change_table_files import write
from tests.support.retried_jobs import ROWS
from tests.support.retried_rejects import documents, export_all, invoke, retry
from tests.support.samples.change_table import COLUMNS

pytestmark = pytest.mark.usefixtures("local_engine")

SINK = '[run]\nlanes = 4\n[dispatch]\npath = "out"\n'
JOINED = 'key_change = "modify-association"\n'
BELL = "Eve \x07"
INSERT = change(1, "I", [0, 1], idu="1", fname="Ann")
BEFORE = change(2, "B", idu="1", fname="Ann")


def _publish(
    base: Path, rows: list[dict[str, Any]], more: str = "", name: str = "usr__ct.csv"
) -> None:
    (base / "job.toml").write_text(ROWS + more + SINK)
    (base / "in").mkdir(exist_ok=True)
    write(base / "in" / name, [{column: row.get(column) for column in COLUMNS} for row in rows])
    invoke(base, "publish", "--engine", "local")


def _retry(base: Path, entries: list[dict[str, Any]]) -> str:
    """Retries records without the wrong characters; returns the documents."""
    fixed = [json.loads(json.dumps(entry).replace(" \\u0007", "")) for entry in entries]
    result = retry(base, fixed)
    assert result.exit_code == 0, result.stderr
    assert retry(base, fixed).exit_code == 2
    assert export_all(base) == []
    return "".join(documents(base, json.loads(result.stdout)["run"]))


@pytest.mark.parametrize("name", ["usr__ct.csv", "usr__ct.jsonl", "usr__ct.parquet"])
@pytest.mark.parametrize("distance", [0, 200])
def test_an_update_keeps_its_old_values(tmp_path: Path, name: str, distance: int) -> None:
    between = [change(10 + n, "I", [0, 1], idu=str(10 + n), fname="x") for n in range(distance)]
    update = change(2, "U", [1], idu="1", fname=BELL)
    _publish(tmp_path, [INSERT, BEFORE, *between, update, BEFORE, update], name=name)
    (entry,) = export_all(tmp_path)
    assert entry["raw"]["before image"]["fname"] == "Ann"
    text = _retry(tmp_path, [entry])
    assert '<remove-value><value type="string">Ann</value>' in text
    assert ">Eve<" in text


@pytest.mark.parametrize(
    ("more", "kinds"), [("", ["<delete ", "<add "]), (JOINED, ["<modify-association>", "<modify "])]
)
def test_a_changed_key_comes_back_whole(tmp_path: Path, more: str, kinds: list[str]) -> None:
    update = change(2, "U", [0, 1], idu="4", fname=BELL)
    _publish(tmp_path, [INSERT, BEFORE, update], more)
    (entry,) = export_all(tmp_path)
    text = _retry(tmp_path, [entry])
    assert [text.count(kind) for kind in kinds] == [1, 1]
    assert "idu=1" in text
    assert "idu=4" in text
    assert ">Eve<" in text


def test_a_pair_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [INSERT, BEFORE]
    write(tmp_path / "in" / "usr__ct.jsonl", [{c: row.get(c) for c in COLUMNS} for row in rows])
    _publish(tmp_path, [change(2, "U", [1], idu="1", fname=BELL)])
    (entry,) = export_all(tmp_path)
    assert ">Ann<" in _retry(tmp_path, [entry])


def test_a_pair_that_was_rejected_as_two_records_is_retried_as_one_change(tmp_path: Path) -> None:
    update = change(2, "U", [1], idu="1", fname="Eve") | {"header__change_mask": "zz"}
    _publish(tmp_path, [INSERT, BEFORE, update])
    entries = export_all(tmp_path)
    assert [entry["raw"]["header__change_oper"] for entry in entries] == ["B", "U"]
    entries[1]["raw"]["header__change_mask"] = "00"
    text = _retry(tmp_path, entries[::-1])
    assert ">Ann<" in text
    listed = json.loads(invoke(tmp_path, "rejects", "--json").stdout)
    assert listed == []


def test_a_removed_before_image_leaves_the_new_values(tmp_path: Path) -> None:
    _publish(tmp_path, [INSERT, BEFORE, change(2, "U", [1], idu="1", fname=BELL)])
    (entry,) = export_all(tmp_path)
    text = _retry(tmp_path, [entry | {"raw": entry["raw"] | {"before image": None}}])
    assert ">Ann<" not in text
    assert ">Eve<" in text
