"""The program, killed when the brokers have the first copy of a change of a key and not the second."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from confluent_kafka import Producer

from publisher.cli.main import main
from publisher.dispatch.kafka import lane_sender
from publisher.dispatch.kafka.records import Batch

PRODUCE = lane_sender.LaneSender.produce


def produce_half(sender: lane_sender.LaneSender, producer: Producer, batch: Batch) -> None:
    for place, (_, _, headers) in enumerate(batch.records):
        if "key-from" in dict(headers):
            half = replace(batch, topics=batch.topics[:1], records=batch.records[: place + 1])
            PRODUCE(sender, producer, half)
            producer.flush(30)
            os.kill(os.getpid(), signal.SIGKILL)
    PRODUCE(sender, producer, batch)


if __name__ == "__main__":
    lane_sender.LaneSender.produce = produce_half  # type: ignore[assignment]
    main()
