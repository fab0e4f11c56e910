"""The journal of a job that has published ten small polls a second for a day, from copies of one real run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.journal.durable import write_durably
from publisher.journal.fold_runs import LARGEST
from publisher.journal.identity import open_identity
from publisher.journal.job_journals import SECONDS_A_DAY, Journals
from publisher.journal.segment_files import (
    DECISIONS,
    DOCUMENTS,
    RUNS,
    TABLES,
    RunRows,
    SegmentTable,
    join_rows,
    read_run,
)
from publisher.journal.segment_header import HEADER, SegmentHeader
from publisher.journal.segments import SEGMENTS

RUNS_A_SECOND = 10
RUNS_A_DAY = RUNS_A_SECOND * SECONDS_A_DAY
OBJECTS = 2_160
"""Number of objects, which change in turn: each in 400 runs of the day."""
_ROWS_OF_GROUP = 20_000
"""Maximum rows of a row group, as ``SegmentWriter`` has it."""


@dataclass(frozen=True, slots=True)
class TemplateRun:
    """A finished run with the changes of one object, whose texts occur nowhere else."""

    rows: RunRows
    name: str
    job: str
    identity: str
    key: str
    first_id: int
    """The least of its record ids, which follow each other."""

    @classmethod
    def of(cls, journals: Journals, key: str, first_id: int) -> TemplateRun:
        """Reads the last run of a job."""
        name = journals.last_run()
        journal = journals.journal(name)
        manifest = journal.manifest()
        assert manifest is not None
        rows = read_run(journals.last_number(), journal, manifest)
        identity = open_identity(journals.root)
        return cls(rows, name, journals.job, identity, key, first_id)

    @property
    def records(self) -> int:
        """The number of its records."""
        return sum(part.num_rows for part in self.rows.tables[DECISIONS])


def key_of(run: int) -> str:
    """The key of the object that a simulated run has published."""
    return f"idu={run % OBJECTS}"


def write_day(journals: Journals, template: TemplateRun, runs: range, now: float) -> int:
    """Writes the segments of the runs of a day that ends ``now``.

    Returns the record id after those of the day."""
    identity = open_identity(journals.root)
    end = runs.stop
    for start in range(runs.start, end, LARGEST.runs):
        stop = min(start + LARGEST.runs, end)
        folder = journals.root / SEGMENTS / f"{start:06d}-{stop - 1:06d}"
        folder.mkdir(parents=True, mode=0o700)
        _Segment(template, journals, identity, range(start, stop), end, now).write(folder)
    journals.skip_to(end - 1)
    return end * template.records


@dataclass(frozen=True)
class _Segment:
    """Some runs of the day."""

    template: TemplateRun
    journals: Journals
    identity: str
    runs: range
    end: int
    """The number after the last run of the day."""
    now: float

    def write(self, folder: Path) -> None:
        for table in TABLES:
            self._write_table(folder, table)
        header = SegmentHeader(
            len(self.runs),
            len(self.runs) * self.template.records,
            len(self.runs) * self.template.rows.bytes,
            self._ended(self.runs[0]),
            self._ended(self.runs[-1]),
            self.template.rows.sources,
        )
        write_durably(folder / HEADER, json.dumps(asdict(header)))

    def _ended(self, run: int) -> float:
        return self.now - (self.end - run) / RUNS_A_SECOND

    def _write_table(self, folder: Path, table: SegmentTable) -> None:
        path, schema = folder / table.file, table.schema
        with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as file:
            original = join_rows(table, self.template.rows.tables[table])
            if original.num_rows:
                rows = self._copies(table, original.combine_chunks())
                size = table.bytes_of_group * rows.num_rows // rows.nbytes
                file.write_table(rows, min(_ROWS_OF_GROUP, size))

    def _copies(self, table: SegmentTable, original: pa.Table) -> pa.Table:
        """The rows of a table once for each run, with the numbers and texts of the run."""
        count = original.num_rows
        rows = original.take(pa.array(np.tile(np.arange(count), len(self.runs))))
        numbers = np.repeat(np.arange(self.runs.start, self.runs.stop), count)
        columns: dict[str, object] = {"run": numbers}
        if table is RUNS:
            (files,) = original["files"].to_pylist()
            texts = self._texts([text for _, text in files])
            names = [name for name, _ in files]
            columns["files"] = [list(zip(names, each, strict=True)) for each in texts]
            columns["ended"] = [self._ended(run) for run in self.runs]
        elif table in (DECISIONS, DOCUMENTS):
            first = numbers * self.template.records - self.template.first_id
            columns["high"] = rows["high"].to_numpy() + first
        for field in original.schema:
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
                texts = original[field.name].to_pylist()
                if any(self._marks_in(text) for text in texts):
                    columns[field.name] = list(chain.from_iterable(self._texts(texts)))
        for name, values in columns.items():
            place = original.schema.get_field_index(name)
            field = original.schema.field(place)
            rows = rows.set_column(place, field, pa.array(values, field.type))
        return rows

    def _marks_in(self, text: str | None) -> list[str]:
        return [mark for mark in self._replacements[0] if mark in (text or "")]

    def _texts(self, texts: Sequence[str | None]) -> Iterator[list[str | None]]:
        """Yields the texts of the template as each run would have them."""
        marks = list(map(self._marks_in, texts))
        for new in self._replacements:
            yield [text and _replace(text, new, of) for text, of in zip(texts, marks, strict=True)]

    @cached_property
    def _replacements(self) -> list[Mapping[str, str]]:
        """The texts that only the template has, with those of each run."""
        return list(map(self._replacements_of, self.runs))

    def _replacements_of(self, run: int) -> Mapping[str, str]:
        template = self.template
        first = run * template.records
        ids = {str(template.first_id + n): str(first + n) for n in range(template.records)}
        return {
            template.name: self.journals.run_id(run),
            template.job: self.journals.job,
            template.identity: self.identity,
            template.key: key_of(run),
            **ids,
        }


def _replace(text: str, new: Mapping[str, str], marks: Sequence[str]) -> str:
    for mark in marks:
        text = text.replace(mark, new[mark])
    return text
