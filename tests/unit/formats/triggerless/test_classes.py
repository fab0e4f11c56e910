"""Whole objects are compared: a parent's row with the values of its child tables."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from lxml import etree

from publisher.config.job_file import load
from publisher.consumer import Objects, part_files, read_files
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError, UnreachableError
from publisher.formats.migration import Migration
from publisher.runs import migrate
from tests.support.compared_classes import (
    Rows,
    expected_objects,
    follow,
    objects_in,
    publish_classes,
    write_classes,
)
from tests.support.compared_jobs import kinds_and_keys, operations_of
from tests.support.local_engine import EngineSwitch, ScriptedEngine

pytestmark = pytest.mark.usefixtures("local_engine")

Tables = Mapping[str, Rows]

ANN: Tables = {
    "usr": [("1", "Ann"), ("2", "Bob")],
    "phone": [("1", "222"), ("1", "111"), ("1", "222"), ("1", None)],
    "member": [("1", "9"), ("1", "7")],
}
keys = st.integers(1, 4).map(str)
texts = st.none() | st.text("aé\\\n,&", max_size=2)
numbers = st.none() | st.integers(7, 9).map(str)
snapshots = st.fixed_dictionaries(
    {
        "usr": st.lists(st.tuples(keys, texts), unique_by=lambda row: row[0], max_size=4),
        "phone": st.lists(st.tuples(keys, texts), max_size=8),
        "member": st.lists(st.tuples(keys, numbers), max_size=6),
    }
)


@hypothesis_settings(
    max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(snapshots, snapshots, st.sampled_from(["columns", "values"]), st.integers(0, 2))
@example(
    ANN, {"usr": [("1", "Ann")], "phone": [("1", "a\nb"), ("1", "a\\n")], "member": []}, "values", 1
)
def test_documents_turn_the_first_objects_into_the_second(
    first: Tables, second: Tables, state: str, bits: int
) -> None:
    consumer = Objects(strict=True)
    with TemporaryDirectory() as name:
        for number, tables in enumerate((first, second)):
            write_classes(Path(name), tables)
            buckets = 1 << (bits + number) % 3
            report = publish_classes(Path(name), f'state = "{state}"\nbuckets = {buckets}')
            follow(consumer, Path(name), report)
            assert objects_in(consumer) == expected_objects(tables)


def attributes_of(operation: etree._Element) -> dict[str, str]:
    """The content of each attribute's element."""
    return {
        str(part.attrib["attr-name"]): "".join(
            etree.tostring(item, encoding="unicode", with_tail=False) for item in part
        )
        for part in operation
        if part.tag != "association"
    }


def value(text: str) -> str:
    return f'<value type="string">{text}</value>'


def reference(key: str) -> str:
    return f'<value type="dn" association-ref="idg={key},table=grp">idg={key},table=grp</value>'


def test_a_new_object_has_the_values_of_its_children(tmp_path: Path) -> None:
    write_classes(tmp_path, ANN)
    report = publish_classes(tmp_path)
    ann, bob = operations_of(report, tmp_path)
    assert attributes_of(ann) == {
        "fname": value("Ann"),
        "member.idg": reference("7") + reference("9"),
        "phone.no": value("111") + value("222"),
    }
    assert attributes_of(bob) == {"fname": value("Bob")}
    assert (report.read, report.operations) == (2, {"add": 2})


@pytest.mark.parametrize(
    ("state", "changed"),
    [
        (
            "values",
            {
                "member.idg": f"<remove-value>{reference('9')}</remove-value>",
                "phone.no": f"<remove-value>{value('222')}</remove-value>"
                f"<add-value>{value('333')}</add-value>",
            },
        ),
        (
            "columns",
            {
                "member.idg": f"<remove-all-values/><add-value>{reference('7')}</add-value>",
                "phone.no": f"<remove-all-values/><add-value>{value('111')}{value('333')}</add-value>",
            },
        ),
    ],
)
def test_changed_rows_of_child_tables_publish_attributes_of_the_parent(
    tmp_path: Path, state: str, changed: dict[str, str]
) -> None:
    write_classes(tmp_path, ANN)
    publish_classes(tmp_path, f'state = "{state}"')
    later = {**ANN, "phone": [("1", "333"), ("1", "111")], "member": [("1", "7")]}
    write_classes(tmp_path, later)
    report = publish_classes(tmp_path, f'state = "{state}"')
    (operation,) = operations_of(report, tmp_path)
    assert (operation.tag, attributes_of(operation)) == ("modify", changed)
    write_classes(tmp_path, {**ANN, "usr": [("2", "Bob")], "phone": [], "member": []})
    report = publish_classes(tmp_path, f'state = "{state}"')
    assert kinds_and_keys(report, tmp_path) == [("delete", "1")]


def test_only_the_class_of_a_changed_file_is_compared(tmp_path: Path) -> None:
    write_classes(tmp_path, ANN)
    publish_classes(tmp_path)
    assert publish_classes(tmp_path).state == "nothing new to read"
    write_classes(tmp_path, {"phone": []})
    report = publish_classes(tmp_path)
    assert (report.read, kinds_and_keys(report, tmp_path)) == (2, [("modify", "1")])


def test_a_row_without_parent_is_rejected(tmp_path: Path) -> None:
    write_classes(tmp_path, {**ANN, "phone": [("8", "lost"), (None, "unlinked"), ("2", "kept")]})
    report = publish_classes(tmp_path)
    assert report.reasons == {"rejected": {"table-key": 2}}
    assert [attributes_of(op).get("phone.no") for op in operations_of(report, tmp_path)] == [
        None,
        value("kept"),
    ]
    lines = (tmp_path / "out" / "runs" / report.run / "rejects.jsonl").read_text().splitlines()
    details = sorted(json.loads(line)["detail"] for line in lines)
    assert "child table phone has a row of idu=8, which usr has not" in details[0]
    assert "phone.csv, record 3" in details[1]


def test_an_unreadable_row_of_a_child_keeps_the_known_values(tmp_path: Path) -> None:
    for state in ("columns", "values"):
        base = tmp_path / state
        base.mkdir()
        more = f'state = "{state}"'
        write_classes(base, ANN)
        publish_classes(base, more)
        (base / "in" / "phone.csv").write_text("idu,no\n1,333\n1,4,5\n")
        write_classes(base, {"member": []})
        first = operations_of(publish_classes(base, more), base)
        assert [name for op in first for name in attributes_of(op)] == ["member.idg"], state
        write_classes(base, {"phone": [("1", "333")]})
        (operation,) = operations_of(publish_classes(base, more), base)
        assert "333" in attributes_of(operation)["phone.no"]


def test_a_missing_file_of_a_child_is_refused(tmp_path: Path) -> None:
    write_classes(tmp_path, ANN)
    (tmp_path / "in" / "phone.csv").unlink()
    with pytest.raises(FatalError, match="there is no file of phone, a child table of usr"):
        publish_classes(tmp_path)
    write_classes(tmp_path, ANN)
    (tmp_path / "in" / "usr.csv").unlink()
    with pytest.raises(FatalError, match="child table of usr, but there is no file of usr"):
        publish_classes(tmp_path)


def test_an_earlier_snapshot_has_child_tables(tmp_path: Path) -> None:
    write_classes(tmp_path, ANN, "old")
    write_classes(tmp_path, {**ANN, "phone": [("1", "111"), ("1", "222")], "member": []})
    report = publish_classes(tmp_path, 'before = ["old"]\nstate = "values"')
    (operation,) = operations_of(report, tmp_path)
    removed = f"<remove-value>{reference('7')}{reference('9')}</remove-value>"
    assert attributes_of(operation) == {
        "member.idg": removed.replace(
            "</value><value", "</value></remove-value><remove-value><value"
        )
    }


def test_a_migration_publishes_whole_objects(tmp_path: Path) -> None:
    write_classes(tmp_path, ANN)
    publish_classes(tmp_path)
    settings = load(tmp_path / "job.toml")
    report = migrate.migrate(settings, Migration(("usr",), keys=("idu=1",)))
    (operation,) = operations_of(report, tmp_path)
    assert attributes_of(operation)["phone.no"] == value("111") + value("222")
    report = migrate.migrate(settings, Migration(equal=(("fname", "Ann"),)))
    assert (report.operations, report.reasons) == ({"add": 1}, {})
    assert publish_classes(tmp_path).state == "nothing new to read"


def test_child_tables_that_are_switched_on_are_new_attributes(tmp_path: Path) -> None:
    write_classes(tmp_path, ANN)
    rest = "[classes]\nminimal_metadata = true"
    more = 'key = { phone = ["idu", "no"], member = ["idu", "idg"] }\ntables = ["usr", "phone", "member"]'
    write_classes(tmp_path, {**ANN, "phone": [("1", "111")]})
    rows = operations_of(publish_classes(tmp_path, more, rest), tmp_path)
    assert {name for row in rows for name in attributes_of(row)} == {"fname"}
    write_classes(tmp_path, {**ANN, "usr": [*ANN["usr"], ("3", None)]})
    report = publish_classes(tmp_path)
    assert kinds_and_keys(report, tmp_path) == [("add", "3"), ("modify", "1")]
    assert report.outcomes["ignored"] == 1


KILLED = """
import os, signal, sys
from publisher.config.job_file import load
from publisher.runs import run as spine
from publisher.runs.publish import publish as publish_job
from pathlib import Path
spine.send = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
publish_job(load(Path(sys.argv[1])))
"""
ROOT = Path(__file__).parents[4]


def test_a_kill_between_ledger_and_dispatch_neither_loses_nor_repeats_values(
    tmp_path: Path,
) -> None:
    more, consumer = 'state = "values"', Objects(strict=True)
    write_classes(tmp_path, ANN)
    follow(consumer, tmp_path, publish_classes(tmp_path, more))
    write_classes(tmp_path, {"phone": [("1", "333")]})
    command = [sys.executable, "-c", KILLED, str(tmp_path / "job.toml")]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    last = {**ANN, "phone": [("1", "333"), ("2", "444")], "member": []}
    write_classes(tmp_path, last)
    publish_classes(tmp_path, more)
    for run in sorted((tmp_path / "out" / "runs").iterdir())[1:]:
        consumer.apply_all(read_files(part_files(run)))
    assert objects_in(consumer) == expected_objects(last)


def test_a_run_that_fails_loses_no_value(local_engine: EngineSwitch, tmp_path: Path) -> None:
    write_classes(tmp_path, ANN)
    publish_classes(tmp_path)
    write_classes(tmp_path, {"phone": []})
    local_engine.use(lambda: ScriptedEngine(UnreachableError("away: try again")))
    with pytest.raises(UnreachableError):
        publish_classes(tmp_path)
    local_engine.use(LocalEngine)
    assert kinds_and_keys(publish_classes(tmp_path), tmp_path) == [("modify", "1")]
