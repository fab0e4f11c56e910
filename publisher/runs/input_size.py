"""The size of the input of a run, estimated before anything is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from publisher.config.settings import SourceSettings
from publisher.engine.contract import InputSize
from publisher.errors import PublisherError
from publisher.runs.prepare import RunRequest

_EXPANSION: Mapping[str, int] = {".gz": 10, ".parquet": 6, ".pq": 6}
"""Typical ratio of the bytes of text to the bytes of its compressed file, by the suffix of the name."""


def input_size(request: RunRequest) -> InputSize:
    """Estimates the input of a run: counts the rows of its tables and the bytes of its files."""
    sources = request.settings.sources
    rows = request.waiting
    if rows is None:
        rows = sum(_count_rows(request, source) for source in sources if source.table is not None)
    states = {} if request.retried else request.state or {}  # few rows of which are read again
    folders = [states.get(source.name) for source in sources if source.reads]
    return InputSize(rows, size_of_files(sources) + _bytes_of(filter(None, folders)))


def size_of_files(sources: Iterable[SourceSettings]) -> int:
    """Approximate bytes of the files of sources after decompression: a number of the files alone."""
    files: list[Path | str] = []
    for source in sources:
        files += source.snapshots
        files += () if source.comparison is None else source.comparison.earlier_files
    return _bytes_of(files)


def _count_rows(request: RunRequest, source: SourceSettings) -> int:
    state = None if source.has_status else (request.state or {}).get(source.name)
    try:
        with closing(source.backlog()) as table:
            return table.count(state).rows
    except PublisherError:  # the run itself will report the problem in full
        return 0


def _bytes_of(paths: Iterable[Path | str]) -> int:
    return sum(
        path.stat().st_size * _EXPANSION.get(path.suffix.lower(), 1) for path in _files(paths)
    )


def _files(paths: Iterable[Path | str]) -> Iterator[Path]:
    for path in map(Path, paths):
        yield from (
            (file for file in path.rglob("*") if file.is_file()) if path.is_dir() else (path,)
        )
