"""Documents are applied in order and once, in whatever order partitions are read."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.consumer import (
    Add,
    ConsumerError,
    Delete,
    Delivery,
    EventIdError,
    HeldError,
    Inbox,
    KeyChange,
    ModifyAssociation,
    Objects,
    Origin,
    from_record,
)
from tests.support.key_change_histories import (
    History,
    Partitions,
    interleave,
    interleavings,
    resend,
    send,
    write_history,
)

KEYS = "abcd"
CHOICES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(KEYS), st.sampled_from(KEYS)), max_size=40
)
PLACES = st.fixed_dictionaries({key: st.integers(0, 2) for key in KEYS})
RANDOM = st.integers(0, 2**32).map(random.Random)


def values_of(objects: Objects) -> dict[str, str]:
    return {key: value for key in objects if (value := objects[key].text("a")) is not None}


def apply(arrived: Iterable[Delivery], inbox: Inbox, objects: Objects) -> None:
    objects.apply_all(inbox.in_order(arrived))


def swapped() -> tuple[History, Partitions]:
    """Object ``a`` becomes ``b`` after an earlier ``b`` was deleted; both keys are used again."""
    history = History()
    history.add("b")
    history.add("a")
    history.delete("b")
    history.add("a")
    history.rename("a", "b")
    history.add("a")
    history.add("b")
    return history, send(history, {"a": 0, "b": 1}, 2)


def test_every_interleaving_leads_to_the_same_objects() -> None:
    history, partitions = swapped()
    orders = list(interleavings(partitions))
    assert len(orders) == 70
    for order in orders:
        objects, inbox = Objects(strict=True), Inbox()
        apply(order, inbox, objects)
        assert values_of(objects) == history.values
        assert inbox.held == 0


def test_applying_the_first_copy_would_be_wrong() -> None:
    history, partitions = swapped()
    results = set()
    for order in interleavings(partitions):
        objects, seen = Objects(), set[str | None]()
        for delivery in order:
            if delivery.event_id not in seen:
                objects.apply_all([delivery])
            seen.add(delivery.event_id)
        results.add(values_of(objects) == history.values)
    assert results == {True, False}


@given(choices=CHOICES, place_of=PLACES, rng=RANDOM)
def test_random_histories_are_applied_in_order(
    choices: list[tuple[int, str, str]], place_of: dict[str, int], rng: random.Random
) -> None:
    history = write_history(choices)
    objects, inbox = Objects(strict=True), Inbox()
    apply(interleave(send(history, place_of, 3), rng), inbox, objects)
    assert values_of(objects) == history.values
    assert inbox.held == 0


@given(choices=CHOICES, place_of=PLACES, rng=RANDOM)
def test_documents_that_are_sent_again_are_applied_once(
    choices: list[tuple[int, str, str]], place_of: dict[str, int], rng: random.Random
) -> None:
    history = write_history(choices)
    partitions = [resend(partition, rng) for partition in send(history, place_of, 3)]
    objects, inbox = Objects(strict=True), Inbox()
    apply(interleave(partitions, rng), inbox, objects)
    assert values_of(objects) == history.values
    assert inbox.held == 0


@given(choices=CHOICES, place_of=PLACES, rng=RANDOM, length=st.integers(0, 60))
def test_a_prefix_that_arrives_twice_is_applied_once(
    choices: list[tuple[int, str, str]],
    place_of: dict[str, int],
    rng: random.Random,
    length: int,
) -> None:
    history = write_history(choices)
    arrived = list(interleave(send(history, place_of, 3), rng))
    objects, inbox = Objects(strict=True), Inbox(remembered=0)
    apply(arrived[:length] + arrived, inbox, objects)
    assert values_of(objects) == history.values


@given(choices=CHOICES, place_of=PLACES, rng=RANDOM, length=st.integers(0, 60))
def test_a_restarted_consumer_goes_on_where_the_earlier_one_ended(
    choices: list[tuple[int, str, str]],
    place_of: dict[str, int],
    rng: random.Random,
    length: int,
) -> None:
    history = write_history(choices)
    partitions = send(history, place_of, 3)
    objects, first = Objects(strict=True), Inbox()
    apply(list(interleave(partitions, rng))[:length], first, objects)
    second = Inbox(snapshot=json.loads(json.dumps(first.snapshot())), remembered=0)
    assert second.resume_at() == first.resume_at()
    start = second.resume_at()
    rest = [
        partition[int(start.get(f"xds/{number}", 0)) :]
        for number, partition in enumerate(partitions)
    ]
    apply(interleave(rest, rng), second, objects)
    assert values_of(objects) == history.values
    assert second.held == 0
    assert second.resume_at() == {
        f"xds/{number}": len(partition) for number, partition in enumerate(partitions) if partition
    }


def is_first(copy: Delivery) -> bool:
    return copy.key_change is not None and copy.key == copy.key_change.old


@given(choices=CHOICES, place_of=PLACES, rng=RANDOM)
def test_lost_copies_are_given_up_in_order(
    choices: list[tuple[int, str, str]], place_of: dict[str, int], rng: random.Random
) -> None:
    """Each change of a key may lose a copy: every document is still returned once."""
    history = write_history(choices)
    lost = {f"s:{n}" for n in range(len(history.operations)) if rng.random() < 0.3}
    partitions = [
        [d for d in partition if d.event_id not in lost or d.key_change is None or is_first(d)]
        for partition in send(history, place_of, 3)
    ]
    inbox = Inbox()
    ready = list(inbox.in_order(interleave(partitions, rng)))
    ready += inbox.release()
    numbers = [int(str(d.event_id).partition(":")[2]) for d in ready]
    assert sorted(numbers) == list(range(len(history.operations)))
    assert inbox.held == 0
    assert inbox.release() == []


def copy_of(key: str, change: KeyChange, number: int) -> Delivery:
    place = Origin(f"xds/{key}", number)
    return Delivery((ModifyAssociation(*change),), place, key, "s:1", key_change=change)


def added(key: str, number: int) -> Delivery:
    return Delivery((Add(key, "c"),), Origin(f"xds/{key}", number), key, f"s:{number}")


def test_too_many_waiting_documents_are_an_error_that_loses_nothing() -> None:
    inbox = Inbox(max_held=2)
    change = KeyChange("a", "b")
    assert inbox.accept(copy_of("b", change, 1)) == []
    assert inbox.accept(added("b", 2)) == []
    with pytest.raises(
        HeldError, match=r"event s:1 \(a becomes b\), which arrived first at xds/b:1"
    ):
        inbox.accept(added("b", 3))
    assert inbox.accept(added("c", 4)) == [added("c", 4)]
    assert inbox.resume_at() == {"xds/b": 1, "xds/c": 5}
    assert inbox.release() == [copy_of("b", change, 1), added("b", 2)]
    assert inbox.accept(added("b", 3)) == [added("b", 3)]
    assert inbox.accept(copy_of("a", change, 9)) == []
    assert inbox.held == 0


def record(offset: int, key: str, name: str, event_id: str = "hr@0123456789abcdef.1:1") -> Delivery:
    text = (
        f'<nds><input><add class-name="usr"><association>{key}</association><add-attr attr-name="name">'
        f'<value type="string">{name}</value></add-attr></add></input></nds>'
    )
    headers = [("event-id", event_id.encode())]
    return from_record(text.encode(), key.encode(), headers, Origin("xds/0", offset))


def test_a_repetition_has_the_same_id_key_and_value() -> None:
    inbox = Inbox()
    assert len(inbox.accept(record(1, "a", "Ann"))) == 1
    assert inbox.accept(record(2, "a", "Ann")) == []
    later = Inbox(snapshot=json.loads(json.dumps(inbox.snapshot())))
    for reader in (inbox, later):
        assert reader.accept(record(3, "a", "Ann")) == []
        for other, difference in ((record(4, "a", "Bob"), "value"), (record(4, "b", "Ann"), "key")):
            with pytest.raises(
                EventIdError, match=f"xds/0:4: event .* another {difference} than at xds/0:1"
            ):
                reader.accept(other)
            assert reader.resume_at() == {"xds/0": 4}
        assert len(reader.accept(replace(record(4, "b", "Ann"), event_id=None))) == 1


def test_a_copy_of_a_key_change_has_the_value_of_the_other_copy() -> None:
    change = KeyChange("a", "b")
    inbox = Inbox()
    inbox.accept(copy_of("a", change, 1))
    with pytest.raises(EventIdError, match="another key"):
        inbox.accept(copy_of("c", KeyChange("a", "c"), 1))
    assert len(inbox.accept(copy_of("b", change, 1))) == 1


def test_a_snapshot_of_another_version_is_refused() -> None:
    with pytest.raises(
        ConsumerError, match="has format 1, this version reads format 2: go on with"
    ):
        Inbox(snapshot={"parts": {}, "seen": []})


def test_a_long_chain_of_key_changes_is_released_by_one_copy() -> None:
    """The first change of many arrives last under one of its keys."""
    history = History()
    history.add("k0")
    for number in range(3000):
        history.rename(f"k{number}", f"k{number + 1}")
    place_of = {f"k{number}": min(number, 1) for number in range(3001)}
    first, second = send(history, place_of, 2)
    objects, inbox = Objects(strict=True), Inbox()
    apply(second, inbox, objects)
    assert inbox.held == 5999
    apply(first, inbox, objects)
    assert values_of(objects) == {"k3000": "0"}


def test_documents_without_event_id_and_key_are_passed_on() -> None:
    heartbeat = Delivery((), Origin("xds/0", 1), event_id="job:heartbeat:1")
    in_file = Delivery((Delete("a"),), Origin("part-00000.xds", 1))
    nowhere = Delivery((Delete("a"),))
    inbox = Inbox()
    arrived = [heartbeat, in_file, nowhere, nowhere, heartbeat, in_file]
    assert list(inbox.in_order(arrived)) == [heartbeat, in_file, nowhere, nowhere]


def test_old_events_are_forgotten() -> None:
    inbox = Inbox(remembered=2)
    arrived = [Delivery((Delete("a"),), event_id=event_id) for event_id in "1213 1"]
    assert [d.event_id for d in inbox.in_order(arrived)] == ["1", "2", "3", " ", "1"]
