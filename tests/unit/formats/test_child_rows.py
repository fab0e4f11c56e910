"""Rows of child tables: the objects that documents lead to equal the tables, in each format.

The oracle keeps the tables and joins them; it knows nothing of records, lanes and documents.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.config.job_file import load
from publisher.consumer.objects import Objects
from publisher.consumer.parse import parse_document
from publisher.database.resources import Resources
from publisher.errors import FatalError
from publisher.formats.work import SourceWork, Work
from publisher.ledger.conservation import check_conservation
from publisher.ledger.lane_result import LaneResult
from publisher.ledger.run_reader import DecidedRecord
from publisher.planning.filters import FilterOptions
from tests.support.child_rows import (
    CLASSES,
    PHONE,
    RECORDERS,
    USR,
    FormatName,
    History,
    RowChange,
    Values,
    story,
    tables_after,
    write_change_tables,
)
from tests.support.event_ids import ORIGIN
from tests.support.prepare import prepare_here
from tests.support.task_runs import lines, plan_all, planned_reader, read_all, results_of

LANES = 3
NUMBERS = ("111", "222", "+7 (3)", "a,b=c")


class Run(NamedTuple):
    """The documents of all lanes, the objects that they lead to, and the records by outcome and reason."""

    documents: list[str]
    objects: Objects
    outcomes: Counter[tuple[str, str | None]]
    records: list[DecidedRecord]


def run(
    folder: Path,
    format_: FormatName,
    paths: Sequence[Path],
    more: str = "",
    source_settings: str | None = None,
    classes: str = CLASSES,
) -> Run:
    """Reads and plans files in several splits and lanes; checks the conservation of records."""
    job = folder / "job.toml"
    settings_ = source_settings or RECORDERS[format_].settings
    job.write_text(f"{settings_}{classes}{more}", "utf-8")
    loaded = load(job)
    reader = loaded.for_replay().sources[0].reader
    with (
        Resources(loaded.rules) as resources,
        prepare_here(
            reader, paths, LANES, resources.catalogue_of(reader.format, reader.tables())
        ) as prepared,
    ):
        source = SourceWork(
            name=format_,
            source=prepared.source,
            splits=prepared.splits,
            filters=FilterOptions(),
            polls=None,
            identifier_case=loaded.sources[0].options.identifier_case,
            origin=ORIGIN,
        )
        work = Work((source,), loaded.rules, lanes=LANES, clock=0, shared=folder / ".shared")
        results = plan_all(work, read_all(work), folder)
    check_conservation(results_of(results), [list(range(len(source.splits)))])
    documents = lines(results)
    objects = Objects()
    for document in documents:
        for operation in parse_document(document):
            objects.apply(operation)
    records = list(planned_reader(results, folder).records())
    return Run(documents, objects, outcomes_of(results_of(results)), records)


def outcomes_of(results: Sequence[LaneResult]) -> Counter[tuple[str, str | None]]:
    found: Counter[tuple[str, str | None]] = Counter()
    for count in (count for result in results for count in result.counts):
        found[count.outcome.label, count.reason] += count.records
    return found


def association(idu: object) -> str:
    return f"idu={idu},table=usr,schema=indirect"


def expected_objects(tables: dict[str, dict[Any, Values]]) -> dict[str, dict[str, set[str]]]:
    """The objects of the tables: each with the texts of the values of its attributes."""
    objects: dict[str, dict[str, set[str]]] = {}
    for idu, fname, manager in tables[USR].values():
        phones = {phone for _, owner, phone in tables[PHONE].values() if owner == idu and phone}
        attributes = {
            "fname": {fname} if fname else set(),
            "manager": {association(manager)} if manager else set(),
            "usr_phone.phoneno": phones,
        }
        objects[association(idu)] = {name: texts for name, texts in attributes.items() if texts}
    return objects


def objects_of(objects: Objects) -> dict[str, dict[str, set[str]]]:
    """The objects of documents in the same form; change tables publish the key of inserted rows, too."""
    return {
        name: {
            attribute: {value.text for value in values}
            for attribute, values in known.attributes.items()
            if attribute != "idu"
        }
        for name, known in objects.items()
    }


class _Company:
    """Makes random transactions that obey the keys of both tables."""

    def __init__(self, chance: random.Random, *, may_be_null: bool) -> None:
        self._chance = chance
        self._tables: dict[str, dict[Any, Values]] = {USR: {}, PHONE: {}}
        self._next = 90
        self._phones = (*NUMBERS, None) if may_be_null else NUMBERS

    def transactions(self) -> Iterator[list[RowChange]]:
        for _ in range(self._chance.randint(1, 6)):
            transaction: list[RowChange] = []
            for _ in range(self._chance.randint(1, 6)):
                transaction += self._act()
            yield transaction

    def _act(self) -> list[RowChange]:
        users, phones = self._tables[USR], self._tables[PHONE]
        act = self._chance.choice(("user", "phone", "change", "move", "drop", "leave", "rename"))
        idu = self._chance.randint(1, 4)
        if act == "user" and idu not in users:
            return self._note(USR, None, (idu, "Ann", self._chance.choice((None, 2))))
        if act == "user":
            return self._note(USR, users[idu], (idu, self._chance.choice(("Bob", None)), None))
        if act == "leave" and idu in users:
            return self._leave(idu)
        if act == "rename" and idu in users:
            return self._rename(idu, self._chance.randint(5, 7))
        if act == "phone" and users:
            return self._phone(None)
        if not phones:
            return []
        row = phones[self._chance.choice(sorted(phones))]
        if act == "drop":
            return self._note(PHONE, row, None)
        return self._phone(row) if act in ("change", "move") else []

    def _phone(self, old: Values | None) -> list[RowChange]:
        """Inserts or changes a row, unless its parent has the value already."""
        owner = self._chance.choice(sorted(self._tables[USR]))
        phone = self._chance.choice(self._phones)
        self._next += 1
        new = (old[0] if old and self._chance.random() < 0.8 else self._next, owner, phone)
        taken = {row[1:] for row in self._tables[PHONE].values() if row != old}
        return [] if new[1:] in taken or new == old else self._note(PHONE, old, new)

    def _leave(self, idu: int) -> list[RowChange]:
        """Deletes a user; the database deletes the child rows before or after it."""
        rows = [row for row in self._tables[PHONE].values() if row[1] == idu]
        user = self._note(USR, self._tables[USR][idu], None)
        cascade = [change for row in rows for change in self._note(PHONE, row, None)]
        return self._chance.choice((user + cascade, cascade + user))

    def _rename(self, idu: int, new: int) -> list[RowChange]:
        """Changes the key of a user; the database changes the child rows after it."""
        users = self._tables[USR]
        if new in users:
            return []
        rows = [row for row in self._tables[PHONE].values() if row[1] == idu]
        changes = self._note(USR, users[idu], (new, *users[idu][1:]))
        for row in rows:
            changes += self._note(PHONE, row, (row[0], new, row[2]))
        return changes

    def _note(self, table: str, old: Values | None, new: Values | None) -> list[RowChange]:
        rows = self._tables[table]
        if old is not None:
            del rows[old[0]]
        if new is not None:
            rows[new[0]] = new
        return [RowChange(table, old, new)]


@pytest.mark.parametrize("format_", RECORDERS)
@settings(max_examples=25, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_documents_lead_to_the_objects_of_the_tables(
    format_: FormatName, chance: random.Random
) -> None:
    may_be_null = (
        format_ == "dispatch-queue"
    )  # elsewhere NULL may be a value that is not in the record
    history: History = list(_Company(chance, may_be_null=may_be_null).transactions())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = RECORDERS[format_].write(folder, history)
        if not paths:
            return
        found = run(folder, format_, paths)
    assert not [reason for outcome, reason in found.outcomes if outcome in ("rejected", "held")]
    assert objects_of(found.objects) == expected_objects(tables_after(history))


@pytest.mark.parametrize("format_", RECORDERS)
def test_the_ledger_has_the_child_table_of_each_record(tmp_path: Path, format_: FormatName) -> None:
    found = run(tmp_path, format_, RECORDERS[format_].write(tmp_path, story()))
    name = f"indirect.{PHONE}" if format_ == "change-table" else PHONE
    assert {record.logged_table for record in found.records} == {name, None}
    for record in found.records:
        is_child = record.logged_table == name
        assert record.children == (PHONE,) * len(record.columns) * is_child
        assert is_child == ("usr_phone.phoneno" in record.columns)


def value(text: str, kind: str, idu: int) -> str:
    """A document that adds or removes a value."""
    return (
        f"<association>{association(idu)}</association>"
        f'<modify-attr attr-name="usr_phone.phoneno"><{kind}-value><value type="string">{text}</value>'
    )


@pytest.mark.parametrize("format_", RECORDERS)
def test_a_child_row_before_its_parent_keeps_its_place(tmp_path: Path, format_: FormatName) -> None:
    history = [[RowChange(PHONE, None, (9, 1, "111"))], [RowChange(USR, None, (1, "Ann", None))]]
    found = run(tmp_path, format_, RECORDERS[format_].write(tmp_path, history))
    assert [value("111", "add", 1) in text for text in found.documents] == [True, False]
    assert objects_of(found.objects) == expected_objects(tables_after(history))


@pytest.mark.parametrize("format_", RECORDERS)
def test_a_child_row_of_an_unknown_parent_changes_its_object(
    tmp_path: Path, format_: FormatName
) -> None:
    row = (9, 8, "111")
    history = [[RowChange(PHONE, None, row)], [RowChange(PHONE, row, None)]]
    found = run(tmp_path, format_, RECORDERS[format_].write(tmp_path, history))
    assert [
        value("111", kind, 8) in text
        for kind, text in zip(("add", "remove"), found.documents, strict=True)
    ] == [True, True]


@pytest.mark.parametrize("format_", RECORDERS)
def test_a_child_row_without_parent_is_rejected(tmp_path: Path, format_: FormatName) -> None:
    history = [[RowChange(PHONE, None, (9, None, "111"))]]
    found = run(tmp_path, format_, RECORDERS[format_].write(tmp_path, history))
    assert found.documents == []
    assert found.outcomes["rejected", "table-key"] == 1


@pytest.mark.parametrize("format_", RECORDERS)
def test_a_value_that_two_rows_hold_is_lost_with_the_first_of_them(
    tmp_path: Path, format_: FormatName
) -> None:
    rows = [(8, 1, "111"), (9, 1, "111")]
    history = [
        [RowChange(USR, None, (1, "Ann", None)), *(RowChange(PHONE, None, row) for row in rows)]
    ]
    both = run(tmp_path, format_, RECORDERS[format_].write(tmp_path, history))
    (tmp_path / "later").mkdir()
    later = [*history, [RowChange(PHONE, rows[0], None)]]
    one = run(tmp_path / "later", format_, RECORDERS[format_].write(tmp_path / "later", later))
    assert objects_of(both.objects)[association(1)]["usr_phone.phoneno"] == {"111"}
    assert "usr_phone.phoneno" not in objects_of(one.objects)[association(1)]


@pytest.mark.parametrize("format_", RECORDERS)
@pytest.mark.parametrize("handling", ["ignore", "publish"])
def test_cascades_after_the_delete_of_the_object_follow_the_setting(
    tmp_path: Path, format_: FormatName, handling: str
) -> None:
    user, phone = (1, "Ann", None), (9, 1, "111")
    history = [
        [RowChange(USR, None, user), RowChange(PHONE, None, phone)],
        [RowChange(USR, user, None), RowChange(PHONE, phone, None)],
    ]
    paths = RECORDERS[format_].write(tmp_path, history)
    more = f'\n[classes]\nchild_after_delete = "{handling}"\n'
    found = run(tmp_path, format_, paths, more)
    assert found.outcomes["ignored", "child-after-delete"] == (handling == "ignore")
    assert (association(1) in found.objects) == (handling == "publish")


@pytest.mark.parametrize("format_", RECORDERS)
def test_without_children_each_table_is_published_by_itself(
    tmp_path: Path, format_: FormatName
) -> None:
    history = [[RowChange(USR, None, (1, "Ann", 2)), RowChange(PHONE, None, (9, 1, "111"))]]
    paths = RECORDERS[format_].write(tmp_path, history)
    keys = '\n[classes]\nminimal_metadata = true\n[tables.usr_phone]\nkey = ["phone_id"]\n'
    found = run(tmp_path, format_, paths, keys)
    documents = "".join(found.documents)
    assert "usr_phone.phoneno" not in documents
    assert "association-ref" not in documents
    assert 'class-name="usr_phone"' in documents


@pytest.mark.parametrize("format_", RECORDERS)
def test_a_key_in_the_settings_of_the_source_makes_no_class_of_a_child_table(
    tmp_path: Path, format_: FormatName
) -> None:
    with closing(sqlite3.connect(tmp_path / "hr.db")) as connection:
        connection.executescript(
            "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, manager INTEGER REFERENCES usr);"
            "CREATE TABLE usr_phone (phone_id INTEGER, idu INTEGER REFERENCES usr, phoneno TEXT);"
        )
    classes = (
        f'[database]\nurl = "sqlite:///{tmp_path}/hr.db"\nschema = "indirect"\n'
        '[classes]\nsync_filter = "schema"\nchild_columns = "each"\n'
    )
    history = [[RowChange(USR, None, (1, "Ann", 2)), RowChange(PHONE, None, (9, 1, "111"))]]
    paths = RECORDERS[format_].write(tmp_path, history)
    found = run(tmp_path, format_, paths, classes=classes)
    assert objects_of(found.objects) == {
        association(1): {
            "fname": {"Ann"},
            "manager": {association(2)},
            "usr_phone.phone_id": {"9"},
            "usr_phone.phoneno": {"111"},
        }
    }


def test_change_tables_in_parquet_give_the_same_documents(tmp_path: Path) -> None:
    found = []
    for kind in ("csv", "parquet"):
        (tmp_path / kind).mkdir()
        paths = write_change_tables(tmp_path / kind, story(), kind)
        found.append(run(tmp_path / kind, "change-table", paths).documents)
    assert found[0] == found[1] != []


READ = '\n[classes]\nchild_row_events = "read"\n'


@pytest.mark.parametrize(
    ("key", "more", "reason"),
    [
        ('"phone_id"', "", "child-row"),
        ('"phone_id"', READ, "child-row"),
        ('"phone_id", "idu"', "", "child-row"),
        ('"phone_id", "idu"', READ, "no-database"),
    ],
)
def test_linkexpress_rejects_or_reads_values_outside_the_key_of_the_table(
    tmp_path: Path, key: str, more: str, reason: str
) -> None:
    row = (9, 1, "111")
    paths = RECORDERS["linkexpress"].write(tmp_path, [[RowChange(PHONE, row, None)]])
    recorder = RECORDERS["linkexpress"]
    settings_ = recorder.settings.replace("key = ['idu', 'phoneno']", f"key = [{key}]")
    found = run(tmp_path, "linkexpress", paths, more, settings_)
    assert found.outcomes["rejected", reason] == 1
    assert found.documents == []


def test_a_table_without_the_link_ends_the_run(tmp_path: Path) -> None:
    recorder = RECORDERS["dispatch-queue"]
    paths = recorder.write(tmp_path, story())
    settings_ = recorder.settings.replace("'idu INTEGER', 'phoneno", "'owner INTEGER', 'phoneno")
    with pytest.raises(FatalError, match="usr_phone lack its column idu: name it in"):
        run(tmp_path, "dispatch-queue", paths, "", settings_)
