"""Finds the changes of keys in journals: the former associations of an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.journal.find_journal import find_job, find_journal
from publisher.journal.lane_result import LaneNames
from publisher.journal.manifest import MANIFEST, Journal
from publisher.journal.segment_files import DOCUMENTS, read_columns
from publisher.journal.segments import Segment

_COLUMNS = ["association", "new_association"]
_CHANGES = pc.field("new_association").is_valid()
_OPERATION = "modify-association"


def former_associations(directories: Sequence[Path]) -> Mapping[str, Sequence[str]]:
    """Returns the associations from which objects were renamed, by their new association.

    Raises:
        UsageError: A directory has no journal.
        FatalError: A journal is damaged, or another version of the program wrote it.
    """
    former: dict[str, dict[str, None]] = {}
    for directory in directories:
        for table in _read_changes(directory):
            for old, new in zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True):
                former.setdefault(new, {})[old] = None
    return {new: tuple(olds) for new, olds in former.items()}


def _read_changes(directory: Path) -> Iterator[pa.Table]:
    job = find_job(directory)
    if job is None:
        yield from _of_run(find_journal(directory))
        return
    # folders first: a run that is moved before it is read is found in a segment
    of_folders = [
        table for number in job.numbers() for table in _of_run(job.root / job.run_id(number))
    ]
    yield from job.segments.read_each(_of_segment)
    yield from of_folders


def _of_segment(segment: Segment) -> pa.Table:
    segment.header()
    return read_columns(segment.folder, DOCUMENTS, _COLUMNS, _CHANGES)


def _of_run(root: Path) -> Iterator[pa.Table]:
    """Reads the changes of keys of a run; nothing if it has moved into a segment, or is not planned yet."""
    try:
        if _OPERATION not in (root / MANIFEST).read_text("utf-8"):
            return
        manifest = Journal(root).manifest()
        for result in manifest.results if manifest is not None else ():
            if _OPERATION in dict(result.operations):
                yield pq.read_table(
                    root / LaneNames(result.lane).index, columns=_COLUMNS, filters=_CHANGES
                )
    except FileNotFoundError:
        return
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(f"the journal {root} cannot be read ({error}): publish again") from error
