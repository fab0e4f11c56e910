"""Rows of change files that are held from one run of a job to the next, until a partner arrives.

The partner of an UPDATE or before image among the youngest rows may be in a later file.  Until it arrives,
this row and all rows after it, in the order of change_seq, are held: a run writes them to the state of the
job as Parquet, with a ``.dfm`` as for a data file, and the next run reads them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.formats.change_table import change_seq
from publisher.formats.change_table.carry_over import PairWait, decided_upto, next_wait
from publisher.formats.change_table.change_seq import Flags
from publisher.formats.change_table.facts import HeaderFacts, join_halves
from publisher.formats.change_table.layout import ChangeTableLayout
from publisher.formats.change_table.masks import MaskReading
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.rows import UNKNOWN, ChangeRows, rows_of
from publisher.formats.columns.object_names import split_name
from publisher.formats.files import file_splits
from publisher.formats.files.file_splits import FileRange, Split
from publisher.formats.files.recognise import dfm_of
from publisher.ledger.durable import create_private, read_versioned_file

_INDEX = "held.json"
VERSION = 1


class OpenPairs:
    """Decides which rows of a run wait, and writes them for the next run."""

    def __init__(self, options: ChangeTableOptions, before: Path | None, clock: int) -> None:
        """``before`` is the folder that the last run has left.

        Raises:
            FatalError: The folder is damaged or of another version.
        """
        self._seconds = options.pair_wait
        self._clock = clock
        index = _read_index(before)
        self._expects_before, self._wait = index.expects_before, index.wait
        self.readings = dict(index.readings)
        """Readings of masks by the columns of files, for later files whose masks leave several readings."""
        self.files = sorted(before.glob("*.parquet")) if before is not None else []
        """The rows that waited after the last run."""

    def find_cut(self, facts: Sequence[HeaderFacts]) -> str | None:
        """Returns the change_seq from which on rows wait; ``None`` if no row waits."""
        has_images = any(each.has_images for each in facts)
        expects_before = self._expects_before or has_images
        if has_images or any(each.has_updates for each in facts):
            self._expects_before = has_images
        wait, self._wait = self._wait, None
        youngest = max((each.youngest for each in facts if each.youngest), default=None)
        if youngest is None or not self._seconds or not expects_before:
            return None
        greatest = change_seq.text_of(*youngest)
        decided = decided_upto(wait, greatest, self._seconds, self._clock)
        lone = join_halves(each.lone for each in facts).after(decided).lone()
        if not len(lone.high):
            return None
        cut = change_seq.text_of(int(lone.high[0]), int(lone.low[0]))
        self._wait = next_wait(wait, greatest, cut, self._seconds, self._clock)
        return cut

    def write_index(self, folder: Path) -> None:
        """Writes the facts that the next run needs."""
        folder.mkdir(parents=True)
        index = {
            "version": VERSION,
            "expects_before": self._expects_before,
            "wait": None if self._wait is None else asdict(self._wait),
            "readings": [[names, *reading] for names, reading in self.readings.items()],
        }
        (folder / _INDEX).write_text(json.dumps(index) + "\n", "utf-8")


def is_wait_over(before: Path | None, options: ChangeTableOptions, clock: int) -> bool:
    """Returns whether the rows that the last run has held have waited long enough, or wait by a clock
    that has been set back since: a run then begins their wait again.

    Raises ``FatalError`` as ``OpenPairs`` does.
    """
    wait = _read_index(before).wait
    return wait is not None and (wait.since > clock or wait.is_over(options.pair_wait, clock))


def do_wait(rows: ChangeRows, cut: str) -> Flags:
    """Marks the rows that wait, by their header columns alone."""
    high, low = change_seq.parts_of(cut)
    behind = (rows.high > high) | ((rows.high == high) & (rows.low >= low))
    flags: Flags = rows.placed & (rows.operations != UNKNOWN) & behind
    return flags


def write_waiting(split: Split[FileRange], layout: ChangeTableLayout, cut: str, path: Path) -> None:
    """Writes the rows of a split that wait, with the description of their columns."""

    def waiting_rows() -> Iterator[pa.RecordBatch]:
        for frame in file_splits.frames(split, layout.reading, layout.columns()):
            flags = do_wait(rows_of(frame, layout), cut)
            if flags.any():
                yield frame.batch.take(pa.array(np.flatnonzero(flags)))

    _write(path, waiting_rows(), layout)


def _write(path: Path, batches: Iterator[pa.RecordBatch], layout: ChangeTableLayout) -> None:
    first = next(batches, None)
    if first is None:
        return
    with create_private(path) as file, pq.ParquetWriter(file, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    schema, table = split_name(layout.table) or (None, layout.table)
    columns = [
        {
            "ordinal": ordinal,
            "name": name,
            "primaryKeyPos": layout.key.index(name) + 1 if name in layout.key else 0,
        }
        for ordinal, name in enumerate(layout.names, 1)
    ]
    info = {"sourceSchema": schema, "sourceTable": table, "columns": columns}
    dfm_of(path).write_text(json.dumps({"dataInfo": info}, ensure_ascii=False), "utf-8")


class _Index(NamedTuple):
    """Facts that a run stores beside held rows."""

    expects_before: bool = False
    """Whether UPDATEs have before images."""
    wait: PairWait | None = None
    readings: Mapping[tuple[str, ...], MaskReading] = MappingProxyType({})


def _read_index(folder: Path | None) -> _Index:
    if folder is None:
        return _Index()
    remedy = "remove its folder, which loses the records that wait for their partner"
    return (
        read_versioned_file(folder / _INDEX, VERSION, _decode, remedy, field="version") or _Index()
    )


def _decode(index: dict[str, Any]) -> _Index:
    wait = index.get("wait")
    return _Index(
        bool(index["expects_before"]),
        None if wait is None else PairWait(**wait),
        {tuple(names): MaskReading(*reading) for names, *reading in index["readings"]},
    )
