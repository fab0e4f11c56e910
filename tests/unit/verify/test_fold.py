"""Documents folded into objects, compared with a plain model of the same histories."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

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
    RemoveAllValues,
    RemoveValue,
    Value,
)
from publisher.consumer.operations import AttributeChange
from publisher.verify.fold import FoldedObjects, element_of, fold

ATTRIBUTES = ("a", "b")
PARTS = 3
State = dict[str, dict[str, set[str]]]


@dataclass
class History:
    """A random history: the documents of each partition, and the state that they lead to."""

    chance: random.Random
    state: State = field(default_factory=dict)
    parts: list[list[Delivery]] = field(default_factory=lambda: [[] for _ in range(PARTS)])
    events: int = 0

    def step(self) -> None:
        key, other = self.chance.choice("klmn"), self.chance.choice("klmn")
        if key not in self.state:
            value = self.chance.choice("xyz")
            self.state[key] = {"a": {value}, "b": set()}
            self._send(Add(key, "c", (AddValue("a", Value(value)),)))
        elif other not in self.state and self.chance.random() < 0.3:
            self.state[other] = self.state.pop(key)
            self._send(ModifyAssociation(key, other), KeyChange(key, other))
        elif self.chance.random() < 0.2:
            del self.state[key]
            self._send(Delete(key))
        else:
            self._send(Modify(key, "c", tuple(self._change(key) for _ in range(2))))

    def _change(self, key: str) -> AttributeChange:
        name, value = self.chance.choice(ATTRIBUTES), self.chance.choice("xyz")
        values = self.state[key][name]
        match self.chance.randrange(3):
            case 0:
                values.add(value)
                return AddValue(name, Value(value))
            case 1:
                values.discard(value)
                return RemoveValue(name, Value(value))
            case _:
                values.clear()
                return RemoveAllValues(name)

    def _send(self, operation: Operation, change: KeyChange | None = None) -> None:
        self.events += 1
        names = (operation.association,) if not isinstance(operation, ModifyAssociation) else change
        assert names is not None
        for name in names:
            part = self.parts[ord(name) % PARTS]
            origin = Origin(f"t/{ord(name) % PARTS}", len(part))
            part.append(Delivery((operation,), origin, name, f"s:{self.events}", key_change=change))


def history_of(seed: int, steps: int = 40) -> History:
    history = History(random.Random(seed))
    for _ in range(steps):
        history.step()
    return history


def state_of(folded: FoldedObjects) -> State:
    return {
        name: {
            attribute: {value.text for value in folded.objects[name].values(attribute)}
            for attribute in ATTRIBUTES
        }
        for name in folded.objects
    }


@given(st.integers(0, 1 << 32), st.permutations(range(PARTS)))
def test_histories_lead_to_their_state_in_any_order_of_the_partitions(
    seed: int, order: list[int]
) -> None:
    history = history_of(seed)
    folded = fold([delivery for part in order for delivery in history.parts[part]])
    assert state_of(folded) == history.state
    assert folded.repeated == 0
    assert all(folded.knows(name, "a", is_multiple=True) for name in folded.objects)


@given(st.integers(0, 1 << 32))
def test_a_document_that_was_sent_again_changes_nothing(seed: int) -> None:
    history = history_of(seed)
    doubled = [delivery for part in history.parts for delivery in part]
    again = [d for d in doubled if d.key_change is None]
    later = [
        Delivery(d.operations, Origin(d.origin.part, 1_000 + n), d.key, d.event_id)
        for n, d in enumerate(again)
    ]
    folded = fold([*doubled, *later])
    assert state_of(folded) == history.state
    assert folded.repeated == len(again)


def test_attributes_that_no_document_mentions_are_unknown() -> None:
    changes = RemoveValue("a", Value("x")), AddValue("a", Value("y")), RemoveAllValues("b")
    folded = fold([Delivery((Modify("k", "c", changes),), Origin("t/0", 0), "k", "s:1")])
    assert [folded.knows("k", name, is_multiple=False) for name in "abc"] == [True, True, False]
    assert [folded.knows("k", name, is_multiple=True) for name in "abc"] == [False, True, False]
    assert folded.event_ids == {"k": {"s:1"}}


def test_an_object_that_is_created_again_is_known() -> None:
    operations: tuple[Operation, ...] = (Modify("k", "c"), Delete("k"), Add("k", "c"))
    folded = fold(
        [Delivery((op,), Origin("t/0", n), "k", f"s:{n}") for n, op in enumerate(operations)]
    )
    assert folded.knows("k", "a", is_multiple=True)


def test_what_is_known_follows_a_change_of_the_key() -> None:
    modify, rename = Modify("k", "c", (RemoveAllValues("a"),)), ModifyAssociation("k", "l")
    folded = fold([Delivery((modify,), Origin("f", 1)), Delivery((rename,), Origin("f", 2))])
    assert [folded.knows("l", name, is_multiple=True) for name in "ab"] == [True, False]


def test_values_are_written_as_elements() -> None:
    assert element_of(Value('a<"\r\n')) == '<value>a&lt;"&#13;&#10;</value>'
    reference = Value("", association_ref='idu=1,table="a,b"')
    assert element_of(reference) == (
        '<value association-ref="idu=1,table=&quot;a,b&quot;"></value>'
    )
