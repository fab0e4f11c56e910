"""Problems of settings that are valid by themselves but not enough for ``publish``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from publisher.errors import SettingKey

if TYPE_CHECKING:
    from publisher.config.settings import Settings, SourceSettings


NOT_MASKED = (
    "is not set, and only replay --masked and inspect --masked mask values: set "
    'runs = "masked replays" if all else may publish and show them as they are'
)


class PublishProblem(NamedTuple):
    """A setting of the job file that is missing for ``publish``, or that ``publish`` cannot use."""

    key: SettingKey
    text: str
    causes: tuple[SettingKey, ...]
    """Settings that may cause this problem: if one of them is wrong, this problem is not reported."""


def publish_problems(settings: Settings, *, follows: bool = False) -> Iterator[PublishProblem]:
    """Yields missing and unusable settings; with ``follows`` also settings by which each poll would publish
    the same rows again."""
    if not settings.sources:
        problem = 'no source is defined; add one with snapshots = ["FILE"]'
        yield PublishProblem(("sources",), problem, (("sources",), ("source",)))
    for number, source in enumerate(settings.sources):
        yield from _source_problems(("sources", number), source)
        if follows and source.has_status and source.event_log.status == "any":
            problem = (
                "each poll would publish all rows of the table again; leave it out, or publish "
                "without --follow"
            )
            yield PublishProblem(("sources", number, "status"), problem, ())
    yield from _sink_problems(settings)
    if settings.masking is not None and settings.masking.runs is None:
        yield PublishProblem(("masking", "runs"), NOT_MASKED, (("masking", "runs"),))
    writable = any(source.has_status for source in settings.sources)
    if follows and writable and not settings.acknowledge.write_status:
        problem = (
            "each poll would publish rows that are still N again; set it to true, or publish "
            "without --follow"
        )
        yield PublishProblem(("acknowledge", "write_status"), problem, ())


def _sink_problems(settings: Settings) -> Iterator[PublishProblem]:
    sink, kafka = settings.sink, settings.kafka
    if sink.to == "files" and sink.path is None:
        problem = (
            'names no sink; set path = "DIRECTORY" for files, or to = "kafka" with '
            'bootstrap = "HOST:PORT"'
        )
        causes = (("dispatch", "to"), ("dispatch", "path"))
        yield PublishProblem(("dispatch",), problem, causes)
    if sink.to == "kafka" and not kafka.brokers:
        key = ("dispatch", "bootstrap")
        other = ("dispatch", "kafka", "bootstrap.servers")
        yield PublishProblem(key, 'is required; name the brokers as "HOST:PORT"', (key, other))
    if settings.follow.heartbeat_minutes and "{" in kafka.topic:
        problem = (
            "sends to one topic, but topic in [dispatch] has placeholders; name a topic without "
            "placeholders, or leave this out"
        )
        yield PublishProblem(("follow", "heartbeat_minutes"), problem, ())


def _source_problems(key: SettingKey, source: SourceSettings) -> Iterator[PublishProblem]:
    format_ = (*key, "format")
    if not source.reads:
        table = ' or table = "NAME"' if source.descriptor.live else ""
        if source.descriptor.compares:
            table = ' or tables = ["NAME"]'
        inputs = [(*key, name) for name in ("snapshots", "table", "tables")]
        problem = f'nothing to read; set snapshots = ["FILE"]{table}'
        yield PublishProblem(key, problem, (format_, *inputs))
    if source.copies == "publish" and (not source.snapshots or source.descriptor.compares):
        problem = "is for files of changes; leave it out"
        yield PublishProblem((*key, "copies"), problem, (format_, (*key, "snapshots")))
    causes = (format_, ("database",), (*key, "url"), (*key, "url_env"))
    problem = "no database is named; set url or url_env in [database]"
    if source.compares_database and source.reads and source.database is None:
        yield PublishProblem((*key, "tables"), problem, causes)
    if source.table is not None and source.database is None:
        yield PublishProblem((*key, "table"), problem, causes)
