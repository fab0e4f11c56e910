"""The history of one object over runs: its records, and the values before and after each document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from publisher.consumer import ModifyAssociation, parse_document
from publisher.errors import UsageError
from publisher.ledger.run_reader import PublishedDocument
from publisher.model.change import Object
from publisher.reports.changed_keys import former_associations
from publisher.reports.explain import RecordStory, explain
from publisher.reports.object_histories import AttributeDiff, read_diffs
from publisher.xds.association import association


@dataclass(frozen=True, slots=True)
class ValueChange:
    """The effect of a document on one attribute.

    ``before`` and ``after`` are all values, or ``None`` if the kept documents do not show them all."""

    attribute: str
    before: tuple[str, ...] | None
    after: tuple[str, ...] | None
    removed: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def texts(self) -> ValueTexts:
        """All values before and after; if these are unknown, those that the document removes and adds."""
        if self.after is None:
            removed, added = (
                ", ".join(f"{sign} {value}" for value in values)
                for sign, values in (("-", self.removed), ("+", self.added))
            )
            return ValueTexts(removed, added)
        before = "(unknown)" if self.before is None else ", ".join(self.before) or "(none)"
        return ValueTexts(before, ", ".join(self.after) or "(none)")


class ValueTexts(NamedTuple):
    """The values of an attribute before and after a document, as people read them."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A record of the object.

    ``changes`` are those of its document: ``None`` without a document, or if a later record has the same
    document, or if the document cannot be read."""

    ledger: str
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
    directories: Sequence[Path],
    selector: str,
    *,
    source: str | None = None,
) -> list[IdentityHistory]:
    """Reads the history of the objects that a key or an association selects.

    ``directories`` are ledger, directories of ``replay``, or ledger directories of jobs, oldest first.
    ``source`` selects the records of one source.  An object whose key changes has one history under all of
    its keys; if another object gets a key later, it has a history of its own.  Starts no Spark.

    Raises:
        UsageError: There is no ledger, or none has the object, or no record of it is from the source.
        FatalError: A ledger is damaged, or another version of the program wrote it.
    """
    if "=" not in selector:
        raise UsageError(
            f"{selector!r} is neither a key nor an association: write it as idu=1 or idu=1,table=usr"
        )
    find = partial(_find_stories, directories)
    found = find(selector)
    if source is not None:
        _check_source(selector, source, {each.story.source for each in found})
    of_objects: dict[Object, list[FoundStory]] = {}
    for each in found:
        if each.story.object is not None:
            of_objects.setdefault(each.story.object, []).append(each)
    former = former_associations(directories)
    histories = []
    for obj, of_object in of_objects.items():
        for life in _lives(find, former, of_object):
            chosen = [each for each in life if source in (None, each.story.source)]
            if chosen:
                histories.append(IdentityHistory(obj, _entries(chosen)))
    return histories


def _check_source(selector: str, source: str, present: Collection[str]) -> None:
    if source not in present:
        raise UsageError(
            f"{selector} has no record of a source {source!r}: choose one of {', '.join(sorted(present))}"
        )


Place = tuple[int, str, int]
"""Directory, run and row of a record."""


class FoundStory(NamedTuple):
    """A record of an object, and the directory, given by its number, in which it was found."""

    number: int
    directory: Path
    story: RecordStory

    @property
    def place(self) -> Place:
        """Place in the order of records; the records before and after a change of a key share a lane."""
        return self.number, self.story.run or "", self.story.row

    @property
    def new_association(self) -> str | None:
        """The association after the record, if its document changes the key of the object."""
        document = self.story.document
        if document is None or "modify-association" not in document.operation:
            return None
        operations = parse_document(document.text)
        return next((op.new for op in operations if isinstance(op, ModifyAssociation)), None)


FindStories = Callable[[str], list[FoundStory]]
"""Finds the records that a key or an association selects."""


def _find_stories(directories: Sequence[Path], selector: str) -> list[FoundStory]:
    """Finds the records of the objects in each directory; one of the directories must have some."""
    stories, refusals = [], []
    for number, directory in enumerate(directories):
        try:
            found = explain(directory, selector, with_raw=False)
            stories += [FoundStory(number, directory, story) for story in found]
        except UsageError as refusal:  # another ledger may have the object
            refusals.append(refusal)
    if len(refusals) == len(directories):
        raise refusals[0]
    return stories


def _lives(
    find: FindStories,
    former: Mapping[str, Sequence[str]],
    stories: Sequence[FoundStory],
) -> Iterator[list[FoundStory]]:
    """Divides the records of a key among the objects that had it one after the other.

    An object whose key changes has the records of its other keys, too."""
    for life in _split(stories):
        before: list[FoundStory] = []
        earlier = _life_before(find, former, life)
        while earlier is not None:
            before = [*earlier.records, *before]
            earlier = _life_before(find, former, earlier)
        yield [*before, *life.records, *_records_after(find, life.records[-1])]


class KeyLife(NamedTuple):
    """The records of an object under one key."""

    records: list[FoundStory]
    since: Place | None
    """Place at which an earlier object has given up the key; ``None`` if there was none."""


def _split(stories: Sequence[FoundStory]) -> Iterator[KeyLife]:
    """Divides the records of a key at changes of the key."""
    records: list[FoundStory] = []
    since = None
    for each in stories:
        records.append(each)
        if each.new_association is not None:
            yield KeyLife(records, since)
            records, since = [], each.place
    if records:
        yield KeyLife(records, since)


def _life_before(
    find: FindStories, former: Mapping[str, Sequence[str]], life: KeyLife
) -> KeyLife | None:
    """Finds the records of an object under the key that it had before; ``None`` if its key was new."""
    documents = (each.story.document for each in life.records)
    names = {document.association for document in documents if document is not None}
    names |= {association(each.story.object) for each in life.records if each.story.object}
    candidates = [
        other
        for name in names
        for old in former.get(name, ())
        for other in _split(find(old))
        if other.records[-1].new_association == name
        and other.records[-1].place < life.records[0].place
        and (life.since is None or life.since < other.records[-1].place)
    ]
    return max(candidates, key=lambda other: other.records[-1].place, default=None)


def _records_after(find: FindStories, renamed: FoundStory) -> list[FoundStory]:
    """Finds the records of an object after its key has changed, under all keys that it has had since."""
    records: list[FoundStory] = []
    last: FoundStory | None = renamed
    while last is not None and last.new_association is not None:
        place, new = last.place, last.new_association
        last = None
        try:
            later = find(new)
        except UsageError:  # nothing has happened under the new key yet
            break
        for each in later:
            if each.place > place:
                records.append(each)
                if each.new_association is not None:
                    last = each
                    break
    return records


def _entries(stories: Sequence[FoundStory]) -> tuple[HistoryEntry, ...]:
    """Builds the entries.  The values before a document are those that its own source has published: several
    sources may have recorded the same changes."""
    values: defaultdict[str, KnownValues] = defaultdict(KnownValues)
    last = {_document(story): number for number, (_, _, story) in enumerate(stories)}
    entries = []
    for number, (_, directory, story) in enumerate(stories):
        changes = None
        if story.document is not None and last[_document(story)] == number:
            diffs = read_diffs(story.document.text)
            if diffs is not None:
                changes = values[story.source].apply(story.document.operation, diffs)
        entries.append(HistoryEntry(str(directory), story, changes))
    return tuple(entries)


def _document(story: RecordStory) -> tuple[str | None, str, PublishedDocument | None]:
    """Identifies the document of a record, which several records may share."""
    return story.run, story.target, story.document


@dataclass(slots=True)
class KnownValues:
    """The values of one object as far as the documents of one source show them."""

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
