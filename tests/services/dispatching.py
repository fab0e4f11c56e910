"""Dispatching to a real broker without Spark, and what came of it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace

from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.errors import FatalError
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from tests.services.topics import Record, Topics
from tests.support.ledgers import PlannedDocument, report


def send_pickled(lanes: Sequence[LaneSendTask]) -> list[LaneSendReport]:
    """Sends lanes as tasks do: what they are told has been pickled."""
    return [pickle.loads(pickle.dumps(lane)).send() for lane in lanes]


def dispatcher(topics: Topics, topic: str, lanes: int = 2, **options: object) -> KafkaDispatcher:
    kafka_options = KafkaOptions(bootstrap=topics.bootstrap, topic=topic, timeout=30, **options)  # type: ignore[arg-type]
    return KafkaDispatcher(kafka_options, job=f"job-{topic}", owner=f"job-{topic}", lanes=lanes)


def dispatch_run(
    sink: KafkaDispatcher, ledger_run: LedgerRun, manifest: Manifest
) -> list[LaneSendReport]:
    """Sends, and says what each lane reported."""
    reports: list[LaneSendReport] = []

    def run(lanes: Sequence[LaneSendTask]) -> list[LaneSendReport]:
        reports.extend(send_pickled(lanes))
        return reports

    sink = replace(sink, run_lanes=run)
    sink.prepare(manifest.run)
    sink.dispatch(ledger_run, manifest, report(ledger_run, manifest))
    return reports


def texts(found: list[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in found]


def by_key(found: list[Record]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for record in found:
        keys.setdefault((record.key or b"").decode(), []).append((record.value or b"").decode())
    return keys


def texts_by_key(kafka_options: list[PlannedDocument]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for document in kafka_options:
        keys.setdefault(document.key, []).append(document.text)
    return keys


@dataclass
class DispatchStop:
    """Lets some transactions pass: it is asked once before the first."""

    left: int

    def __call__(self) -> None:
        if self.left == 0:
            raise FatalError("stop here")
        self.left -= 1
