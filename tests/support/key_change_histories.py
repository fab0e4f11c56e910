"""Random histories of objects whose keys change, and the partitions of a topic that they are sent to."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from publisher.consumer import (
    Add,
    AddValue,
    Delete,
    Delivery,
    KeyChange,
    Modify,
    ModifyAssociation,
    Operation,
    Origin,
    RemoveValue,
    Value,
)

Partitions = list[list[Delivery]]


@dataclass
class History:
    """Operations in the order of the source, and the objects that they lead to."""

    operations: list[Operation] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    """The only value of each object that exists."""

    def add(self, key: str) -> None:
        """Inserts an object, or changes the value of the one with this key."""
        new = str(len(self.operations))
        old = self.values.get(key)
        self.values[key] = new
        if old is None:
            self.operations.append(Add(key, "c", (AddValue("a", Value(new)),)))
        else:
            changes = RemoveValue("a", Value(old)), AddValue("a", Value(new))
            self.operations.append(Modify(key, "c", changes))

    def delete(self, key: str) -> None:
        del self.values[key]
        self.operations.append(Delete(key, "c"))

    def rename(self, old: str, new: str) -> None:
        self.values[new] = self.values.pop(old)
        self.operations.append(ModifyAssociation(old, new))


def write_history(choices: Sequence[tuple[int, str, str]]) -> History:
    """Turns any choices into a history that is possible in a database."""
    history = History()
    for kind, key, other in choices:
        if key in history.values and kind == 0:
            history.delete(key)
        elif key in history.values and other not in history.values and kind in (1, 2):
            history.rename(key, other)
        else:
            history.add(key)
    return history


def send(history: History, place_of: dict[str, int], count: int) -> Partitions:
    """Sends the documents as the publisher does: a key change under both keys."""
    partitions: Partitions = [[] for _ in range(count)]
    for number, operation in enumerate(history.operations):
        keys: tuple[str, ...]
        change = None
        if isinstance(operation, ModifyAssociation):
            keys = change = KeyChange(operation.old, operation.new)
        else:
            keys = (operation.association,)
        for key in keys:
            partition = partitions[place_of[key]]
            origin = Origin(f"xds/{place_of[key]}", len(partition))
            partition.append(Delivery((operation,), origin, key, f"s:{number}", key_change=change))
    return partitions


def interleave(partitions: Partitions, rng: random.Random) -> Iterator[Delivery]:
    """Reads the partitions in any order, each of them in its own order."""
    places = [0] * len(partitions)
    while open_ := [n for n, partition in enumerate(partitions) if places[n] < len(partition)]:
        number = rng.choice(open_)
        yield partitions[number][places[number]]
        places[number] += 1


def interleavings(partitions: Partitions) -> Iterator[list[Delivery]]:
    """Yields every order in which the partitions can be read."""
    if not any(partitions):
        yield []
    for number, partition in enumerate(partitions):
        if partition:
            rest = [*partitions[:number], partition[1:], *partitions[number + 1 :]]
            for following in interleavings(rest):
                yield [partition[0], *following]


def resend(partition: list[Delivery], rng: random.Random) -> list[Delivery]:
    """Repeats stretches of a partition at new offsets, as a publisher does that sends at least once."""
    sent: list[Delivery] = []
    for end in range(1, len(partition) + 1):
        sent.append(partition[end - 1])
        if rng.random() < 0.3:
            sent += partition[rng.randrange(end) : end]
    return [
        Delivery(d.operations, Origin(d.origin.part, n), d.key, d.event_id, key_change=d.key_change)
        for n, d in enumerate(sent)
    ]
