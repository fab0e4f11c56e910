"""Surveys: an engine calls a function of a source for each item of the source's input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from publisher.engine.sealed_tasks import SealedShuffle
from publisher.engine.task_resources import Resources, Rules
from publisher.engine.tasks import AnySource
from publisher.masking.sealed_pickles import reduce_sealed, seal_object, unseal_object
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

    def __reduce__(self) -> tuple[Any, ...]:
        return reduce_sealed(self, self.rules.masking)

    def facts(self, numbers: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """Yields the facts of the items with these numbers, each with its number; in a masked run sealed."""
        with Resources(self.rules) as resources:
            source, catalogue = self.source, resources.catalogue
            if source is not None:
                catalogue = resources.catalogue_of(source.format, source.tables())
            for number in numbers:
                facts, masking = self.survey(self.items[number], catalogue), self.rules.masking
                yield number, facts if masking is None else seal_object(facts, masking)


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
        facts, masking = self.engine.survey(work) if items else [], self.rules.masking
        return facts if masking is None else [unseal_object(each, masking) for each in facts]

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``TaskRunner.shuffle``."""
        sealed = SealedShuffle(work, self.rules.masking)
        return [*map(sealed.open_result, self.engine.shuffle(sealed))]
