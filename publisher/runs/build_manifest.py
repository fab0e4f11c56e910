"""Builds the manifest of a planned run: its sources with their splits, files and states."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from publisher.config.settings import SourceSettings
from publisher.database.identity import TableOrigin
from publisher.errors import FatalError
from publisher.formats.contract import AnySplit
from publisher.formats.files.file_splits import Split
from publisher.formats.work import SourceWork, Work
from publisher.ledger.conservation import check_conservation
from publisher.ledger.fates import RecordUse, SplitFates, fates_of_splits
from publisher.ledger.file_entries import FileEntry
from publisher.ledger.lane_writer import PlannedLane
from publisher.ledger.manifest import Manifest, RetriedRecord, SourceEntry
from publisher.ledger.source_state import PUBLISHED_OBJECTS
from publisher.runs.acknowledge import identify_log
from publisher.runs.prepare import RunRequest


class SourceInputs(NamedTuple):
    """Files and acknowledged tables of the sources of a run, by the names of the sources."""

    files: Mapping[str, tuple[FileEntry, ...]]
    logs: Mapping[str, TableOrigin]


def identify_inputs(sources: Sequence[SourceSettings]) -> SourceInputs:
    """Identifies files and tables before they are read.  Raises ``FatalError`` and ``UnreachableError``."""
    files = {source.name: _file_entries(source) for source in sources}
    return SourceInputs(files, {source.name: identify_log(source) for source in sources})


def _file_entries(source: SourceSettings) -> tuple[FileEntry, ...]:
    return tuple(FileEntry.of(path) for path in source.snapshots)


def build_manifest(
    request: RunRequest,
    work: Work,
    lanes: Sequence[PlannedLane],
    inputs: SourceInputs,
) -> Manifest:
    """Builds the manifest from the results of all lanes.

    Raises:
        FatalError: A file was written to while it was read.
        InternalError: Records were lost or counted twice.
    """
    results = tuple(lane.result for lane in lanes)
    numbers = iter(range(len(work.splits())))
    splits = [[next(numbers) for _ in source.splits] for source in work.sources]
    entries = tuple(_source_entries(request, work, inputs, lanes, splits))
    _drop_states_of_rejected_files(request, work, entries)
    return Manifest(
        run=request.run,
        job=request.settings.name,
        lanes=work.lanes,
        clock=_iso(work.clock),
        settings=json.loads(request.settings.meaning()),
        sources=entries,
        results=results,
        documents=_relative(request.directory, request.ledger_run.root),
        records_read=check_conservation(results, splits),
        behind=dict(request.behind),
        epochs={**request.epochs, **{source.name: source.origin.epoch for source in work.sources}},
        job_identity=request.job_identity,
        retried=tuple(_number_retried(request, work)),
        document_limit=None if request.objects is None else request.objects.limit,
        window=None if request.window is None else (request.window.first, request.window.last),
        states=tuple(
            name
            for name in (*(source.name for source in work.sources), PUBLISHED_OBJECTS)
            if request.ledger_run.state_folder(name).is_dir()
        ),
    )


def _number_retried(request: RunRequest, work: Work) -> Iterator[RetriedRecord]:
    """Numbers the sources of retried records."""
    numbers = {source.name: number for number, source in enumerate(work.sources)}
    for source, record in request.retried:
        yield record._replace(source=numbers[source])


def _source_entries(
    request: RunRequest,
    work: Work,
    inputs: SourceInputs,
    lanes: Sequence[PlannedLane],
    splits: Sequence[Sequence[int]],
) -> Iterator[SourceEntry]:
    first = 0
    tallies = {split: records for lane in lanes for split, records in lane.result.tallies}
    needs_fates = any(
        source.snapshots and _follows_files(request, source) for source in request.settings.sources
    )
    fates = fates_of_splits(lanes, splits) if needs_fates else {}
    for source, read in zip(work.sources, request.settings.sources, strict=True):
        carried = [request.carries(source.name, split) for split in source.splits]
        repeated = (tallies[number] for number, is_old in enumerate(carried, first) if is_old)
        files = _unchanged_files(request, read, inputs.files[source.name])
        log = inputs.logs[source.name]
        waiting = {path.resolve() for path in source.waiting}
        yield SourceEntry(
            name=source.name,
            format=source.source.format,
            splits=tuple(asdict(split) for split in source.splits),
            options=_plain(asdict(read.options)),
            reading=_plain(asdict(read.reading)),
            first_split=first,
            table=read.table,
            files=tuple(
                _with_fates(request, source, read, entry, fates, of_file)
                for entry, of_file in _splits_by_file(source.splits, first, files)
                if Path(entry.path) not in waiting
            ),
            identity=log.identity,
            database=log.database,
            again=sum(repeated),
            notes=source.notes,
            reason=read.reason,
            origin=source.origin,
        )
        first += len(source.splits)


def _unchanged_files(
    request: RunRequest, source: SourceSettings, before: tuple[FileEntry, ...]
) -> Iterator[FileEntry]:
    """Yields the entries of the files of a source; in a job with digests, which the next run compares.

    Raises ``FatalError`` if a file has changed since ``before``."""
    with_digest = _follows_files(request, source)
    for previous, now in zip(before, _file_entries(source), strict=True):
        entry = now.with_digest() if with_digest else now
        if not (previous.is_unchanged(now) and now.is_unchanged(FileEntry.of(Path(previous.path)))):
            raise FatalError(
                f"{previous.path} was written to while it was read ({previous.bytes:,} bytes before, "
                f"{now.bytes:,} after): write files elsewhere, then move them here"
            )
        yield entry


def _follows_files(request: RunRequest, source: SourceSettings) -> bool:
    """Returns whether the next run needs to know what became of the files of a source."""
    return request.state_of(source) is not None and not source.descriptor.compares


def _splits_by_file(
    splits: Sequence[AnySplit], first: int, files: Iterable[FileEntry]
) -> Iterator[tuple[FileEntry, dict[int, Split[Any]]]]:
    """Pairs each file with its splits by their numbers."""
    by_file: dict[str, dict[int, Split[Any]]] = {}
    for number, split in enumerate(splits, first):
        if isinstance(split, Split):
            by_file.setdefault(str(Path(split.path).resolve()), {})[number] = split
    for entry in files:
        yield entry, by_file.get(entry.path, {})


def _with_fates(
    request: RunRequest,
    work: SourceWork,
    source: SourceSettings,
    entry: FileEntry,
    fates: Mapping[int, SplitFates],
    splits: Mapping[int, Split[Any]],
) -> FileEntry:
    """Adds the result of reading a file, for the next run of the job."""
    if not _follows_files(request, source):
        return entry
    of_file = [fates[number] for number in splits if number in fates]
    records = sum(of_file, SplitFates())
    refused = bool(
        records[RecordUse.REJECTED] and not records[RecordUse.USED] + records[RecordUse.IGNORED]
    )
    refused &= work.source.stand_alone(list(splits.values()))
    refused |= entry.path in {str(path.resolve()) for path in work.refused}
    effect = bool(records[RecordUse.REJECTED] + records[RecordUse.USED])
    digest = request.settings.digest_of(source) if refused else None
    return replace(entry, effect=effect, refused=digest)


def _drop_states_of_rejected_files(
    request: RunRequest, work: Work, entries: Sequence[SourceEntry]
) -> None:
    """Removes rejected files from the new states of sources, since a later run reads them again.

    A source keeps its previous state if all of its files were rejected and it read no held records."""
    for source, entry in zip(work.sources, entries, strict=True):
        refused = {file.path for file in entry.files if file.refused}
        state = request.ledger_run.state_folder(entry.name)
        if not refused:
            continue
        if not entry.again and len(refused) == len(entry.files):
            shutil.rmtree(state, ignore_errors=True)
        else:
            splits = [split for split in source.splits if isinstance(split, Split)]
            flags = [str(Path(split.path).resolve()) in refused for split in splits]
            if any(flags):
                source.source.forget(splits, flags, state)


def _plain(options: dict[str, object]) -> dict[str, object]:
    return dict(json.loads(json.dumps(options, default=str)))


def _iso(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat()


def _relative(path: Path, base: Path) -> str:
    """Returns a relative path if both paths lie together, so that they can be moved."""
    if base.parent == path:
        return ".."
    return path.name if path.parent == base else str(path)
