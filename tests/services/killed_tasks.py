"""Sends ledger of made documents in Spark tasks that end themselves in their first attempt.

Takes brokers, a folder to work in, and a topic as arguments; prints a line for each lane: number, documents
and transactions of the attempt that counted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from publisher.dispatch.kafka.dead_letters import DeadLetters
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.records import Batch, LaneDocuments
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.spark.options import SparkOptions
from publisher.runs.lane_sending import LaneSending
from tests.support.ledgers import commit_run, documents, report

LANES = 3
COUNT = 5_500
"""Documents of a lane: some committed, some on their way, some not yet sent when its task ends."""
ON_THEIR_WAY = 5_000


class KilledDocuments(LaneDocuments):
    """Documents whose task ends without a word, once, when it asks for those behind ``ON_THEIR_WAY``."""

    def batches(self, start: int, size: int, refused: Collection[int] = ()) -> Iterator[Batch]:
        ended = self.rows.folder / f"ended-{self.lane}"
        for batch in super().batches(start, size, refused):
            if batch.end > ON_THEIR_WAY and not ended.exists():
                ended.touch()
                time.sleep(0.5)  # lets the client send what it was handed
                os._exit(9)
            yield batch


def main() -> None:
    bootstrap, folder, topic = sys.argv[1:]
    lanes = [documents(COUNT, first=1 + lane * COUNT) for lane in range(LANES)]
    with SparkEngine(SparkOptions(master="local[2,4]")) as engine:
        ledger_run, manifest = commit_run(Path(folder, "ledger"), lanes)
        options = KafkaOptions(
            bootstrap=bootstrap, topic=topic, transaction_size=3_000, transaction_ms=10_000
        )
        send = partial(send_and_kill, engine)
        sink = KafkaDispatcher(options, job=topic, owner=topic, lanes=LANES, run_lanes=send)
        sink.prepare(manifest.run)
        sink.dispatch(ledger_run, manifest, report(ledger_run, manifest))


def send_and_kill(engine: SparkEngine, sendings: Sequence[LaneSendTask]) -> list[LaneSendReport]:
    tasks = [replace(one, documents=kill_first_attempt(one.documents)) for one in sendings]
    sent = LaneSending(engine)(tasks)
    for lane in sent:
        sys.stdout.write(f"{lane.lane} {lane.documents} {lane.transactions}\n")
    return sent


def kill_first_attempt(tasks: LaneDocuments | DeadLetters) -> KilledDocuments:
    """Kills the first attempt that sends these documents."""
    assert isinstance(tasks, LaneDocuments)
    return KilledDocuments(tasks.rows, tasks.sources, tasks.template, id_prefixes=tasks.id_prefixes)


if __name__ == "__main__":
    main()
