"""The bare producers that ``bench kafka-dispatch`` stands beside: processes that hold their records in
memory, ready to be sent, and send them as fast as the client can."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier

from confluent_kafka import KafkaError, Message

from publisher.dispatch.kafka.client import KafkaClients
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.records import DeadLetter, LaneDocuments, Record

BATCH = 1_000
"""Records between two looks at the answers."""


def send(lanes: Sequence[LaneDocuments], options: KafkaOptions, processes: int) -> float:
    """Sends the documents of the lanes to the topic of the options; gives the seconds from when all
    processes have their records until all have been on_delivery that the brokers have them."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(processes + 1)
    started = [
        spawn.Process(target=_work, args=(lanes[number::processes], options, barrier))
        for number in range(processes)
    ]
    for process in started:
        process.start()
    barrier.wait(600)
    begin = time.perf_counter()
    barrier.wait(600)
    seconds = time.perf_counter() - begin
    for process in started:
        process.join()
        if process.exitcode:
            raise RuntimeError(f"a bare producer ended with {process.exitcode}")
    return seconds


def _work(lanes: Sequence[LaneDocuments], options: KafkaOptions, barrier: Barrier) -> None:
    try:
        gc.disable()  # all is kept until the end
        records = [
            record
            for lane in lanes
            for batch in lane.batches(0, 10_000)
            for record in batch.records
        ]
        barrier.wait(600)
        _send(records, options)
        barrier.wait(600)
    except BaseException:
        barrier.abort()
        raise


def _send(records: Sequence[Record | DeadLetter], options: KafkaOptions) -> None:
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    # the program's own settings, but for transactions
    producer = KafkaClients(options).producer({"on_delivery": on_delivery})
    topic, produce = options.topic, producer.produce
    for first in range(0, len(records), BATCH):
        for key, value, headers in records[first : first + BATCH]:
            while True:
                try:
                    produce(topic, value, key, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    if producer.flush(options.timeout) or failed:
        raise RuntimeError(f"not all was delivered: {failed[:3]}")
