"""Ranks by event time in the local engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from publisher.engine.event_time_ranks import TIME_ORDER, set_ranks
from publisher.engine.local.external_sort import ExternalSort
from publisher.engine.tasks import Work
from publisher.model.record_schema import RECORD_SCHEMA


def rank_by_time(
    records: Iterable[pa.RecordBatch], work: Work, folder: Path, memory: int
) -> Iterator[pa.RecordBatch]:
    """Ranks the events of sources that are ordered by event time; yields other records unchanged.

    Events beyond ``memory`` bytes are sorted in files below ``folder``."""
    by_time = work.sources_by_time()
    if not by_time:
        yield from records
        return
    with ExitStack() as stack:
        events = {
            source: stack.enter_context(
                ExternalSort(RECORD_SCHEMA, TIME_ORDER, folder, memory=memory)
            )
            for source in by_time
        }
        for batch in records:
            is_event = pc.and_(
                pc.is_in(batch.column("source"), pa.array(by_time, pa.int32())),
                pc.is_null(batch.column("outcome")),
            )
            yield batch.filter(pc.invert(is_event))
            timed = batch.filter(is_event)
            for source in by_time:
                events[source].add(timed.filter(pc.equal(timed.column("source"), source)))
        for source in by_time:
            yield from set_ranks(events[source].sorted_batches(), before=0)
