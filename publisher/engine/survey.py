"""Surveys: an engine calls a function of a source for each item of the source's input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from publisher.engine.tasks import Resources, Rules
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

    def facts(self, numbers: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """Yields the facts of the items with these numbers, each with its number."""
        with Resources(self.rules) as resources:
            for number in numbers:
                yield number, self.survey(self.items[number], resources.catalogue)


@dataclass(frozen=True, slots=True)
class EngineTasks:
    """Implements ``TaskRunner`` with the tasks of an engine."""

    engine: Engine
    rules: Rules

    def survey(
        self, survey: Callable[[Item, Catalogue], Findings], items: Sequence[Item]
    ) -> list[Findings]:
        """See ``TaskRunner.survey``."""
        return self.engine.survey(SurveyWork(survey, tuple(items), self.rules)) if items else []

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``TaskRunner.shuffle``."""
        return self.engine.shuffle(work)
