"""Records of catalogues: every answer is the recorded one."""

from __future__ import annotations

import pytest

from publisher.errors import TableRefusedError, UsageError
from publisher.model.catalogue import ColumnKind, Table
from publisher.model.catalogue_record import (
    CatalogueRecord,
    CatalogueRecorder,
    RecordedCatalogue,
    merge_texts,
)
from publisher.model.classes import ForeignKey, TableKeys
from publisher.model.view_catalogue import TableKeyColumn

USR = Table(
    "hr",
    "usr",
    ("idu",),
    {"idu": ColumnKind.INT, "fname": ColumnKind.STRING},
    complete=True,
    padded=frozenset({"fname"}),
)
KEYS = TableKeys((ForeignKey(("boss",), "usr", ("idu",)),), ("phone",))
COLUMNS = (TableKeyColumn("usr", "idu", is_of_view=False),)


class Tables:
    """A catalogue that is asked each question at most once."""

    closed = True

    def __init__(self) -> None:
        self.asked: list[object] = []

    def table(self, schema: str | None, name: str) -> Table | None:
        self.asked.append((schema, name))
        if name == "secret":
            raise TableRefusedError("grant SELECT")
        return USR if name.lower() == "usr" else None

    def keys_of(self, schema: str | None, name: str) -> TableKeys:
        self.asked.append(("keys", schema, name))
        return KEYS

    def key_columns_of(self, schema: str | None) -> tuple[TableKeyColumn, ...]:
        self.asked.append(("columns", schema))
        return COLUMNS


def ask(recorder: CatalogueRecorder | RecordedCatalogue) -> list[object]:
    answers: list[object] = [recorder.closed]
    answers += [recorder.table("hr", name) for name in ("USR", "gone")]
    with pytest.raises(TableRefusedError, match="grant SELECT"):
        recorder.table("hr", "secret")
    return [*answers, recorder.keys_of("hr", "usr"), recorder.key_columns_of(None)]


def test_a_record_gives_the_recorded_answers() -> None:
    tables = Tables()
    recorder = CatalogueRecorder(tables)
    assert ask(recorder) == ask(recorder) == [True, USR, None, KEYS, COLUMNS]
    assert len(tables.asked) == len(set(tables.asked))
    record = CatalogueRecord.from_text(recorder.record.to_text())
    assert record == recorder.record
    assert ask(RecordedCatalogue(record)) == ask(recorder)
    assert hash(RecordedCatalogue(record).keys_of("hr", "usr")) == hash(KEYS)


def test_names_are_found_in_any_case_and_as_the_database_spells_them() -> None:
    recorder = CatalogueRecorder(Tables())
    recorder.table("hr", "USR")
    recorded = RecordedCatalogue(recorder.record)
    assert recorded.table("HR", "Usr") is recorded.table("hr", "usr") is not None


def test_what_nobody_asked_is_refused() -> None:
    recorded = RecordedCatalogue(CatalogueRecord())
    with pytest.raises(UsageError, match="does not describe table usr"):
        recorded.table("hr", "usr")
    with pytest.raises(UsageError, match="does not describe the foreign keys of table usr"):
        recorded.keys_of("hr", "usr")
    with pytest.raises(UsageError, match="does not describe the key columns of schema hr"):
        recorded.key_columns_of("hr")


def test_records_of_tasks_are_joined() -> None:
    first, second = CatalogueRecorder(Tables()), CatalogueRecorder(Tables())
    first.table("hr", "usr")
    first.keys_of("hr", "usr")
    second.table("hr", "usr")
    second.table(None, "gone")
    texts = [first.record.to_text(), second.record.to_text()]
    joined = CatalogueRecord.from_text(merge_texts(texts))
    assert merge_texts(texts) == merge_texts(texts[::-1]) == joined.to_text()
    assert sorted(table.name for table in joined.tables) == ["gone", "usr"]
    assert (len(joined.keys), joined.key_columns) == (1, ())


def test_a_table_is_written_under_each_name() -> None:
    recorder = CatalogueRecorder(Tables())
    for name in ("usr", "USR", "Usr", "usr", "odd\u2028\x85\nname"):
        recorder.table("hr", name)
    assert (
        CatalogueRecord.from_text(recorder.record.to_text()).to_text() == recorder.record.to_text()
    )
    assert len(recorder.record.to_text().split("\n")) == 4
