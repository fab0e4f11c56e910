"""Sends lane 0 of a made ledger, in a process that a test may kill or pause.

Arguments: broker, topic, folder of the ledger, transaction number to halt in; before it commits
that one it says ``halt_before_commit`` and waits for a line.
"""

# ruff: noqa: T201 - it speaks with the test

from __future__ import annotations

import sys
from pathlib import Path

from confluent_kafka import Producer

from publisher.dispatch.kafka import lane_sender
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.errors import PublisherError
from publisher.ledger.runs import LedgerRun
from tests.support.ledgers import report


def options(bootstrap: str, topic: str) -> KafkaOptions:
    return KafkaOptions(
        bootstrap=bootstrap,
        topic=topic,
        timeout=30,
        transaction_size=1_000,
        transaction_ms=10_000,
        kafka={"transaction.timeout.ms": "60000"},
    )


def halting(halt: int) -> None:
    """From now on the commit of a transaction waits for a line, when its documents are out."""
    commit = lane_sender.commit
    number = 0

    def halt_before_commit(producer: Producer, timeout: float) -> None:
        nonlocal number
        number += 1
        if number == halt:
            producer.flush(timeout)
            print("halted", flush=True)
            sys.stdin.readline()
        commit(producer, timeout)

    lane_sender.commit = halt_before_commit


def main() -> None:
    bootstrap, topic, folder, halt = sys.argv[1:]
    halting(int(halt))
    ledger_run = LedgerRun(Path(folder))
    manifest = ledger_run.manifest()
    assert manifest is not None
    sink = KafkaDispatcher(options(bootstrap, topic), job=topic, owner=topic, lanes=1)
    try:
        sink.prepare(manifest.run)
        sink.dispatch(ledger_run, manifest, report(ledger_run, manifest))
    except PublisherError as error:
        print(error.message, flush=True)
        sys.exit(error.exit_code)
    print("sent", flush=True)


if __name__ == "__main__":
    main()
