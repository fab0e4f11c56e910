"""Records that a run has read after records with greater ids."""

from __future__ import annotations

from functools import partial

from publisher.journal.job_journals import Journals
from publisher.journal.lane_reader import DecidedRecord, LaneReader
from publisher.journal.manifest import Journal, Manifest, SourceEntry
from publisher.journal.read_runs import read_runs
from publisher.journal.search_segments import find_runs
from publisher.model.change import Outcome, Position
from publisher.reports.selectors import at_position


def late_text(journal: Journal, manifest: Manifest, record: DecidedRecord) -> str | None:
    """Explains a record with a smaller id than earlier runs have read; ``None`` for other records."""
    entry = manifest.sources[record.source]
    behind = manifest.behind.get(entry.name, 0)
    number = record.position.high
    if record.outcome is not Outcome.PUBLISHED or record.position.part or number >= behind:
        return None
    root = journal.place.absolute().parent
    journals = Journals(root, manifest.job)
    condition = at_position(record.position)
    select = partial(find_runs, condition=condition)

    def read(other: Journal, earlier: Manifest) -> tuple[str, str | None]:
        return earlier.run, _outcome_in(other, earlier, entry, record.position)

    for run, outcome in read_runs(journals, select, read):
        if run == manifest.run:
            break
        if outcome is not None:
            return f"an earlier run has read this record: {outcome} in run {run}"
    has_all_journals = journals.has_first_run()
    return (
        f"an earlier run has read record {behind}, but none has read this record: it was committed late"
        + ("" if has_all_journals else ", or was read by a run whose journal is deleted")
    )


def _outcome_in(
    journal: Journal, manifest: Manifest, source: SourceEntry, position: Position
) -> str | None:
    """Returns the outcome of a record in another run; ``None`` if that run did not read it."""
    wanted = source.name, source.origin
    numbers = [
        n for n, entry in enumerate(manifest.sources) if (entry.name, entry.origin) == wanted
    ]
    for lane in range(manifest.lanes):
        reader = LaneReader(journal.root, journal.documents(manifest), lane, journal.in_memory)
        for number in numbers:
            records = reader.by_position(number, position)
            if records:
                reason = records[-1].reason
                return records[-1].outcome.label + (f" ({reason})" if reason else "")
    return None
