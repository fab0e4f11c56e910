"""Publishes corrected rejected records, each once, after everything that was published before."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from publisher.config.settings import Settings, SourceSettings
from publisher.console import Progress
from publisher.errors import UsageError
from publisher.formats.contract import SourceInput
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.retry import CorrectedRecord
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import SECONDS_A_DAY, Ledger
from publisher.ledger.manifest import RetriedRecord
from publisher.ledger.read import scan_runs
from publisher.ledger.retried_records import RetryResult
from publisher.model.change import Outcome, Status
from publisher.runs.job import open_job
from publisher.runs.notes import notes_of, with_notes
from publisher.runs.prepare import RunRequest
from publisher.runs.rehearse import check_takeover, rehearse_sources
from publisher.runs.rejects import (
    KnownReject,
    ReadAgain,
    read_known_rejects,
    read_requeued,
    read_settled_rejects,
)

_FOLDER = "retried"
"""Folder of the corrected records in the directory of a job."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A corrected record of a file, with the source that had rejected it."""

    source: str
    record: CorrectedRecord


def read_corrections(path: Path) -> list[Correction]:
    """Reads a file that ``rejects --export`` wrote, and in which people have corrected ``raw``.

    Raises:
        UsageError: The file is missing or not UTF-8, a line is not such a record, or names a record twice.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist; name a file that rejects --export wrote")
    corrections: dict[str, Correction] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        correction = _correction(line, f"{path}:{number}")
        other = corrections.setdefault(correction.record.id, correction)
        if other is not correction:
            raise UsageError(
                f"{correction.record.where}: {other.record.where} has the same id "
                f"{correction.record.id}: keep one of the two lines"
            )
    return list(corrections.values())


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8-sig") as file:
        try:
            yield from file
        except UnicodeDecodeError:
            raise UsageError(f"{path} is not UTF-8: save it as UTF-8") from None


def _correction(line: str, where: str) -> Correction:
    try:
        entry: dict[str, Any] = json.loads(line)
        record = CorrectedRecord(entry["id"], where, None, entry["raw"])
        if isinstance(entry["id"], str) and isinstance(entry["source"], str):
            return Correction(entry["source"], record)
    except (ValueError, KeyError, TypeError):
        pass
    raise UsageError(
        f"{where} is not a rejected record: write a JSON object with id, source and raw on one line, as "
        "rejects --export does"
    )


def retry_rejects(
    settings: Settings,
    corrections: Sequence[Correction],
    *,
    job_file: Path,
    now: datetime | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> RunReport:
    """Publishes corrected records in a run of their own.

    Records that are rejected no longer are left out, with a note, which names ``job_file``.  With ``dry_run``
    all is planned after the same checks, and nothing published.

    Raises:
        UsageError: No record remains, or a record is unknown.
        PublisherError: See ``errors``.
    """
    settings = settings.for_publish()
    refuse_other_sources(settings, corrections)
    ledger = Ledger(settings.ledger_folder, settings.name)
    if dry_run:
        check_takeover(settings, ledger)
        pending, notes = _select(settings, ledger, corrections, job_file)
        with TemporaryDirectory(prefix="xds-publisher-") as name:
            sources, retried = _write(settings, pending, Path(name) / _folder_name(ledger))
            change = partial(RunRequest.for_sources, retried=retried)
            report = rehearse_sources(settings, ledger, sources, change, now=now, progress=progress)
        return with_notes(report, notes)
    with open_job(settings, progress) as job:
        finished = job.finish()
        pending, notes = _select(settings, ledger, corrections, job_file)
        folder = _make_folder(ledger, settings.retention.retention_days)
        sources, retried = _write(settings, pending, folder)
        report = job.publish_sources(sources, now, retried)
        job.expire()
    return with_notes(report, [*notes_of(finished), *notes])


def refuse_other_sources(settings: Settings, corrections: Iterable[Correction]) -> None:
    """Raises ``UsageError`` for records of unknown sources, and of compared tables."""
    names = [source.name for source in settings.sources]
    compared = {source.name for source in settings.sources if source.descriptor.compares}
    for correction in corrections:
        if correction.source in compared:
            raise UsageError(
                f"{correction.record.where}: {correction.source} compares tables: correct the row in its "
                "table, and the next comparison publishes it"
            )
        if correction.source not in names:
            raise UsageError(
                f"{correction.record.where}: job {settings.name} has no source {correction.source}: its "
                f"sources are {', '.join(names)}"
            )


def _select(
    settings: Settings, ledger: Ledger, corrections: Sequence[Correction], job_file: Path
) -> tuple[list[Correction], list[str]]:
    """Selects the records that are still rejected, in the order of their runs; returns notes on others.

    Raises ``UsageError`` for unknown records."""
    known = read_known_rejects(scan_runs(ledger.root))
    settled = read_settled_rejects(partial(scan_runs, ledger.root))
    pending: list[Correction] = []
    notes = []
    for correction in corrections:
        record = correction.record
        reject = known.get(record.id)
        if reject is None or reject.record.source != correction.source:
            raise UsageError(
                f"{record.where}: no kept run of job {ledger.job} has rejected a record {record.id} of "
                f"{correction.source}: its ledger is deleted, or the id was changed; add the record as a "
                "new file of the source"
            )
        result = settled.get(record.id)
        if result is None:
            of_ledger = replace(
                record,
                file=reject.record.file,
                transaction=reject.transaction,
                position="" if reject.part else reject.record.position,
            )
            pending.append(replace(correction, record=of_ledger))
        else:
            notes.append(_note(record, reject, result, job_file))
    waiting = dict(_requeued(settings, pending, known, job_file))
    notes += waiting.values()
    pending = [correction for correction in pending if correction.record.id not in waiting]
    if not pending:
        raise UsageError(f"nothing to retry: {'; '.join(notes) or 'the file has no records'}")
    pending.sort(key=lambda correction: known[correction.record.id].order)
    return pending, [*notes, *_missing(pending, known, settled)]


def _note(record: CorrectedRecord, reject: KnownReject, result: RetryResult, job_file: Path) -> str:
    """Says what became of a record that is left out, and what to do."""
    cure = f"xds-publisher explain -c {job_file} {reject.record.position} shows its document"
    if result.outcome == Outcome.REJECTED.label:
        cure = f"export it again: xds-publisher rejects -c {job_file} --export FILE.jsonl"
    text = result.text()
    named = (
        f"{reject.record.position} ({record.id})" if isinstance(result, ReadAgain) else record.id
    )
    return f"{record.where}: {named} is left out: {text}; {cure}"


def _requeued(
    settings: Settings,
    pending: Sequence[Correction],
    known: Mapping[str, KnownReject],
    job_file: Path,
) -> Iterator[tuple[str, str]]:
    """Finds rows whose status says that the log handles them; yields reject ids, and notes."""
    if not settings.acknowledge.write_status:
        return
    rejects = [known[correction.record.id].record for correction in pending]
    for source in settings.sources:
        letters = read_requeued(source, rejects) if source.has_status else {}
        for record in (
            correction.record for correction in pending if correction.record.id in letters
        ):
            number, letter = known[record.id].record.record_id, letters[record.id]
            cure = f"xds-publisher explain -c {job_file} {number} shows what became of it"
            if letter == Status.NEW:
                cure = f"the next run reads it: xds-publisher publish -c {job_file}"
            row = f"its row in {source.table} has the status {letter}"
            yield record.id, f"{record.where}: {number} is left out: {row}; {cure}"


def _missing(
    pending: Sequence[Correction],
    known: Mapping[str, KnownReject],
    settled: Mapping[str, RetryResult],
) -> Iterator[str]:
    """Notes about records of the same transactions that are not retried with the others."""
    groups = {known[correction.record.id].group for correction in pending} - {None}
    present = {correction.record.id for correction in pending} | settled.keys()
    of_groups = {name for name, reject in known.items() if reject.group in groups}
    missing = sorted(of_groups - present)
    if missing:
        yield (
            f"{len(missing):,} other rejected record(s) of the retried transactions are not in the file and "
            f"stay rejected: {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}"
        )


def _make_folder(ledger: Ledger, days: float) -> Path:
    """Names a new folder for corrected records, and removes those that are older than the ledger.

    No other retry has its name, which the names of files may contain."""
    root = ledger.root / _FOLDER
    root.mkdir(mode=0o700, exist_ok=True)
    for path in root.iterdir():
        if path.stat().st_mtime < time.time() - days * SECONDS_A_DAY:
            shutil.rmtree(path)
    return root / _folder_name(ledger)


def _folder_name(ledger: Ledger) -> str:
    return f"retry-{1 + ledger.last_number():06d}"


def _write(
    settings: Settings, corrections: Sequence[Correction], folder: Path
) -> tuple[list[SourceSettings], list[tuple[str, RetriedRecord]]]:
    """Writes the records as files; returns the sources that read them."""
    if folder.exists():  # of a start that did not plan its run
        shutil.rmtree(folder)
    sources, retried = [], []
    for number, source in enumerate(settings.sources):
        records = [c.record for c in corrections if c.source == source.name]
        if not records:
            continue
        assert source.descriptor.write_retry is not None
        files = source.descriptor.write_retry(source.options, records, folder / str(number))
        reading = replace(SnapshotOptions(), max_record=source.reading.max_record)
        options = files.options or source.options
        source = replace(  # noqa: PLW2901
            source, table=None, options=options, reading=reading, run_input=None
        )
        sources.append(source.with_input(SourceInput(source.reader, files.paths, reads=True)))
        retried += [
            (source.name, RetriedRecord(record.id, 0, str(path), row))
            for record, (path, row) in zip(records, files.places, strict=True)
        ]
    return sources, retried
