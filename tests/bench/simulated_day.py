"""The ledger of a job that has published ten small polls a second for a day, from copies of one real run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.ledger import storage
from publisher.ledger.hours import RUN_SCHEMA, RUNS, Hour, hour_tables
from publisher.ledger.job import SECONDS_A_DAY, Ledger
from publisher.ledger.runs import LedgerRun
from publisher.ledger.tables import RECORDS, TABLES, number_rows
from publisher.model.plain import fields_of

RUNS_A_SECOND = 10
RUNS_A_DAY = RUNS_A_SECOND * SECONDS_A_DAY
RUNS_AN_HOUR = RUNS_A_SECOND * 3_600
OBJECTS = 2_160
"""Number of objects, which change in turn: each in 400 runs of the day."""
_ROWS_OF_GROUP = 20_000
"""Maximum rows of a row group, as an hour has it."""


@dataclass(frozen=True, slots=True)
class TemplateRun:
    """A finished run with the changes of one object, whose texts occur nowhere else."""

    tables: Mapping[str, pa.Table]
    """The tables of the files of an hour, with the rows of the run alone."""
    name: str
    job: str
    identity: str
    key: str
    first_id: int
    """The least of its record ids, which follow each other."""

    @classmethod
    def of(cls, ledger: Ledger, key: str, first_id: int) -> TemplateRun:
        """Reads the last run of a job."""
        run = ledger.newest_run()
        assert run is not None
        tables = {table.name: _rows_of(run, table.name) for table in TABLES}
        tables[RUNS] = pa.Table.from_pylist([_row_of(run)], RUN_SCHEMA)
        return cls(tables, run.root.name, ledger.job, ledger.identity() or "", key, first_id)

    @property
    def records(self) -> int:
        """The number of its records."""
        return int(self.tables[RECORDS.name].num_rows)


def _rows_of(run: LedgerRun, name: str) -> pa.Table:
    (table,) = (table for table in TABLES if table.name == name)
    stored = run.load()
    assert stored is not None
    assert stored.tables is not None
    return number_rows(stored.tables[name], run.number).cast(table.numbered).combine_chunks()


def _row_of(run: LedgerRun) -> Mapping[str, object]:
    manifest, end = run.manifest(), run.acknowledgement
    assert manifest is not None
    assert end is not None
    return {
        "run": run.number,
        "name": run.root.name,
        "plan": manifest.plan,
        "ended": run.sent_at,
        "failed": False,
        "outcome": json.dumps(fields_of(end)),
        "manifest": manifest.to_json(),
        "texts": list(run.texts().items()),
    }


def key_of(run: int) -> str:
    """The key of the object that a simulated run has published."""
    return f"idu={run % OBJECTS}"


def write_day(ledger: Ledger, template: TemplateRun, runs: range, now: float) -> int:
    """Writes the closed hours of the runs of a day that ends ``now``.

    Returns the record id after those of the day."""
    identity = ledger.open_identity()
    for start in range(runs.start, runs.stop, RUNS_AN_HOUR):
        of_hour = range(start, min(start + RUNS_AN_HOUR, runs.stop))
        _HourOfDay(template, ledger, identity, of_hour, runs.stop, now).write()
    ledger.skip_to(runs.stop - 1)
    return runs.stop * template.records


@dataclass(frozen=True)
class _HourOfDay:
    """Some runs of the day."""

    template: TemplateRun
    ledger: Ledger
    identity: str
    runs: range
    end: int
    """The number after the last run of the day."""
    now: float

    def write(self) -> None:
        hour = Hour(self.ledger.root, self.runs[0], self.runs[-1])
        hour.folder.mkdir(parents=True, mode=0o700)
        for table in hour_tables():
            self._write_table(hour.file(table.name), table.schema)
        least, greatest = (number * self.template.records for number in (hour.first, hour.last + 1))
        with storage.transaction(self.ledger.root) as connection:
            connection.execute(
                "INSERT INTO hour VALUES (?, ?, ?, ?, ?)",
                (hour.first, hour.last, self._ended(hour.last), least, greatest),
            )

    def _ended(self, run: int) -> float:
        return self.now - (self.end - run) / RUNS_A_SECOND

    def _write_table(self, path: Path, schema: pa.Schema) -> None:
        with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as file:
            original = self.template.tables[path.stem]
            for start in range(self.runs.start, self.runs.stop if original.num_rows else 0, 9_000):
                part = range(start, min(start + 9_000, self.runs.stop))
                rows = self._copies(path.stem, original, part)
                size = (1 << 24) * rows.num_rows // rows.nbytes
                file.write_table(rows, min(_ROWS_OF_GROUP, size))

    def _copies(self, name: str, original: pa.Table, runs: range) -> pa.Table:
        """The rows of a table once for each run, with the numbers and texts of the run."""
        count = original.num_rows
        rows = original.take(pa.array(np.tile(np.arange(count), len(runs))))
        numbers = np.repeat(np.arange(runs.start, runs.stop), count)
        columns: dict[str, object] = {"run": numbers}
        replaced = list(map(self._replacements_of, runs))
        if name == RUNS:
            columns["ended"] = [self._ended(run) for run in runs]
        elif "high" in original.column_names:
            first = numbers * self.template.records - self.template.first_id
            columns["high"] = rows["high"].to_numpy() + first
        for field in original.schema:
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
                texts = original[field.name].to_pylist()
                if any(self._marks_in(text) for text in texts):
                    columns[field.name] = list(chain.from_iterable(self._texts(texts, replaced)))
        for column, values in columns.items():
            place = original.schema.get_field_index(column)
            field = original.schema.field(place)
            rows = rows.set_column(place, field, pa.array(values, field.type))
        return rows

    def _marks_in(self, text: str | None) -> list[str]:
        return [mark for mark in self._marks if mark in (text or "")]

    @cached_property
    def _marks(self) -> Sequence[str]:
        """The texts that only the template has."""
        return list(self._replacements_of(0))

    def _texts(
        self, texts: Sequence[str | None], replaced: Sequence[Mapping[str, str]]
    ) -> Iterator[list[str | None]]:
        """Yields the texts of the template as each run would have them."""
        marks = list(map(self._marks_in, texts))
        for new in replaced:
            yield [text and _replace(text, new, of) for text, of in zip(texts, marks, strict=True)]

    def _replacements_of(self, run: int) -> Mapping[str, str]:
        template = self.template
        first = run * template.records
        ids = {str(template.first_id + n): str(first + n) for n in range(template.records)}
        return {
            template.name: self.ledger.run_id(run),
            template.job: self.ledger.job,
            template.identity: self.identity,
            template.key: key_of(run),
            **ids,
        }


def _replace(text: str, new: Mapping[str, str], marks: Sequence[str]) -> str:
    for mark in marks:
        text = text.replace(mark, new[mark])
    return text
