"""Brings arriving documents into the order in which they must be applied, each once.

Repeats are recognised in two ways: by their place (exactly, a number per partition or file), and by id,
key and digest of the last ``remembered`` events, for documents that were sent again.  An id with another key
or digest is an error: to ignore that document would lose a change.

A change of a key is sent under both keys, and there is no order between their partitions.  Each copy marks
the same moment in its partition: everything of the key before it happened before the change, everything
after it later.  So a key waits at its copy until the other copy has arrived; then the change is applied once
and both keys go on.  Applying the first copy at once would be wrong: documents of the old key that come
late would change an object that newer documents have already changed, and a late delete of an earlier object
with the new key would delete the renamed one.

Keys cannot wait for each other forever: the earliest change that is not applied is at the head of both of
its keys as soon as its copies have arrived.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from publisher.consumer.delivery import Delivery, digest_of
from publisher.consumer.errors import (
    NOWHERE,
    ConsumerError,
    EventIdError,
    HeldError,
    replaced_topic,
)

SNAPSHOT_FORMAT = 2


@dataclass(slots=True)
class _Part:
    """Progress in a partition or file."""

    next: int = 0
    """All smaller numbers have arrived."""
    held: set[int] = field(default_factory=set)
    """Numbers that have arrived and wait."""
    missing: set[int] = field(default_factory=set)
    """Smaller numbers that waited when an earlier consumer ended; they arrive again."""

    def has(self, number: int) -> bool:
        """Returns whether a number has arrived before."""
        return number < self.next and number not in self.missing

    def take(self, number: int) -> None:
        """Notes an arrival."""
        self.missing.discard(number)
        self.next = max(self.next, number + 1)

    @property
    def waiting(self) -> list[int]:
        return sorted(self.held | self.missing)


@dataclass(slots=True)
class _Event:
    """A remembered event: the keys of its record, or of its two copies, and the digest of its value."""

    keys: tuple[str | None, ...]
    digest: str
    place: str
    """The place of its document."""
    arrived: tuple[str | None, ...] = ()
    """The keys under which it has arrived."""


class Inbox:
    """Accepts documents as they arrive and returns those that can be applied.

    ``remembered`` is the number of event ids that are remembered; ``max_held`` limits the documents that
    wait for the other copy of a key change.  ``snapshot`` resumes where an earlier inbox ended.
    """

    def __init__(
        self,
        *,
        remembered: int = 100_000,
        max_held: int = 100_000,
        snapshot: Mapping[str, Any] | None = None,
    ) -> None:
        self._remembered, self._max_held = remembered, max_held
        self._parts: dict[str, _Part] = {}
        self._topic_ids: dict[str, str] = {}
        self._seen = OrderedDict[
            str, _Event
        ]()  # the first key of a long dictionary is slow to find
        self._queues: dict[str, deque[Delivery]] = {}
        self._held = 0
        if snapshot is not None:
            if (version := snapshot.get("format", 1)) != SNAPSHOT_FORMAT:
                raise ConsumerError(
                    "snapshot",
                    f"has format {version}, this version reads format {SNAPSHOT_FORMAT}: go on with the "
                    "version that wrote it, or read all documents again into a new state",
                )
            self._topic_ids = dict(snapshot["topics"])
            for id_, keys, digest, place, arrived in snapshot["seen"]:
                self._seen[id_] = _Event(tuple(keys), digest, place, tuple(arrived))
            self._parts = {
                part: _Part(numbers["next"], missing=set(numbers["held"]))
                for part, numbers in snapshot["parts"].items()
            }

    @property
    def held(self) -> int:
        """The number of documents that wait."""
        return self._held

    def in_order(self, deliveries: Iterable[Delivery]) -> Iterator[Delivery]:
        """Yields the documents that can be applied while others arrive."""
        for delivery in deliveries:
            yield from self.accept(delivery)

    def accept(self, delivery: Delivery) -> list[Delivery]:
        """Takes an arrived document; returns the documents that can be applied now, in order.

        The list is empty for a repeated document, and for one that must wait.

        Raises:
            HeldError: Too many documents wait; this one was not accepted.
            TopicError: The topic was deleted and created again; the document was not accepted.
            EventIdError: Its event id names another document; this one was not accepted.
        """
        if delivery.topic_id:
            topic = delivery.origin.part.rpartition("/")[0]
            known = self._topic_ids.setdefault(topic, delivery.topic_id)
            if known != delivery.topic_id:
                raise replaced_topic(topic, known, delivery.topic_id)
        key, change = delivery.key, delivery.key_change
        waits = key is not None and (change is not None or key in self._queues)
        if waits and self._held >= self._max_held:
            raise self._overflow(delivery)
        if not self._is_new(delivery):
            return []
        if key is None or not waits:
            return [delivery]
        self._hold(key, delivery)
        return [] if change is None else self._proceed([key])

    def release(self) -> list[Delivery]:
        """Gives up waiting: returns all held documents, as if the missing copies had arrived.

        For copies that cannot arrive any more, because retention has removed them or reading began after
        them.  Call it when the ends of all partitions have been reached.
        """
        ready: list[Delivery] = []
        while self._queues:
            copy = self._incomplete()
            assert copy.key_change is not None
            for key in copy.key_change:
                self._remember(copy, key)
                for held in [d for d in self._queues.get(key, ()) if d.event_id == copy.event_id]:
                    self._take(key, held)
            ready.append(copy)
            ready += self._proceed(copy.key_change)
        return ready

    def snapshot(self) -> dict[str, Any]:
        """Returns what a later inbox needs, in the types of JSON.

        Store it in the same transaction as the results of all documents that ``accept`` returned.
        """
        waiting = {(d.event_id, key) for key, queue in self._queues.items() for d in queue}
        events = [
            (id_, event, [k for k in event.arrived if (id_, k) not in waiting])
            for id_, event in self._seen.items()
        ]
        return {
            "format": SNAPSHOT_FORMAT,
            "parts": {
                name: {"next": part.next, "held": part.waiting}
                for name, part in self._parts.items()
            },
            "topics": self._topic_ids.copy(),
            "seen": [
                [id_, [*event.keys], event.digest, event.place, arrived]
                for id_, event, arrived in events
                if arrived
            ],
        }

    def resume_at(self) -> dict[str, int | str]:
        """Returns the first number of each part that must be read again after a restart, and topic ids."""
        numbers = {name: min([*p.waiting, p.next]) for name, p in self._parts.items()}
        return {**numbers, **self._topic_ids}

    def _is_new(self, delivery: Delivery) -> bool:
        origin = delivery.origin
        part = None
        if origin != NOWHERE:
            part = self._parts.setdefault(origin.part, _Part())
            if part.has(origin.number):
                return False
        has_id = delivery.event_id is not None and bool(delivery.operations)
        is_new = self._remember(delivery, delivery.key) if has_id else True
        if part is not None:
            part.take(origin.number)
        return is_new

    def _remember(self, delivery: Delivery, key: str | None) -> bool:
        """Remembers an event under a key; returns whether it was unknown.

        Raises ``EventIdError`` for another document with the id of a remembered one."""
        id_, keys = delivery.event_id or "", tuple(delivery.key_change or (delivery.key,))
        digest = digest_of(delivery)
        event = self._seen.get(id_)
        if event is None:
            event = self._seen[id_] = _Event(keys, digest, str(delivery.origin))
            while len(self._seen) > self._remembered:
                self._seen.popitem(last=False)
        elif (event.keys, event.digest) != (keys, digest):
            difference = "another value" if event.keys == keys else "another key"
            raise EventIdError(
                delivery.origin,
                f"event {id_} has {difference} than at {event.place}: both are documents, and one id names "
                "one document; let `xds-publisher verify` count such records, and see which job or program "
                "wrote them; to apply this one nevertheless, accept it with event_id=None",
            )
        if key in event.arrived:
            return False
        event.arrived = (*event.arrived, key)
        return True

    def _hold(self, key: str, delivery: Delivery) -> None:
        self._queues.setdefault(key, deque()).append(delivery)
        self._held += 1
        if delivery.origin != NOWHERE:
            self._parts[delivery.origin.part].held.add(delivery.origin.number)

    def _take(self, key: str, delivery: Delivery) -> Delivery:
        """Takes a document from the queue of its key."""
        queue = self._queues[key]
        queue.remove(delivery)
        if not queue:
            del self._queues[key]
        self._held -= 1
        if delivery.origin != NOWHERE:
            self._parts[delivery.origin.part].held.discard(delivery.origin.number)
        return delivery

    def _proceed(self, keys: Iterable[str]) -> list[Delivery]:
        """Lets the documents of keys pass, up to key changes whose other copy is missing."""
        ready: list[Delivery] = []
        todo = list(keys)
        while todo:
            key = todo.pop()
            while key in self._queues and self._queues[key][0].key_change is None:
                ready.append(self._take(key, self._queues[key][0]))
            if key not in self._queues:
                continue
            change = self._queues[key][0].key_change or ()
            copies = [self._queues[each][0] for each in change if each in self._queues]
            if len(copies) == 2 and copies[0].event_id == copies[1].event_id:
                ready.append(copies[0])
                for each, copy in zip(change, copies, strict=True):
                    self._take(each, copy)
                todo += change
        return ready

    def _incomplete(self) -> Delivery:
        """Returns a copy at the head of its key whose other copy has not arrived."""
        heads = [queue[0] for queue in self._queues.values()]
        for copy in heads:
            keys = copy.key_change or ()
            arrived = sum(
                delivery.event_id == copy.event_id
                for key in keys
                for delivery in self._queues.get(key, ())
            )
            if arrived < 2:
                return copy
        return heads[0]

    def _overflow(self, delivery: Delivery) -> HeldError:
        queue = next(iter(self._queues.values()))
        first = queue[0]
        keys = first.key_change or ("", "")
        return HeldError(
            delivery.origin,
            f"{self._held:,} documents wait for the other copy of event {first.event_id} "
            f"({keys[0]} becomes {keys[1]}), which arrived first at {first.origin}: read all partitions of "
            "the topic with one inbox, raise max_held, or call release() if the copy is lost",
        )
