"""The flow of one run: ``plan`` reads and plans, ``commit_and_send`` writes the ledger and publishes.

``Job`` and ``replay`` call them in this order; a job acknowledges then.  Data goes down and does not come
back up, but for a torn transaction.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType
from typing import NamedTuple

from publisher.console import Progress
from publisher.dispatch.contract import Dispatcher
from publisher.dispatch.refusals import apply_refusals
from publisher.engine.contract import Engine, Packing
from publisher.formats.record_packing import KEYS, PIECE_SCHEMA, pack, sort_lanes, unpack
from publisher.formats.work import Work, read_split
from publisher.ledger.conservation import RunReport, report_of
from publisher.ledger.lane_writer import LaneSpace, PlannedLane
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import (
    BYTES_OF_SMALL_RUN,
    DOCUMENT_STAGING,
    RECORDS_OF_SMALL_RUN,
    LedgerRun,
)
from publisher.ledger.source_state import STATE
from publisher.ledger.stored_states import store_states
from publisher.model.engine_use import EngineUse
from publisher.runs.acknowledge import SentRun
from publisher.runs.build_manifest import build_manifest, identify_inputs
from publisher.runs.find_torn_transactions import reject_torn
from publisher.runs.input_size import input_size
from publisher.runs.keep_unpublished import keep_rejected
from publisher.runs.key_groups import group_keys
from publisher.runs.plan_lane import plan_lane
from publisher.runs.prepare import SHARED, RunRequest, prepare_work
from publisher.runs.relate_groups import count_partitions, relate_groups

_NO_SECONDS: Mapping[str, float] = MappingProxyType({})


LANES = Packing(PIECE_SCHEMA, "lane", tuple(KEYS), pack, unpack, sort_lanes)
"""How records travel to the lanes of their objects."""


class Plan(NamedTuple):
    """A planned run with its rows, its manifest, the seconds that planning took, and the engine."""

    ledger_run: LedgerRun
    manifest: Manifest
    seconds: Mapping[str, float]
    engine: EngineUse | None


def plan(request: RunRequest, engine: Engine, progress: Progress | None) -> Plan:
    """Plans a run, step by step; ``commit_and_send`` makes the plan durable and sends it."""
    started, session_before = time.monotonic(), engine.seconds
    ledger_run = request.ledger_run
    size = cache(partial(input_size, request))
    engine.expect(size)
    with ExitStack() as stack:
        ledger_run.begin(request.directory)
        if request.settings.is_masked:
            stack.callback(_remove_values, ledger_run)
        inputs = identify_inputs(request.settings.sources)
        work = prepare_work(request, engine, stack)
        if work.has_groups:
            work = replace(work, partitions=count_partitions(size()))
        work = group_keys(work, engine)
        space = _space(request, work.lanes, engine)
        name = f"plan {work.lanes} lanes of {request.run}"
        while True:
            lanes = plan_lanes(engine, work, space, name, progress)
            torn = reject_torn(work, lanes)
            if torn is None:
                break
            # the one place where the flow turns back; each time at least one more transaction is rejected
            for lane in lanes:
                lane.rows.discard()
            work = torn
        rows = [lane.rows for lane in lanes]
        keep_rejected(request, work, rows)
        if request.objects is not None and request.job_identity is not None:
            store_states(ledger_run, request.number, request.objects, lanes)
    planned, session = time.monotonic(), engine.seconds - session_before
    seconds = {"session": round(session, 3), "plan": round(planned - started - session, 3)}
    manifest = build_manifest(request, work, lanes, inputs)
    return Plan(replace(ledger_run, rows=rows), manifest, seconds, engine.use)


def _space(request: RunRequest, lanes: int, engine: Engine) -> LaneSpace:
    """The folders for the rows of lanes; all lanes together keep no more in memory than a small run has."""
    return LaneSpace(
        request.ledger_run.staging,
        request.directory / DOCUMENT_STAGING,
        to_sink=not request.ledger_run.owns(request.directory),
        rows=RECORDS_OF_SMALL_RUN // lanes,
        bytes=BYTES_OF_SMALL_RUN // lanes,
        syncs=engine.repeats_tasks,
    )


def plan_lanes(
    engine: Engine,
    work: Work,
    space: LaneSpace,
    name: str,
    progress: Progress | None = None,
) -> list[PlannedLane]:
    """Decodes all splits, relates rows that depend on each other, brings the records of each object into its
    lane, and plans all lanes.

    Tasks stage large lanes in the folders of ``space``, which all of them must see; nothing is committed."""
    rows = engine.read(range(len(work.splits())), partial(read_split, work), name)
    lanes = relate_groups(rows, work, space.staging).exchange(LANES, work.lanes, space.staging)
    return lanes.gather(partial(plan_lane, work, space), progress)


def _remove_values(ledger_run: LedgerRun) -> None:
    """Removes the files by which the tasks of a masked run exchange values as they are."""
    shutil.rmtree(ledger_run.staging / SHARED, ignore_errors=True)
    shutil.rmtree(ledger_run.folder / STATE, ignore_errors=True)


def commit_and_send(planned: Plan, dispatcher: Dispatcher) -> SentRun:
    """Commits the ledger of a run, from when on it is sent by this start or a later one; then sends it."""
    started = time.monotonic()
    ledger_run = planned.ledger_run.commit(planned.manifest)
    seconds = {**planned.seconds, "commit": round(time.monotonic() - started, 3)}
    return send(ledger_run, planned.manifest, dispatcher, seconds, planned.engine)


def send(
    ledger_run: LedgerRun,
    manifest: Manifest,
    dispatcher: Dispatcher,
    seconds: Mapping[str, float] = _NO_SECONDS,
    engine: EngineUse | None = None,
) -> SentRun:
    """Sends the documents of a planned run that the sink does not have yet, if all its files are there."""
    started = time.monotonic()
    ledger_run.check_files(manifest)
    # without refusals: the dispatcher may find some now, and adds them itself
    report = _report_plan(manifest, ledger_run, "published", dispatcher, seconds, engine)
    refusals = dispatcher.dispatch(ledger_run, manifest, report)
    seconds = {**seconds, "dispatch": round(time.monotonic() - started, 3)}
    report = apply_refusals(replace(report, seconds=seconds), refusals)
    return SentRun(ledger_run, manifest, report, refusals)


def find_sent(ledger_run: LedgerRun, manifest: Manifest, dispatcher: Dispatcher) -> SentRun:
    """Describes a run that the sink has already."""
    refusals = dispatcher.refusals(ledger_run)
    report = _report_plan(manifest, ledger_run, "published", dispatcher)
    return SentRun(ledger_run, manifest, apply_refusals(report, refusals), refusals)


def build_report(
    manifest: Manifest,
    ledger_run: LedgerRun,
    state: str,
    dispatcher: Dispatcher,
) -> RunReport:
    """Builds the report of a planned run, with the documents that the sink has refused."""
    report = _report_plan(manifest, ledger_run, state, dispatcher)
    return apply_refusals(report, dispatcher.refusals(ledger_run))


def _report_plan(
    manifest: Manifest,
    ledger_run: LedgerRun,
    state: str,
    dispatcher: Dispatcher,
    seconds: Mapping[str, float] = _NO_SECONDS,
    engine: EngineUse | None = None,
) -> RunReport:
    return report_of(
        manifest,
        state=state,
        ledger=str(ledger_run.root),
        target=dispatcher.target,
        seconds=dict(seconds),
        engine=engine,
    )
