"""Changes of keys in change tables: any lanes and splits give the rows that the changes lead to."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.consumer import Objects
from publisher.engine.local import LocalEngine
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.source import ChangeTable
from publisher.formats.work import Work
from publisher.model.catalogue import JobCatalogue
from publisher.model.change import Outcome
from publisher.runs.key_groups import group_keys
from tests.support import event_log_files
from tests.support.change_table_files import record, seq, write
from tests.support.event_log_files import Row
from tests.support.prepare import prepare_here
from tests.support.task_runs import apply_texts, lines, plan_all, read_all, results_of, work_of

NOTHING = JobCatalogue(())
OPTIONS = ChangeTableOptions(
    source_table="usr",
    key=("idu", "fname"),
    mask_order="msb",
    header_columns=7,
    images="full",
    key_change="modify-association",
)
Key = tuple[str, str]


class ChangedTable(NamedTuple):
    """The records of a change table, and the rows that they lead to: the last name of each key."""

    records: list[Row]
    rows: dict[Key, str]


def images(number: int, old: tuple[Key, str], new: tuple[Key, str]) -> list[Row]:
    values = [
        dict(zip(("idu", "fname", "lname"), (*key, text), strict=True)) for key, text in (old, new)
    ]
    bits = [place for place, name in enumerate(values[0]) if values[0][name] != values[1][name]]
    return [record(number, "B") | values[0], record(number, "U", bits) | values[1]]


@st.composite
def changed_tables(draw: st.DrawFn) -> ChangedTable:
    """Changes of a small table with a compound key; keys move in chains and in circles."""
    records: list[Row] = []
    rows: dict[Key, str] = {}
    keys = st.tuples(st.sampled_from("123"), st.sampled_from("ab"))
    for number in range(1, draw(st.integers(1, 40)) + 1):
        key, other, text = draw(keys), draw(keys), f"text {number}"
        if key not in rows:
            records.append(record(number, "I", [0, 1, 2], idu=key[0], fname=key[1], lname=text))
            rows[key] = text
        elif other not in rows:
            old = rows.pop(key)
            rows[other] = old if draw(st.booleans()) else text
            records += images(number, (key, old), (other, rows[other]))
        elif draw(st.booleans()):
            records += images(number, (key, rows[key]), (key, text))
            rows[key] = text
        else:
            records.append(record(number, "D", [0, 1], idu=key[0], fname=key[1]))
            del rows[key]
    return ChangedTable(records, rows)


def work_over(path: Path, lanes: int, splits: int, options: ChangeTableOptions = OPTIONS) -> Work:
    work = work_of([event_log_files.write(path.parent / "log.csv", [])], lanes=lanes)
    with prepare_here(ChangeTable(options), [path], splits, NOTHING) as prepared:
        source = replace(
            work.sources[0], source=prepared.source, splits=prepared.splits, polls=None
        )
    return group_keys(replace(work, sources=(source,)), LocalEngine())


@settings(max_examples=40, deadline=None)
@given(
    changed_tables(),
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from(["csv", "parquet", "jsonl"]),
)
def test_the_documents_lead_to_the_rows(
    table: ChangedTable, lanes: int, splits: int, kind: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = work_over(write(folder / f"usr__ct.{kind}", table.records), lanes, splits)
        results = plan_all(work, read_all(work), folder)
        counts = [
            (count.outcome, count.records)
            for result in results_of(results)
            for count in result.counts
        ]
        assert {outcome for outcome, _ in counts} == {Outcome.PUBLISHED}
        assert sum(records for _, records in counts) == len(table.records)
        objects = Objects(strict=True)
        apply_texts(objects, lines(results))
        assert {name: objects[name].text("lname") for name in objects} == {
            f"fname={fname}+idu={idu},table=usr": text for (idu, fname), text in table.rows.items()
        }


def documents_of(folder: Path, options: ChangeTableOptions, content: list[Row] | str) -> list[str]:
    path = folder / "usr__ct.jsonl"
    if isinstance(content, str):
        path.write_text(content)
    else:
        write(path, content)
    work = work_over(path, 3, 1, options)
    texts = lines(plan_all(work, read_all(work), folder))
    return [text.partition("<input>")[2].removesuffix("</input></nds>") for text in texts]


RENAME = (
    "<modify-association><association>fname=a+idu=1,table=usr</association>"
    "<association>fname=b+idu=2,table=usr</association></modify-association>"
)


def test_a_changed_key_is_a_modify_association_and_a_modify_of_the_rest(tmp_path: Path) -> None:
    rename, modify = documents_of(
        tmp_path, OPTIONS, images(1, (("1", "a"), "x"), (("2", "b"), "y"))
    )
    assert rename == RENAME
    assert modify == (
        '<modify class-name="usr"><association>fname=b+idu=2,table=usr</association>'
        '<modify-attr attr-name="lname"><remove-value><value type="string">x</value></remove-value>'
        '<add-value><value type="string">y</value></add-value></modify-attr></modify>'
    )


def test_messages_have_both_keys(tmp_path: Path) -> None:
    data = [{"idu": "1", "fname": "a", "lname": "x"}, {"idu": "2", "fname": "b", "lname": "x"}]
    headers = {"operation": "UPDATE", "changeSequence": seq(1), "changeMask": "03"}
    message = {"data": data[1], "beforeData": data[0], "headers": headers}
    options = replace(OPTIONS, layout="messages", header_columns=0)
    assert documents_of(tmp_path, options, json.dumps(message) + "\n") == [RENAME]


@pytest.mark.parametrize("spelling", ["01", "1"])
def test_a_key_without_its_before_image_is_rejected(tmp_path: Path, spelling: str) -> None:
    update = record(1, "U", [0], idu=spelling, fname="a", lname="x")
    assert documents_of(tmp_path, OPTIONS, [update]) == []
