"""Hostile exports for comparisons, and their required results."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from publisher.config.job_file import load
from publisher.engine.local import LocalEngine
from publisher.engine.local_rows import LocalRows
from publisher.errors import PublisherError
from publisher.formats.contract import Context
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.source import Triggerless
from publisher.model.change import TALLY, Outcome
from publisher.runs.publish import publish as publish_job
from tests.support.compared_classes import publish_classes, write_classes
from tests.support.compared_jobs import (
    kinds_and_keys,
    operations_of,
    publish,
    table_row,
    write_job,
    write_table,
)
from tests.support.event_log_files import USR, Tables
from tests.support.local_engine import EngineSwitch
from tests.support.prepare import prepare_here

pytestmark = pytest.mark.usefixtures("local_engine")

HEAD = "idu,fname,lname,photo\n"
BEFORE = HEAD + "".join(f'{n},Ann,Lee,"AA=="\n' for n in range(1, 6))
SAME = BEFORE.removeprefix(HEAD)


class ExportCase(NamedTuple):
    """An export after ``BEFORE``: rows and rejects that come of it, or why it is refused."""

    name: str
    content: str | bytes
    records: int = 0
    events: dict[int, int] = {}  # noqa: RUF012 - never changed
    rejected: dict[str, int] = {}  # noqa: RUF012 - never changed
    refused: str = ""


CASES = [
    ExportCase("nothing at all", "", refused="has no header with column names"),
    ExportCase("no rows", HEAD, 5, {4: 5}),
    ExportCase("the same", BEFORE, 5),
    ExportCase("the same, other order, CRLF", HEAD + "\r\n".join(reversed(SAME.split("\n"))), 5),
    ExportCase("no key column", BEFORE.replace("idu", "id"), refused="no column 'id'"),
    ExportCase(
        "a column that is not there", BEFORE.replace("fname", "nick"), refused="no column 'nick'"
    ),
    ExportCase("a column twice", BEFORE.replace("lname", "fname"), refused="appears twice"),
    ExportCase("other columns", "lname,idu\n" + "".join(f"Lee,{n}\n" for n in range(1, 6)), 5),
    ExportCase("names in another case", BEFORE.replace("fname", "FNAME"), 5),
    ExportCase("a field too many", BEFORE + "6,a,b,AA==,x\n", 6, {}, {"broken-record": 1}),
    ExportCase("cut in a row", BEFORE[:-8], 5, {}, {"broken-record": 1}),
    ExportCase(
        "an open quote", HEAD + '1,"Ann\n' + SAME[SAME.index("2,") :], 4, {}, {"broken-record": 1}
    ),
    ExportCase(
        "no UTF-8", BEFORE.encode().replace(b"3,Ann", b"3,\xe9"), 5, {}, {"broken-record": 1}
    ),
    ExportCase("no Base64", BEFORE + '6,Ann,Lee,"?"\n', 6, {}, {"value": 1}),
    ExportCase("key NULL", BEFORE + ",Ann,Lee,\n", 6, {}, {"table-key": 1}),
    ExportCase("key empty", BEFORE + '"",Ann,Lee,\n', 6, {}, {"table-key": 1}),
    ExportCase("key no number", BEFORE + "0x6,Ann,Lee,\n", 6, {}, {"table-key": 1}),
    ExportCase("keys written otherwise", BEFORE.replace("3,Ann", " +03,Ann"), 5),
    ExportCase("a key twice", BEFORE + "3,Eve,Lee,\n", 6, {}, {"double-record": 2}),
    ExportCase("a row twice", BEFORE + '3,Ann,Lee,"AA=="\n', 6),
    ExportCase(
        "all rows of one key", HEAD + "1,a,b,\n" * 3 + "1,c,d,\n", 8, {4: 4}, {"double-record": 4}
    ),
    ExportCase("a key as large as can be", BEFORE + "9" * 400 + ",Ann,Lee,\n", 6, {1: 1}),
    ExportCase(
        "bytes that are not text", b"\x00\xff\xfe" * 50, refused="primary key|missing|column"
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile_exports(case: ExportCase, tmp_path: Path) -> None:
    for side, content in (("before", BEFORE), ("now", case.content)):
        (tmp_path / side).mkdir()
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / side / "usr.csv").write_bytes(data)
    options = TriggerlessOptions(
        before=(str(tmp_path / "before"),), binary_text="base64", tables=("usr",)
    )
    source = Triggerless(options)
    records, framed = [], 0

    def read() -> None:
        nonlocal framed
        context = Context(0, 4, Tables({"usr": USR}))
        with prepare_here(source, [tmp_path / "now"], 1, context.catalogue) as prepared:
            for number in range(len(prepared.splits)):
                for batch in prepared.read(number, context):
                    for record in batch.to_pylist():
                        if record["outcome"] == TALLY:
                            framed += record["row"]
                        else:
                            records.append(record)

    if case.refused:
        with pytest.raises(PublisherError, match=case.refused):
            read()
        return
    read()
    assert framed == case.records == sum(record["records"] for record in records)
    events = Counter(record["event_type"] for record in records if record["outcome"] is None)
    assert events == case.events
    rejects = [record for record in records if record["outcome"] == Outcome.REJECTED]
    assert Counter(record["reason"] for record in rejects) == case.rejected
    for record in rejects:
        assert record["detail"]
        json.loads(record["raw"])


def test_a_table_that_is_all_but_empty_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(n) for n in range(300)])
    publish(tmp_path)
    write_table(tmp_path, [table_row(n) for n in range(149)])
    with pytest.raises(PublisherError, match="151 of 300 known rows of table usr"):
        publish(tmp_path)
    assert publish(tmp_path, "most_deleted = 1").operations == {"delete": 151}


def test_a_few_rows_may_always_be_gone(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(n) for n in range(100)])
    publish(tmp_path)
    write_table(tmp_path, [])
    assert publish(tmp_path).operations == {"delete": 100}


def test_a_file_that_changes_while_it_is_compared_is_refused(
    local_engine: EngineSwitch, tmp_path: Path
) -> None:
    write_table(tmp_path, [table_row(1), table_row(2)])
    settings = load(write_job(tmp_path))

    class ChangingEngine(LocalEngine):
        def read(self, splits: Any, decode: Any, name: str) -> LocalRows:
            if name.startswith("compare"):
                write_table(tmp_path, [table_row(1)])
            return super().read(splits, decode, name)

    local_engine.use(ChangingEngine)
    with pytest.raises(PublisherError, match="has changed since the run began"):
        publish_job(settings)
    local_engine.use(LocalEngine)
    assert kinds_and_keys(publish(tmp_path), tmp_path) == [("add", "1")]


def test_names_and_values_of_any_kind(tmp_path: Path) -> None:
    odd = 'a+b="c",\\<d>'
    (tmp_path / "in").mkdir()
    lines = [{"idu": n, odd: odd * n, "état civil": "\u202e"} for n in range(1, 4)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "in" / "usr.jsonl").write_text(text)
    path = write_job(tmp_path)
    path.write_text(
        path.read_text().partition("columns =")[0].replace('key = ["idu"]', f"key = ['{odd}']")
        + '[dispatch]\npath = "out"\n'
    )
    assert publish_job(load(path)).operations == {"add": 3}
    (tmp_path / "in" / "usr.jsonl").write_text(text.replace("202e", "202d"))
    assert publish_job(load(path)).operations == {"modify": 3}


def test_a_child_table_that_is_all_but_empty_is_refused(tmp_path: Path) -> None:
    users = [str(n) for n in range(300)]
    tables = {"usr": [(n, "Ann") for n in users], "phone": [(n, "1") for n in users], "member": []}
    write_classes(tmp_path, tables)
    publish_classes(tmp_path)
    write_classes(tmp_path, {"phone": [(n, "1") for n in users[:149]]})
    with pytest.raises(PublisherError, match=r"151 of 300 objects of table usr .* of phone\.no"):
        publish_classes(tmp_path)
    assert publish_classes(tmp_path, "most_deleted = 1").operations == {"modify": 151}


def test_an_attribute_of_100_000_values(tmp_path: Path) -> None:
    members = [("1", str(n)) for n in range(100_000)]
    write_classes(tmp_path, {"usr": [("1", "Ann")], "phone": [], "member": members})
    (added,) = operations_of(publish_classes(tmp_path, 'state = "values"'), tmp_path)
    assert len(added.findall("add-attr[@attr-name='member.idg']/value")) == 100_000
    write_classes(tmp_path, {"member": [*members[1:], ("1", "100000"), *members]})
    (changed,) = operations_of(publish_classes(tmp_path, 'state = "values"'), tmp_path)
    assert [value.text for value in changed.iter("value")] == ["idg=100000,table=grp"]


def test_a_child_table_that_is_linked_to_a_part_of_the_key_is_refused(tmp_path: Path) -> None:
    write_classes(tmp_path, {"usr": [("1", "Ann")], "phone": [("1", "2")], "member": []})
    publish_classes(tmp_path)
    path = tmp_path / "job.toml"
    path.write_text(path.read_text().replace('key = ["idu"]', 'key = ["idu", "fname"]'))
    path.write_text(
        path.read_text().replace('no = "string" } }', 'no = "string" }, key = ["idu"] }')
    )
    write_classes(tmp_path, {"phone": [("1", "3")]})
    with pytest.raises(PublisherError, match="phone is linked to a part of the key of usr"):
        publish_job(load(path))


def test_a_column_of_values_that_has_gone_is_refused(tmp_path: Path) -> None:
    write_classes(tmp_path, {"usr": [("1", "Ann")], "phone": [("1", "2")], "member": []})
    publish_classes(tmp_path)
    (tmp_path / "in" / "phone.csv").write_text("idu,number\n1,2\n")
    with pytest.raises(PublisherError, match="child table phone of usr has no column no"):
        publish_classes(tmp_path)
