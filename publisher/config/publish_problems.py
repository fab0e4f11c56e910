"""What ``publish`` needs beyond settings that are right by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from publisher.sources.live.registry import FROM_TABLES

if TYPE_CHECKING:
    from publisher.config.settings import Settings, SourceSettings

Place = tuple[str | int, ...]
"""Where a setting stands in a job file: ``("sources", 0, "table")``."""


class PublishProblem(NamedTuple):
    """Something that ``publish`` needs and settings lack."""

    place: Place
    text: str
    causes: tuple[Place, ...]
    """Settings: where one of them is wrong, this problem may be none."""

    def described(self, several: bool) -> str:
        """The problem with its place; ``several`` numbers the sources."""
        table, *rest = self.place
        if table != "sources":
            return f"[{table}]{''.join(f' {name}' for name in rest)}: {self.text}"
        numbers = [str(int(part) + 1) for part in rest[:1] if several]
        return " ".join(["[[sources]]", *numbers, *map(str, rest[1:])]) + f": {self.text}"


def publish_problems(settings: Settings, *, follows: bool = False) -> Iterator[PublishProblem]:
    """What ``publish`` needs and settings lack; with ``follows`` also what would publish the same rows
    again at each poll."""
    if not settings.sources:
        problem = 'there is none; add one with snapshots = ["FILE"]'
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
    told = any(source.has_status for source in settings.sources)
    if follows and told and not settings.acknowledge.write_status:
        problem = (
            "each poll would publish again what is still N; set it to true, or publish without "
            "--follow"
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
        place = ("dispatch", "bootstrap")
        named = ("dispatch", "kafka", "bootstrap.servers")
        yield PublishProblem(place, 'is required, the brokers as "HOST:PORT"', (place, named))
    if settings.follow.heartbeat_minutes and "{" in kafka.topic:
        problem = (
            "goes to one topic, and that of [dispatch] has placeholders; name a topic without, or "
            "leave it out"
        )
        yield PublishProblem(("follow", "heartbeat_minutes"), problem, ())


def _source_problems(place: Place, source: SourceSettings) -> Iterator[PublishProblem]:
    kind = (*place, "format")
    if not source.reads:
        table = ' or table = "NAME"' if source.format in FROM_TABLES else ""
        if source.compared is not None:
            table = ' or tables = ["NAME"]'
        names = [(*place, name) for name in ("snapshots", "table", "tables")]
        problem = f'nothing to read; set snapshots = ["FILE"]{table}'
        yield PublishProblem(place, problem, (kind, *names))
    if source.copies == "publish" and (not source.snapshots or source.compared is not None):
        problem = "is for files of changes; leave it out"
        yield PublishProblem((*place, "copies"), problem, (kind, (*place, "snapshots")))
    urls_ = (("database",), (*place, "url"), (*place, "url_env"))
    asked = "of which database? Set [database] url or url_env"
    if source.compares_database and source.reads and source.database is None:
        yield PublishProblem((*place, "tables"), asked, (kind, *urls_))
    if source.table is not None and source.database is None:
        yield PublishProblem((*place, "table"), asked, (kind, *urls_))
