"""Surveys a run before sending: its topics, and the documents that its topics would refuse."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.records import (
    RECOVERED_BYTES,
    SIZE_COLUMNS,
    DocumentTable,
    LaneDocuments,
    reason_bytes,
    sizes,
)
from publisher.dispatch.kafka.refused_differences import refuse_differences
from publisher.dispatch.kafka.topic_admin import KafkaTopics
from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.dispatch.refusals import DispatchRecord, Refusal, RefusalReason
from publisher.ledger.manifest import Manifest

BATCH_BYTES = 1_000_000
"""librdkafka's default of ``batch.size``."""
GREATEST_MESSAGE = 1_000_000_000
"""Maximum of ``message.max.bytes`` in librdkafka."""
_LANES_AT_ONCE = 4
_MOST_TOPICS = 200
_MOST_HEADERS = 4_096
"""Bytes of key and headers for which documents of small topics leave room."""
_FIXED_BYTES = 1_024
"""More than the bytes of a record besides its values: names of headers, lengths, the batch."""
_PRODUCERS = "message.max.bytes"
_TOPICS = "max.message.bytes"


def topics_of(lanes: Sequence[LaneDocuments]) -> set[str]:
    """The topics of a run's documents, without unusable names."""
    topics: set[str] = set()
    for lane in lanes:
        if not lane.template.fields:
            return {lane.template.text}
        for _, rows in lane.index(["source", "schema", "table"]):
            tables = set(lane.tables(rows))
            topics.update(
                lane.template.topic(*table)
                for table in tables
                if lane.template.problem(*table) is None
            )
    return topics


def unusable_topics(
    names: Iterable[str], existing: Iterable[str], reserved: Iterable[str]
) -> dict[str, str]:
    """Finds the topics among ``names`` that must not get documents, with the reason.

    ``existing`` are the topics of the cluster, ``reserved`` the topics of progress and rejected records.
    Brokers refuse a new topic whose name differs from another name only in dots and underscores.
    """
    existing, reserved = set(existing), set(reserved)
    by_plain_name = {name.replace(".", "_"): name for name in sorted(existing)}
    unusable: dict[str, str] = {}
    for name in sorted(names):
        other = by_plain_name.setdefault(name.replace(".", "_"), name)
        if name in reserved:
            unusable[name] = "it holds the job's progress or its rejected records"
        elif name not in existing and other != name:
            unusable[name] = f"its name collides with the name of topic {other}"
    return unusable


def limits_of(topics: KafkaTopics, names: set[str]) -> dict[str, int]:
    """Maximum bytes of a record batch by topic: the topic's own limit, or a lower limit of the job file.

    Raises:
        FatalError: The user may not read the settings of a topic.
    """
    job_limit = int(topics.clients.options.kafka.get(_PRODUCERS, GREATEST_MESSAGE))
    configs = topics.configs(names)
    return {name: min(job_limit, int(config[_TOPICS])) for name, config in configs.items()}


def document_limit(topics: KafkaTopics) -> int | None:
    """Bytes of text of a document that all topics of the job surely accept; ``None`` if it has none yet, or
    too many to request their settings.

    Raises:
        FatalError: The user may not read the settings of a topic.
    """
    template = TopicTemplate(topics.clients.options.topic)
    names = {name for name in topics.partitions if template.may_name(name)}
    if not 0 < len(names) <= _MOST_TOPICS:
        return None
    limit = min(limits_of(topics, names).values())
    return max(limit - _MOST_HEADERS, limit // 2)


def refusals(
    lane: LaneDocuments, limits: Mapping[str, int], unusable: Mapping[str, str]
) -> Iterator[Refusal]:
    """Finds the documents of a lane that their topics would refuse, and documents without a topic."""
    for first, rows in lane.index(SIZE_COLUMNS):
        nameless = _without_topic(lane, rows, unusable) if lane.template.fields else {}
        large = _too_large(lane, rows, limits, nameless)
        for place, (reason, detail) in sorted((nameless | large).items()):
            yield lane.refusal(first + place, rows.slice(place, 1), reason, detail)


ReasonAndDetail = tuple[RefusalReason, str]
"""Reason and detail of a refusal."""


def _without_topic(
    lane: LaneDocuments, rows: pa.RecordBatch, unusable: Mapping[str, str]
) -> dict[int, ReasonAndDetail]:
    tables = lane.tables(rows)
    problems = {
        table: (
            RefusalReason.TOPIC_NAME,
            f"{problem}: exclude table {table.table}, or change topic in [dispatch]",
        )
        for table in set(tables)
        if (problem := _topic_problem(lane.template, table, unusable)) is not None
    }
    return {place: problems[table] for place, table in enumerate(tables) if table in problems}


def _topic_problem(
    template: TopicTemplate, table: DocumentTable, unusable: Mapping[str, str]
) -> str | None:
    problem = template.problem(*table)
    if problem is not None:
        return problem
    topic = template.topic(*table)
    return f"topic {topic}: {unusable[topic]}" if topic in unusable else None


def _too_large(
    lane: LaneDocuments,
    rows: pa.RecordBatch,
    limits: Mapping[str, int],
    nameless: Collection[int],
) -> dict[int, ReasonAndDetail]:
    if not limits or _greatest_size(rows) + reason_bytes(lane.reasons) <= min(limits.values()):
        return {}
    record_bytes = sizes(rows, lane.sources, lane.id_prefixes) + reason_bytes(lane.reasons)
    large: dict[int, ReasonAndDetail] = {}
    for place in np.flatnonzero(record_bytes > min(limits.values())).tolist():
        if place not in nameless:
            topic, size = lane.topics(rows.slice(place, 1))[0], int(record_bytes[place])
            if size > limits[topic]:
                large[place] = (RefusalReason.TOO_LARGE, _detail(size, topic, limits[topic]))
    return large


def _greatest_size(rows: pa.RecordBatch) -> int:
    """Bytes that no document exceeds, quickly, to skip ``sizes`` for small documents."""
    # each column is in a record at most twice: as key and header, or event id and position
    longest = pc.max(rows.column("length")).as_py() or 0
    return int(longest + 2 * rows.nbytes + _FIXED_BYTES)


def _detail(size: int, topic: str, limit: int) -> str:
    return (
        f"the record has {size:,} bytes, topic {topic} accepts {limit:,}: raise its {_TOPICS} "
        f"({_PRODUCERS} in [dispatch.kafka], if set), then retry the records"
    )


def survey_lanes(
    lanes: Sequence[LaneDocuments], limits: Mapping[str, int], unusable: Mapping[str, str]
) -> tuple[Refusal, ...]:
    """Finds the documents of lanes as ``refusals``; a single lane, as in small runs, needs no threads."""

    def survey(lane: LaneDocuments) -> list[Refusal]:
        return list(refusals(lane, limits, unusable))

    if len(lanes) == 1:
        return tuple(survey(lanes[0]))
    with ThreadPoolExecutor(_LANES_AT_ONCE) as pool:
        return tuple(chain.from_iterable(pool.map(survey, lanes)))


def producer_limits(options: KafkaOptions, record: DispatchRecord) -> tuple[tuple[str, int], ...]:
    """Settings of the producer: batches that every topic accepts, and room for the largest document."""
    batch_size = int(options.kafka.get("batch.size", BATCH_BYTES))
    # librdkafka counts a message's headers more generously than brokers do
    greatest = min(record.document_bytes + 1_024, GREATEST_MESSAGE)
    return (
        ("batch.size", min(batch_size, record.batch_bytes)),
        ("message.max.bytes", greatest),
        ("queue.buffering.max.kbytes", max(65_536, 2 * record.document_bytes // 1_024)),
    )


def survey_run(
    options: KafkaOptions,
    tokens: str,
    topics: KafkaTopics,
    lanes: Sequence[LaneDocuments],
    manifest: Manifest,
    sent: Mapping[int, int],
) -> DispatchRecord:
    """Finds the topics of a run, and the documents that they refuse; ``tokens`` is the topic of tokens.

    ``sent`` counts the documents of each lane that the topics have.

    Raises:
        FatalError: A topic is missing.
    """
    all_names = topics_of(lanes)
    unusable = {}
    if TopicTemplate(options.topic).fields:
        letters = options.dead_letter_topic
        reserved = [tokens, *([letters] if letters else [])]
        unusable = unusable_topics(all_names, topics.partitions, reserved)
    names = all_names - unusable.keys()
    topics.require(names)
    limits = limits_of(topics, names)
    if any(lane.recovered for lane in lanes):
        limits = {name: limit - RECOVERED_BYTES for name, limit in limits.items()}
    record = DispatchRecord(
        run=manifest.run,
        plan=manifest.plan,
        target=options.target,
        topics=tuple(sorted(names)),
        batch_bytes=min(limits.values(), default=BATCH_BYTES),
        document_bytes=max(limits.values(), default=BATCH_BYTES),
        refusals=survey_lanes(lanes, limits, unusable),
    ).after(sent)
    if not manifest.is_minimal:
        return record
    return refuse_differences(record, lanes, manifest.document_limit)
