"""Finds rejected rows of live logs that are handled in the log: requeued, but not read again yet."""

from __future__ import annotations

from functools import partial

from publisher.acknowledge.retry import read_handled_rows
from publisher.config.settings import Settings
from publisher.database.deadline import ask_briefly
from publisher.errors import PublisherError
from publisher.ledger.read import find_job
from publisher.reports.rejects import read_rejects


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
        assert source.database is not None
        assert source.table is not None
        ids = [
            (record.record_id, record.id)
            for record in rejects
            if record.record_id is not None
            and record.source == source.name
            and record.table in (None, source.table)
        ]
        if not ids:
            continue
        try:
            handled = ask_briefly(
                partial(
                    read_handled_rows,
                    source.database,
                    source.table,
                    source.event_log,
                    {n for n, _ in ids},
                )
            )
        except PublisherError as error:
            notes.append(
                f"{source.name}: the statuses in {source.table} could not be read, so rows that are N again "
                f"are shown, too: {error}"
            )
            continue
        requeued |= {name for number, name in ids if number in handled and name is not None}
    return frozenset(requeued), notes
