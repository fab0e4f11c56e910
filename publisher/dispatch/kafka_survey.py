"""What is found out of a run before anything is sent: its topics, and documents too large for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from publisher.dispatch.kafka_admin import KafkaTopics
from publisher.dispatch.kafka_records import SIZE_COLUMNS, LaneDocuments, sizes
from publisher.dispatch.refusals import TOO_LARGE, Refusal

GREATEST_MESSAGE = 1_000_000_000
"""The most that librdkafka takes as ``message.max.bytes``."""
_PRODUCERS = "message.max.bytes"
_TOPICS = "max.message.bytes"


def topics_of(lanes: Sequence[LaneDocuments]) -> set[str]:
    """All topics that documents of a run go to.

    Raises:
        FatalError: A table gives no name of a topic.
    """
    found: set[str] = set()
    for lane in lanes:
        if not lane.template.fields:
            return {lane.template.text}
        for _, rows in lane.rows(["source", "schema", "table"]):
            found.update(lane.topics(rows))
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


def refusals(lane: LaneDocuments, limits: Mapping[str, int]) -> Iterator[Refusal]:
    """The documents of a lane that their topics would refuse."""
    least = min(limits.values())
    for first, rows in lane.rows(SIZE_COLUMNS):
        found = sizes(rows, lane.sources)
        for place in np.flatnonzero(found > least).tolist():
            row = rows.slice(place, 1)
            topic, size = lane.topics(row)[0], int(found[place])
            if size > limits[topic]:
                yield Refusal(
                    lane=lane.lane,
                    document=first + place,
                    source=lane.sources[row.column("source")[0].as_py()],
                    position=lane.positions(row)[0].decode(),
                    records=row.column("records")[0].as_py(),
                    reason=TOO_LARGE,
                    detail=_detail(size, topic, limits[topic]),
                )


def _detail(size: int, topic: str, limit: int) -> str:
    return (
        f"{size:,} bytes as a record, and topic {topic} takes {limit:,}: raise its {_TOPICS} "
        f"({_PRODUCERS} in [dispatch.kafka], where set), then retry the records"
    )
