"""What is found out of a run before anything is sent: its topics, and documents that cannot go there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from publisher.dispatch.kafka.records import SIZE_COLUMNS, DocumentTable, LaneDocuments, sizes
from publisher.dispatch.kafka.topic_admin import KafkaTopics
from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.dispatch.refusals import TOO_LARGE, TOPIC_NAME, Refusal

GREATEST_MESSAGE = 1_000_000_000
"""The most that librdkafka takes as ``message.max.bytes``."""
_PRODUCERS = "message.max.bytes"
_TOPICS = "max.message.bytes"


def topics_of(lanes: Sequence[LaneDocuments]) -> set[str]:
    """All topics that documents of a run go to, without those whose template gives no usable name."""
    found: set[str] = set()
    for lane in lanes:
        if not lane.template.fields:
            return {lane.template.text}
        for _, rows in lane.rows(["source", "schema", "table"]):
            tables = set(lane.tables(rows))
            found.update(
                lane.template.topic(*table)
                for table in tables
                if lane.template.problem(*table) is None
            )
    return found


def unusable_topics(
    names: Iterable[str], known: Iterable[str], own: Iterable[str]
) -> dict[str, str]:
    """Find the topics among ``names`` that no document may go to, and say why.

    ``known`` are the topics of the cluster, ``own`` those that hold progress or rejected records.
    Brokers refuse a new topic whose name differs from another one only in dots and underscores.
    """
    wrong = dict.fromkeys(own, "it holds the job's progress or its rejected records")
    there = {name.replace(".", "_"): name for name in sorted(known)}
    exact = set(known)
    found: dict[str, str] = {}
    for name in sorted(names):
        other = there.setdefault(name.replace(".", "_"), name)
        if name in wrong:
            found[name] = wrong[name]
        elif name not in exact and other != name:
            found[name] = f"its name collides with that of topic {other}"
    return found


def limits_of(topics: KafkaTopics, names: set[str]) -> dict[str, int]:
    """Bytes that a record batch of each topic may have: the topic's own limit, or the producer's
    where the job file sets a lower one.

    Raises:
        FatalError: The user may not see the settings of a topic.
    """
    own = int(topics.clients.options.kafka.get(_PRODUCERS, GREATEST_MESSAGE))
    configs = topics.configs(names)
    return {name: min(own, int(config[_TOPICS])) for name, config in configs.items()}


def refusals(
    lane: LaneDocuments, limits: Mapping[str, int], unusable: Mapping[str, str]
) -> Iterator[Refusal]:
    """The documents of a lane that their topics would refuse, and those that have no topic."""
    for first, rows in lane.rows(SIZE_COLUMNS):
        nameless = _without_topic(lane, rows, unusable) if lane.template.fields else {}
        large = _too_large(lane, rows, limits, nameless)
        for place, (reason, detail) in sorted((nameless | large).items()):
            row = rows.slice(place, 1)
            yield Refusal(
                lane=lane.lane,
                document=first + place,
                source=lane.sources[row.column("source")[0].as_py()],
                position=lane.positions(row)[0].decode(),
                records=row.column("records")[0].as_py(),
                reason=reason,
                detail=detail,
            )


Why = tuple[str, str]
"""Reason and detail of a refusal."""


def _without_topic(
    lane: LaneDocuments, rows: pa.RecordBatch, unusable: Mapping[str, str]
) -> dict[int, Why]:
    tables = lane.tables(rows)
    wrong = {
        table: (
            TOPIC_NAME,
            f"{problem}: exclude table {table.table}, or change topic in [dispatch]",
        )
        for table in set(tables)
        if (problem := _topic_problem(lane.template, table, unusable)) is not None
    }
    return {place: wrong[table] for place, table in enumerate(tables) if table in wrong}


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
    left_out: Collection[int],
) -> dict[int, Why]:
    if not limits:
        return {}
    found = sizes(rows, lane.sources)
    large: dict[int, Why] = {}
    for place in np.flatnonzero(found > min(limits.values())).tolist():
        if place not in left_out:
            topic, size = lane.topics(rows.slice(place, 1))[0], int(found[place])
            if size > limits[topic]:
                large[place] = (TOO_LARGE, _detail(size, topic, limits[topic]))
    return large


def _detail(size: int, topic: str, limit: int) -> str:
    return (
        f"{size:,} bytes as a record, and topic {topic} takes {limit:,}: raise its {_TOPICS} "
        f"({_PRODUCERS} in [dispatch.kafka], where set), then retry the records"
    )
