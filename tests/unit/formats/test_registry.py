"""A format joins by one descriptor: nothing else in the program has to know it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from publisher.config.job_file import load
from publisher.errors import SettingsError, UsageError
from publisher.formats.columns.object_names import Key, Names, TargetTable
from publisher.formats.columns.record_batches import Place, batch, tally
from publisher.formats.contract import Context, Source
from publisher.formats.files.file_splits import Split, every_file
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.format import Format
from publisher.formats.registry import FORMATS
from publisher.formats.retry import CorrectedRecord, RetryFiles, write_private
from publisher.model.change import EventType, Object, Position
from publisher.model.keys import IdentifierCase
from publisher.reports.explain import explain
from publisher.runs import replay
from tests.support.local_engine import EngineSwitch
from tests.support.source_contract import SourceContract

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "formats"


@dataclass(frozen=True, slots=True)
class TinyOptions:
    """Settings of a format whose lines are ``KEY VALUE`` of one table."""

    table: str = "usr"
    column: str = "name"
    identifier_case: IdentifierCase = IdentifierCase.LOWER


@dataclass(frozen=True, slots=True)
class TinySource(Source):
    """Each line inserts a value."""

    options: TinyOptions
    reading: SnapshotOptions
    format: str = "tiny"

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        return every_file(paths, may_be_none=may_be_none)

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[Split[None]]:
        del wanted
        sizes = {path: path.stat().st_size for path in self.files(paths)}
        return [Split(str(path), size, size, None) for path, size in sizes.items()]

    def read(self, split: Any, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        place = Place(ctx.source, number, split.path, ctx.lanes)
        names = Names(ctx.catalogue, None, self.options.identifier_case, ctx.lanes, ctx.excludes)
        target = names.target(self.options.table)
        assert isinstance(target, TargetTable)
        lines = Path(split.path).read_text().splitlines()
        for row, line in enumerate(lines, 1):
            key_text, _, value = line.partition(" ")
            key = names.key(target, f"idu={key_text}")
            assert isinstance(key, Key)
            yield batch(
                1,
                source=place.source,
                lane=key.lane,
                part=place.name,
                rank=row,
                high=row,
                low=0,
                ordinal=0,
                split=place.split,
                row=row,
                records=1,
                table=target.table,
                key=key.text,
                event_type=int(EventType.INSERT_FIELD),
                columns=[[self.options.column]],
                new=[[value]],
                event_time=0,
            )
        yield tally(place, len(lines))

    def position_text(self, position: Position) -> str:
        return position.text()

    def parse_position(self, text: str) -> Position:
        file, _, line = text.rpartition(":")
        if not line.isdigit():
            raise UsageError(f"{text!r} is not a position; write FILE:LINE")
        return Position(file, int(line), 0, 0)

    def raw_records(self, split: Split[None], rows: frozenset[int]) -> dict[int, str]:
        lines = Path(split.path).read_text().splitlines()
        return {row: lines[row - 1] for row in rows}


def _write_retry(
    options: TinyOptions, records: Sequence[CorrectedRecord], folder: Path
) -> RetryFiles:
    del options
    path = folder / "people.txt"
    write_private(path, "".join(f"{record.raw}\n" for record in records).encode())
    return RetryFiles((path,), tuple((path, number + 1) for number in range(len(records))))


TINY = Format(
    name="tiny",
    title="Tiny",
    position_text="FILE:LINE",
    options=TinyOptions,
    source=TinySource,
    split=lambda: Split[None],
    write_retry=_write_retry,
)


@pytest.fixture
def job(local_engine: EngineSwitch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Registers the format, and writes a job file that reads it."""
    monkeypatch.setitem(FORMATS, TINY.name, TINY)
    path = tmp_path / "job.toml"
    path.write_text('[source]\nformat = "tiny"\ncolumn = "fname"\n')
    return path


def test_a_registered_format_is_replayed_and_explained(job: Path, tmp_path: Path) -> None:
    data = tmp_path / "people.txt"
    data.write_text("1 Jack\n2 Ann\n")
    report = replay.replay(load(job), [data], str(tmp_path / "out"))
    assert (report.read, report.outcomes["published"]) == (2, 2)
    documents = "".join(path.read_text() for path in (tmp_path / "out").glob("part-*"))
    assert 'attr-name="fname"' in documents
    assert {"Jack" in documents, "Ann" in documents} == {True}
    (story,) = explain(Path(report.ledger), "people.txt:2")
    assert (story.raw, story.object) == ("2 Ann", Object(None, "usr", "idu=2"))


def test_only_settings_of_the_format_are_known(job: Path) -> None:
    job.write_text(
        '[source]\nformat = "tiny"\ndelimiter = ";"\npoll_size = 3\ndriver_user = "idm"\n'
    )
    with pytest.raises(SettingsError) as refusal:
        load(job)
    assert [problem.key for problem in refusal.value.problems] == [
        ("source", "delimiter"),
        ("source", "poll_size"),
        ("source", "driver_user"),
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_the_page_of_a_format_has_its_title(name: str) -> None:
    assert (REFERENCE / f"{name}.md").read_text().startswith(f"# {FORMATS[name].title}\n")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_keeps_the_contract_of_sources(name: str) -> None:
    module = importlib.import_module(f"tests.unit.formats.{name.replace('-', '_')}.test_contract")
    (own,) = (
        found
        for found in vars(module).values()
        if isinstance(found, type) and SourceContract in found.__bases__
    )
    assert issubclass(own, SourceContract)
    assert {sample.source.format for sample in own.samples} == {name}
