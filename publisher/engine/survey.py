"""Surveys: an engine calls a function of a source for each item of the source's input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from publisher.engine.task_resources import Resources, Rules
from publisher.engine.tasks import AnySource
from publisher.model.catalogue import Catalogue
from publisher.sources.task_runner import Findings, Item, ShuffleWork

if TYPE_CHECKING:
    from publisher.engine.contract import Engine


@dataclass(frozen=True, slots=True)
class SurveyWork:
    """A function, and the items to call it with.  Sent to tasks; holds no connection."""

    survey: Callable[[Any, Catalogue], Any]
    items: tuple[Any, ...]
    rules: Rules
    source: AnySource | None = None
    """The source whose tables the catalogue describes; ``None`` if the function needs no catalogue."""

    def facts(self, numbers: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """Yields the facts of the items with these numbers, each with its number."""
        with Resources(self.rules) as resources:
            source, catalogue = self.source, resources.catalogue
            if source is not None:
                catalogue = resources.catalogue_of(source.format, source.tables())
            for number in numbers:
                yield number, self.survey(self.items[number], catalogue)


@dataclass(frozen=True, slots=True)
class EngineTasks:
    """Implements ``TaskRunner`` with the tasks of an engine."""

    engine: Engine
    rules: Rules
    source: AnySource | None = None

    def survey(
        self, survey: Callable[[Item, Catalogue], Findings], items: Sequence[Item]
    ) -> list[Findings]:
        """See ``TaskRunner.survey``."""
        work = SurveyWork(survey, tuple(items), self.rules, self.source)
        return self.engine.survey(work) if items else []

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``TaskRunner.shuffle``."""
        return self.engine.shuffle(work)
