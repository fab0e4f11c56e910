"""The task that plans one lane of a run, independent of the engine that runs it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.database.resources import Resources
from publisher.formats.event_ranks import LaneRanks
from publisher.formats.masked_records import MaskedCatalogue, MaskedLookup, SourceMasks, masks_of
from publisher.formats.time_ranks import TimeRanks
from publisher.formats.work import Work
from publisher.ledger.lane_writer import LaneSpace, LaneWriter, PlannedLane
from publisher.ledger.lookups import LookupAnswer
from publisher.ledger.object_states import LaneStates, StatesOfSource
from publisher.model.arrays import Int64Array, booleans, integers
from publisher.model.catalogue import Catalogue
from publisher.model.change import IDS, TALLY, Reason
from publisher.model.key_changes import KeyHistory
from publisher.model.outcomes import NUMBERS, Outcomes
from publisher.model.published_objects import PublishedObjects
from publisher.planning.filters import Filter
from publisher.planning.lane import LanePlanner, PlanResult
from publisher.planning.names import SourceNames, SourceNaming
from publisher.planning.plan import PlanRules
from publisher.planning.query_back import Answer, RefusedLookup, RowLookups
from publisher.planning.rendered_columns import ColumnRenderer
from publisher.planning.texts import Form
from publisher.xds.document import Envelope, converter_of
from publisher.xds.values import Values

_JSON = json.JSONEncoder(ensure_ascii=False).encode


def plan_lane(
    work: Work, space: LaneSpace, lane: int, batches: Iterator[pa.RecordBatch]
) -> PlannedLane:
    """Plans one lane from its records in order."""
    with open_plan(work, lane, space) as plan:
        for batch in batches:
            plan.add(batch)
        return plan.close()


@contextmanager
def open_plan(work: Work, lane: int, space: LaneSpace) -> Iterator[LanePlan]:
    """Opens the plan of a lane; gives its files up after an error."""
    with Resources(work.rules) as resources:
        writer = LaneWriter(
            lane,
            space,
            [source.source.position_text for source in work.sources],
            converter_of(work.rules.documents.value_format),
        )
        states = None
        try:
            states = None if work.states is None else LaneStates(work.states, writer.objects)
            yield LanePlan(work, lane, resources, writer, states)
        except BaseException:
            writer.abandon()
            if states is not None:
                states.abandon()
            raise


class LanePlan:
    """Plans the sources of a lane one after the other, and writes the results."""

    def __init__(
        self,
        work: Work,
        lane: int,
        resources: Resources,
        writer: LaneWriter,
        states: LaneStates | None,
    ) -> None:
        self._work = work
        self._lane = lane
        self._resources = resources
        self._writer = writer
        self._states = states
        self._source = -1
        self._planner: LanePlanner | None = None
        self._masks: SourceMasks | None = None
        self._ranks: LaneRanks | TimeRanks | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Plans the next records."""
        for records in _by_source(batch):
            self._plan(records)
        self._writer.advance()

    def close(self) -> PlannedLane:
        """Completes the rows."""
        self._finish()
        objects = 0 if self._states is None else self._states.close()
        return self._writer.close(objects)

    def _switch(self, source: int) -> None:
        if source != self._source:
            self._finish()
            self._source = source
            states = _states_of(self._work, source, self._states)
            reader = self._work.sources[source].source
            catalogue = self._resources.catalogue_of(reader.format, reader.tables())
            self._masks = _masks_of(self._work, source, catalogue)
            self._planner = _planner_of(
                self._work, source, self._lane, self._resources, catalogue, states, self._masks
            )
            self._ranks = _ranks_of(self._work, source)

    def _finish(self) -> None:
        if self._planner is not None:
            self._write(self._planner.finish())
            self._planner = None
            if self._ranks is not None:
                self._ranks.check()

    def _plan(self, batch: pa.RecordBatch) -> None:
        """Takes changes and other records of one source apart, and plans the changes."""
        self._switch(int(batch.column("source")[0].as_py()))
        assert self._planner is not None
        outcomes = batch.column("outcome")
        if outcomes.null_count < batch.num_rows:
            batch = self._take_notes(self._take_tallies(batch))
            outcomes = batch.column("outcome")
        if self._masks is not None:
            batch = self._masks.mask(batch)
        first = self._writer.add_arrivals(batch)
        rows, changes = np.arange(first, first + batch.num_rows), batch
        if outcomes.null_count < batch.num_rows:
            is_change = outcomes.is_null()
            flags = booleans(is_change)
            self._write_outcomes(rows[~flags], batch.filter(pc.invert(is_change)))
            rows, changes = rows[flags], batch.filter(is_change)
        if changes.num_rows:
            changes = changes if self._ranks is None else self._ranks.rank(changes)
            self._write(self._planner.add(rows, changes))

    def _take_tallies(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        tallies, others = _split_at(batch, TALLY)
        for tally in tallies.select(["split", "row"]).to_pylist():
            self._writer.add_tally(tally["split"], tally["row"])
        return others

    def _take_notes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._ranks is None:
            return batch
        notes, others = _split_at(batch, IDS)
        self._ranks.add_notes(notes)
        return others

    def _write_outcomes(self, rows: Int64Array, decided: pa.RecordBatch) -> None:
        """Writes the outcomes of records without a change."""
        texts = zip(
            rows.tolist(), *(decided[name].to_pylist() for name in ("detail", "raw")), strict=True
        )
        outcomes = Outcomes(
            rows,
            integers(decided["outcome"]),
            np.array([NUMBERS[Reason(each)] for each in decided["reason"].to_pylist()], np.int64),
            np.full(len(rows), -1),
            {row: (detail, raw) for row, detail, raw in texts if (detail, raw) != (None, None)},
        )
        self._write([PlanResult(outcomes=[outcomes])])

    def _write(self, results: Iterable[PlanResult]) -> None:
        for result in results:
            for lookup in result.lookups:
                if isinstance(lookup, RowLookups):
                    self._writer.lookups.add_rows(self._source, *lookup)
                else:
                    obj, poll, answer, row_key = lookup
                    kind, text = _answer_text(answer)
                    self._writer.lookups.add(self._source, obj, poll, kind, text, row_key)
            self._writer.add_plan(self._source, result.documents, result.outcomes)


def _answer_text(answer: Answer) -> tuple[LookupAnswer, str | None]:
    """Returns the kind of an answer and its text in the ledger."""
    if answer is None:
        return LookupAnswer.GONE, None
    if isinstance(answer, RefusedLookup):
        return LookupAnswer.REFUSED, answer.detail
    return LookupAnswer.ROW, _JSON(dict(zip(*answer, strict=True)))


def _by_source(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Divides a batch where the source changes."""
    sources = batch.column("source").to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(sources)) + 1).tolist(), len(sources)]
    for start, end in pairwise(starts):
        if end > start:
            yield batch.slice(start, end - start)


def _split_at(batch: pa.RecordBatch, outcome: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Divides a batch into the records with an outcome and the others.

    Those at the beginning, where tallies and notes are sorted, are divided without a copy of the others."""
    flags = pc.fill_null(pc.equal(batch.column("outcome"), outcome), False)
    count = pc.sum(flags, min_count=0).as_py()
    if pc.all(flags.slice(0, count)).as_py():
        return batch.slice(0, count), batch.slice(count)
    return batch.filter(flags), batch.filter(pc.invert(flags))


def _states_of(work: Work, source: int, states: LaneStates | None) -> PublishedObjects | None:
    """The published states of objects as one source knows them."""
    if states is None or work.states is None or not work.states.by_source:
        return states
    return StatesOfSource(states, work.sources[source].name)


def _masks_of(work: Work, number: int, catalogue: Catalogue) -> SourceMasks | None:
    rules = work.rules
    return masks_of(rules.masking, work.sources[number].filters, catalogue, rules.values)


def _planner_of(
    work: Work,
    number: int,
    lane: int,
    resources: Resources,
    catalogue: Catalogue,
    states: PublishedObjects | None,
    masks: SourceMasks | None,
) -> LanePlanner:
    """Builds the planner of one source."""
    source, reader = work.sources[number], work.sources[number].source
    held_after = work.clock if source.polls is not None and source.polls.future_events else None
    filters = source.filters if masks is None else masks.filters
    filter_ = Filter(filters, held_after=held_after, catalogue=catalogue)
    keys = source.connected_keys
    history = KeyHistory()
    if keys is not None:
        mask_change = None if masks is None else masks.change_of_key
        history = keys.history(lane, source.place_of, mask_change)
    limits_length = work.rules.documents.value_format == "xml"
    columns = ColumnRenderer(
        source.identifier_case,
        Values(work.rules.values, limits_length=limits_length),
        filter_,
        catalogue if masks is None else MaskedCatalogue(catalogue, masks),
    )
    rules = PlanRules(
        names=SourceNames(
            columns,
            filter_,
            work.rules.classes,
            source.identifier_case,
            limits_length=limits_length,
        ),
        naming=SourceNaming(
            source.name, reader.position_text, joins_keys=reader.joins_keys, origin=source.origin
        ),
        filter=filter_,
        windows=source.polls,
        published_range=source.window,
        rejected=source.rejected,
        history=history,
        keeps_order=states is not None or bool(history.old_keys),
    )
    lookup = resources.lookup_of(reader.format, source.snapshot_of(work.rules.database))
    planner = LanePlanner(
        rules,
        Form(work.rules.documents, Envelope(work.rules.envelope)),
        lookup if masks is None else MaskedLookup(lookup, masks),
        states,
    )
    resources.close_at_end(planner)
    return planner


def _ranks_of(work: Work, number: int) -> LaneRanks | TimeRanks | None:
    """The ranks of the events of one source; ``None`` for formats without polls."""
    polls = work.sources[number].polls
    if polls is None:
        return None
    splits = (split for split, (source, _) in enumerate(work.splits()) if source == number)
    return (TimeRanks if polls.future_events else LaneRanks)(work.shared, splits)
