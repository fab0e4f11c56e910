"""Copies of operations for several destinations, databases, and the names of tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from publisher.formats.dispatch_queue import DispatchQueue
from publisher.model.catalogue import JobCatalogue
from tests.support.dispatch_queue_codes import COMMIT, DELETE, INSERT
from tests.support.dispatch_queue_files import (
    USR,
    Queue,
    Row,
    binary,
    jack,
    options,
    read,
    record_text,
    texts_of_rows,
)
from tests.support.prepare import prepare_here

UNNAMED = replace(USR, name=None, schema=None)


def copies(second: bytes, **own: Any) -> list[Row]:
    queue = Queue()
    row = queue.row(INSERT, jack(1))
    return [row, row | {"DST_SERVER": b"SRV2", "DATA": second} | own, queue.row(COMMIT)]


def test_equal_copies_for_several_destinations_are_one_operation(tmp_path: Path) -> None:
    rows = copies(jack(1) + b"filler")
    assert texts_of_rows(rows, tmp_path) == ["1 idu=1", "ignored duplicate", "ignored commit"]
    assert texts_of_rows([rows[0], rows[2], rows[1]], tmp_path, 100) == [
        "1 idu=1",
        "ignored commit",
        "ignored duplicate",
    ]


@pytest.mark.parametrize("own", [{}, {"TYP": DELETE}, {"TABNUM_SRC": 8}, {"LEN1": 10}])
def test_copies_that_differ_are_rejected(own: dict[str, Any], tmp_path: Path) -> None:
    rows = copies(jack(1) if own else jack(2), **own)
    assert texts_of_rows(rows, tmp_path) == [*["rejected double-record"] * 2, "ignored commit"]


def test_one_destination_may_be_chosen(tmp_path: Path) -> None:
    rows = copies(jack(2))
    assert texts_of_rows(rows, tmp_path, destination="SRV2") == [
        "ignored not-chosen",
        "1 idu=2",
        "ignored commit",
    ]


def test_a_commit_for_each_destination_closes_once(tmp_path: Path) -> None:
    rows = copies(jack(1))
    rows.append(rows[-1] | {"DST_SERVER": b"SRV2"})
    assert texts_of_rows(rows, tmp_path)[2:] == ["ignored commit"] * 2


def test_databases_may_be_chosen_and_have_transactions_of_their_own(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1), DBNODE=b"A"),
        queue.row(INSERT, jack(2), DBNODE=b"B"),
        queue.row(COMMIT, DBNODE=b"B"),
    ]
    assert texts_of_rows(rows, tmp_path) == ["held open-transaction", "1 idu=2", "ignored commit"]
    rows.append(queue.row(COMMIT, DBNODE=b"A"))
    tables = (replace(USR, node="A", name="usr_a"), USR)
    found = texts_of_rows(rows, tmp_path, tables=tables)
    assert found == ["1 idu=1", "1 idu=2", "ignored commit", "ignored commit"]
    assert texts_of_rows(rows[:-1], tmp_path, nodes=("A",)) == [
        "held open-transaction",
        "ignored not-chosen",
        "ignored not-chosen",
    ]


def test_tables_without_a_name_are_named_by_their_destination(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1)),
        queue.row(INSERT, jack(2), DST_OWNER="Отдел".encode("cp866"), DST_TABLE=b"EMP"),
        queue.row(COMMIT),
    ]
    records, _ = read(options(tables=(UNNAMED,), charset="cp866"), binary(rows), tmp_path)
    named = [(record["schema"], record["table"]) for record in records[:2]]
    assert named == [("IDM", "USR"), ("Отдел", "EMP")]
    records, _ = read(options(tables=(UNNAMED,)), binary(rows), tmp_path)
    assert record_text(records[1]) == "rejected broken-record"
    assert "set charset" in records[1]["detail"]


def test_tables_that_destinations_name_are_described_after_the_survey(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1)),
        queue.row(INSERT, jack(2), DST_TABLE=b"EMP"),
        queue.row(INSERT, jack(3), DST_TABLE=b"", TRANSACT_ID=2),
        queue.row(COMMIT),
        queue.row(COMMIT, TRANSACT_ID=2),
    ]
    assert texts_of_rows(rows, tmp_path, tables=(UNNAMED,))[2] == "rejected table-name"
    source = DispatchQueue(options(tables=(UNNAMED,)))
    assert source.tables() == ()
    with prepare_here(source, [tmp_path / "queue.dat"], 3, JobCatalogue(())) as prepared:
        known = prepared.source
    assert isinstance(known, DispatchQueue)
    assert [(t.schema, t.name, t.key) for t in known.tables()] == [
        ("IDM", "EMP", ("idu",)),
        ("IDM", "USR", ("idu",)),
    ]
    assert known.tables()[0].columns["photo"] == "octet"


def test_copies_under_different_names_need_a_name(tmp_path: Path) -> None:
    rows = copies(jack(1), DST_TABLE=b"PEOPLE")
    assert texts_of_rows(rows, tmp_path) == ["1 idu=1", "ignored duplicate", "ignored commit"]
    found = texts_of_rows(rows, tmp_path, tables=(UNNAMED,))
    assert found == [*["rejected double-record"] * 2, "ignored commit"]
