"""The epochs of sources in event ids: no event id may name two documents."""

from __future__ import annotations

from collections.abc import Iterable

from publisher.ledger.event_ids import SourceEpoch
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest
from publisher.ledger.published_ids import PublishedIds, find_shared_positions
from publisher.ledger.runs import LedgerRun


def renew_ids(
    ledger: Ledger, ledger_run: LedgerRun, manifest: Manifest
) -> tuple[set[str], list[str]]:
    """Finds the sources whose event ids in a planned run would name two documents.

    A source whose positions named other records before gets the next epoch.  Returns the sources whose ids
    must name the objects, too, and notes on all sources that were found: with notes the run is planned again.
    """
    number, epochs = ledger_run.number, ledger.epochs().read()
    replaced, by_object, notes = list[str](), set[str](), list[str]()
    shared = find_shared_positions(ledger_run, manifest)
    for source, entry in enumerate(manifest.sources):
        name, epoch = entry.name, epochs.get(entry.name, SourceEpoch())
        if None not in (epoch.table, entry.identity) and epoch.table != entry.identity:
            reason: str | None = f"{entry.table} is another table than the one that was read before"
        else:
            reason = PublishedIds(ledger).find_conflict(ledger_run, manifest, source, epoch)
        if reason is not None:
            epochs[name] = epoch.next(number)
            replaced.append(name)
            notes.append(f"event ids of {name} have epoch {epoch.epoch + 1} from now on: {reason}")
        elif source in shared and not entry.origin.by_object:
            by_object.add(name)
            notes.append(object_note(name))
    if replaced:
        ledger.epochs().write(epochs)
        ledger.forget_greatest(replaced)
    return by_object, notes


def object_note(source: str) -> str:
    """Notes that event ids name the objects (``IdOrigin.by_object``)."""
    return (
        f"event ids of {source} name the objects, too: records of several objects have the same position in "
        "this run"
    )


def begin_epochs(ledger: Ledger, sources: Iterable[str]) -> None:
    """Gives sources the next epoch after a recovery, which cannot know all ids of the lost ledger."""
    epochs, number = ledger.epochs().read(), ledger.last_number() + 1
    next_epochs = {name: epochs.get(name, SourceEpoch()).next(number) for name in sources}
    ledger.epochs().write(next_epochs)
