"""The history of one object over runs: its records, and the values before and after each document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from publisher.errors import UsageError
from publisher.model.change import Object
from publisher.reports.explain import RecordStory, explain
from publisher.reports.object_histories import AttributeDiff, read_diffs


@dataclass(frozen=True, slots=True)
class ValueChange:
    """The effect of a document on one attribute.

    ``before`` and ``after`` are all values, or ``None`` if the kept documents do not show them all."""

    attribute: str
    before: tuple[str, ...] | None
    after: tuple[str, ...] | None
    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A record of the object.

    ``changes`` are those of its document: ``None`` without a document, or if a later record has the same
    document, or if the document cannot be read."""

    journal: str
    story: RecordStory
    changes: tuple[ValueChange, ...] | None


@dataclass(frozen=True, slots=True)
class IdentityHistory:
    """The records of one object, oldest run first."""

    object: Object
    entries: tuple[HistoryEntry, ...]

    @property
    def documents(self) -> int:
        """Number of documents."""
        return sum(entry.changes is not None for entry in self.entries)


def read_history(
    directories: Sequence[Path], selector: str, *, source: str | None = None
) -> list[IdentityHistory]:
    """Reads the history of the objects that a key or an association selects.

    ``directories`` are journals, directories of ``replay``, or journal directories of jobs, oldest first.
    ``source`` selects the records of one source.  Starts no Spark.

    Raises:
        UsageError: There is no journal, or none has the object, or no record of it is from the source.
        FatalError: A journal is damaged, or another version of the program wrote it.
    """
    if "=" not in selector:
        raise UsageError(
            f"{selector!r} is neither a key nor an association: write it as idu=1 or idu=1,table=usr"
        )
    stories = _find_stories(directories, selector)
    if source is not None:
        names = sorted({story.source for _, story in stories if story.source})
        stories = [(directory, story) for directory, story in stories if story.source == source]
        if not stories:
            raise UsageError(
                f"{selector} has no record of a source {source!r}: choose one of {', '.join(names)}"
            )
    of_objects: dict[Object, list[tuple[Path, RecordStory]]] = {}
    for directory, story in stories:
        if story.object is not None:
            of_objects.setdefault(story.object, []).append((directory, story))
    return [IdentityHistory(obj, _entries(of_object)) for obj, of_object in of_objects.items()]


def _find_stories(directories: Sequence[Path], selector: str) -> list[tuple[Path, RecordStory]]:
    """Finds the records of the objects in each directory; one of the directories must have some."""
    stories, refusals = [], []
    for directory in directories:
        try:
            stories += [(directory, story) for story in explain(directory, selector)]
        except UsageError as refusal:  # another journal may have the object
            refusals.append(refusal)
    if len(refusals) == len(directories):
        raise refusals[0]
    return stories


def _entries(stories: Sequence[tuple[Path, RecordStory]]) -> tuple[HistoryEntry, ...]:
    values = KnownValues()
    entries = []
    for number, (directory, story) in enumerate(stories):
        changes = None
        following = stories[number + 1][1] if number + 1 < len(stories) else None
        if story.document is not None and not (following and _is_same(story, following)):
            diffs = read_diffs(story.document.text)
            if diffs is not None:
                changes = values.apply(story.document.operation, diffs)
        entries.append(HistoryEntry(str(directory), story, changes))
    return tuple(entries)


def _is_same(story: RecordStory, other: RecordStory) -> bool:
    """Returns whether two records were published by one document."""
    return (story.run, story.target, story.document) == (other.run, other.target, other.document)


@dataclass(slots=True)
class KnownValues:
    """The values of one object as far as its documents show them."""

    known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_complete: bool = False
    """True if all values are known, because the object was created or deleted."""

    def apply(self, operation: str, diffs: Sequence[AttributeDiff]) -> tuple[ValueChange, ...]:
        """Applies a document; returns its effect."""
        kinds = operation.split()
        if "add" in kinds and not self.known:
            self.is_complete = True
        changes = tuple(map(self._apply, diffs))
        if "delete" in kinds:
            changes += tuple(
                ValueChange(name, values, (), values, ())
                for name, values in self.known.items()
                if values
            )
            self.known, self.is_complete = {}, True
        return changes

    def _apply(self, diff: AttributeDiff) -> ValueChange:
        before = self.known.get(diff.attribute, () if self.is_complete else None)
        after: tuple[str, ...] | None = None
        if diff.removes_all:
            after = diff.added
        elif before is not None:
            kept = [value for value in before if value not in diff.removed]
            after = tuple(dict.fromkeys([*kept, *diff.added]))
        if after is not None:
            self.known[diff.attribute] = after
        return ValueChange(diff.attribute, before, after, diff.removed, diff.added)
