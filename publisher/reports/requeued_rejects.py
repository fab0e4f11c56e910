"""Finds rejected rows of live logs that are handled in the log: requeued, but not read again yet."""

from __future__ import annotations

from functools import partial

from publisher.config.settings import Settings
from publisher.database.deadline import ask_briefly
from publisher.errors import PublisherError
from publisher.ledger.read import find_job
from publisher.reports.rejects import read_rejects
from publisher.runs.rejects import read_requeued


def find_requeued(settings: Settings) -> tuple[frozenset[str], list[str]]:
    """Returns the ids of rejected records whose rows are neither E nor F now, and notes about logs that
    could not be read."""
    sources = [source for source in settings.sources if source.has_status and source.database]
    if (
        not sources
        or not settings.acknowledge.write_status
        or find_job(settings.ledger_folder) is None
    ):
        return frozenset(), []
    requeued: set[str] = set()
    notes: list[str] = []
    rejects = [*read_rejects([settings.ledger_folder])]
    for source in sources:
        try:
            requeued |= ask_briefly(partial(read_requeued, source, rejects)).keys()
        except PublisherError as error:
            notes.append(
                f"{source.name}: the statuses in {source.table} could not be read, so rows that are N again "
                f"are shown, too: {error}"
            )
    return frozenset(requeued), notes
