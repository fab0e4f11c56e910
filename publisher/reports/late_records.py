"""Records that a run has read after records with greater ids."""

from __future__ import annotations

from publisher.ledger.job import Ledger
from publisher.ledger.manifest import SourceEntry
from publisher.ledger.read import Wanted, read_runs
from publisher.ledger.run_reader import DecidedRecord, RunReader
from publisher.ledger.runs import StoredRun
from publisher.model.change import Outcome, Position
from publisher.reports.selectors import at_position


def late_text(run: StoredRun, record: DecidedRecord) -> str | None:
    """Explains a record with a smaller id than earlier runs have read; ``None`` for other records."""
    entry = run.manifest.sources[record.source]
    behind = run.manifest.behind.get(entry.name, 0)
    number = record.position.high
    if record.outcome is not Outcome.PUBLISHED or record.position.part or number >= behind:
        return None
    ledger = Ledger(run.handle.folder, run.manifest.job)
    wanted = Wanted(at_position(record.position), between=(number, number))
    for other in read_runs(ledger, wanted):
        if other.place == run.place:
            break
        outcome = _outcome_in(other, entry, record.position)
        if outcome is not None:
            return f"an earlier run has read this record: {outcome} in run {other.manifest.run}"
    has_all_ledgers = ledger.has_first_run()
    return (
        f"an earlier run has read record {behind}, but none has read this record: it was committed late"
        + ("" if has_all_ledgers else ", or was read by a run whose ledger is deleted")
    )


def _outcome_in(run: StoredRun, source: SourceEntry, position: Position) -> str | None:
    """Returns the outcome of a record in another run; ``None`` if that run did not read it."""
    wanted = source.name, source.origin
    for number, entry in enumerate(run.manifest.sources):
        if (entry.name, entry.origin) != wanted:
            continue
        records = list(RunReader(run).records(at_position(position, number)))
        if records:
            reason = records[-1].reason
            return records[-1].outcome.label + (f" ({reason})" if reason else "")
    return None
