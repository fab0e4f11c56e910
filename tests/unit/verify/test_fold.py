"""Documents folded into objects, compared with a plain model of the same histories."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa
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
    ValueComponent,
)
from publisher.consumer.operations import AttributeChange
from publisher.verify.bucket_documents import BucketDocuments
from publisher.verify.compare import ObjectDocuments
from publisher.verify.documents import STORED_SCHEMA, DocumentPart
from publisher.verify.elements import element_of, element_text

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
    renames: bool = True

    def step(self) -> None:
        key, other = self.chance.choice("klmn"), self.chance.choice("klmn")
        if key not in self.state:
            value = self.chance.choice("xyz")
            self.state[key] = {"a": {value}, "b": set()}
            self._send(Add(key, "c", (AddValue("a", Value(value)),)))
        elif self.renames and other not in self.state and self.chance.random() < 0.3:
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


def history_of(seed: int, steps: int = 40, *, renames: bool = True) -> History:
    history = History(random.Random(seed), renames=renames)
    for _ in range(steps):
        history.step()
    return history


@dataclass(frozen=True)
class Partition:
    """A part of a topic whose records a test has."""

    name: str
    is_topic: bool = True


@dataclass
class Log:
    """Records of partitions, folded as a bucket of a verification."""

    rows: list[dict[str, object]] = field(default_factory=list)
    is_topic: bool = True

    def add(self, part: int, number: int, delivery: Delivery) -> None:
        change = delivery.key_change or (None, None)
        self.rows.append(
            {
                "order": part,
                "number": number,
                "association": delivery.key,
                "data": document_of(delivery.operations).encode(),
                "event_id": delivery.event_id if self.is_topic else None,
                "key_from": change[0] if self.is_topic else None,
                "key_to": change[1] if self.is_topic else None,
            }
        )

    def fold(self) -> BucketDocuments:
        schema = pa.schema([("order", pa.int32()), *STORED_SCHEMA])
        parts = [cast("DocumentPart", Partition(f"t/{n}", self.is_topic)) for n in range(PARTS)]
        folded = BucketDocuments(pa.Table.from_pylist(self.rows, schema), parts)
        assert folded.unreadable == []
        return folded


def document_of(operations: tuple[Operation, ...]) -> str:
    return f"<nds><input>{''.join(map(operation_text, operations))}</input></nds>"


def operation_text(operation: Operation) -> str:
    match operation:
        case Add(association, _, changes):
            attributes = "".join(
                f'<add-attr attr-name="{c.attribute}">{element_of(c.value)}</add-attr>'
                for c in changes
            )
            return f'<add class-name="c"><association>{association}</association>{attributes}</add>'
        case Modify(association, _, changes):
            attributes = "".join(map(change_text, changes))
            return f'<modify class-name="c"><association>{association}</association>{attributes}</modify>'
        case Delete(association):
            return f'<delete class-name="c"><association>{association}</association></delete>'
        case ModifyAssociation(old, new):
            names = f"<association>{old}</association><association>{new}</association>"
            return f"<modify-association>{names}</modify-association>"


def change_text(change: AttributeChange) -> str:
    match change:
        case AddValue(name, value):
            content = f"<add-value>{element_of(value)}</add-value>"
        case RemoveValue(name, value):
            content = f"<remove-value>{element_of(value)}</remove-value>"
        case RemoveAllValues(name):
            content = "<remove-all-values/>"
    return f'<modify-attr attr-name="{name}">{content}</modify-attr>'


def log_of(history: History, order: list[int]) -> Log:
    log = Log()
    for place, part in enumerate(order):
        for number, delivery in enumerate(history.parts[part]):
            log.add(place, number, delivery)
    return log


def state_of(folded: BucketDocuments) -> State:
    return {
        name: {attribute: values.get(attribute, set()) for attribute in ATTRIBUTES}
        for name, values in folded.texts().items()
    }


def mentioned(folded: BucketDocuments, name: str) -> dict[str, bool] | None:
    return folded.mentions_of([name]).get(name)


@given(st.integers(0, 1 << 32), st.permutations(range(PARTS)))
def test_histories_lead_to_their_state_in_any_order_of_the_partitions(
    seed: int, order: list[int]
) -> None:
    history = history_of(seed)
    folded = log_of(history, order).fold()
    assert state_of(folded) == history.state
    assert folded.repeated == 0
    assert folded.mentions_of([*history.state]) == {}


@given(st.integers(0, 1 << 32))
def test_histories_without_changes_of_keys_lead_to_their_state(seed: int) -> None:
    history = history_of(seed, renames=False)
    assert state_of(log_of(history, [0, 1, 2]).fold()) == history.state


@given(st.integers(0, 1 << 32), st.booleans())
def test_a_document_that_was_sent_again_changes_nothing(seed: int, renames: bool) -> None:
    history = history_of(seed, renames=renames)
    log, again = log_of(history, [0, 1, 2]), 0
    for place, part in enumerate(history.parts):
        for number, delivery in enumerate(part):
            if delivery.key_change is None:
                again += 1
                log.add(place, 1_000 + number, delivery)
    folded = log.fold()
    assert state_of(folded) == history.state
    assert folded.repeated == again


def test_attributes_that_no_document_mentions_are_unknown() -> None:
    changes = RemoveValue("a", Value("x")), AddValue("a", Value("y")), RemoveAllValues("b")
    log = Log()
    log.add(0, 0, Delivery((Modify("k", "c", changes),), key="k", event_id="s:1"))
    folded = log.fold()
    assert mentioned(folded, "k") == {"a": False, "b": True}
    assert folded.facts_of(["k", "l"]) == {
        "k": ObjectDocuments([Origin("t/0", 0)], {"s:1"}),
        "l": ObjectDocuments(),
    }


def test_an_object_that_is_created_again_is_known() -> None:
    log = Log()
    operations: tuple[Operation, ...] = (Modify("k", "c"), Delete("k"), Add("k", "c"))
    for number, operation in enumerate(operations):
        log.add(0, number, Delivery((operation,), key="k", event_id=f"s:{number}"))
    folded = log.fold()
    assert folded.associations.to_pylist() == ["k"]
    assert mentioned(folded, "k") is None


def test_what_is_known_follows_a_change_of_the_key() -> None:
    changes = RemoveAllValues("a"), RemoveValue("b", Value("x"))
    log = Log(is_topic=False)
    log.add(0, 1, Delivery((Modify("k", "c", changes),), key="k"))
    log.add(0, 2, Delivery((ModifyAssociation("k", "l"),), key="k"))
    folded = log.fold()
    assert folded.associations.to_pylist() == ["l"]
    assert mentioned(folded, "l") == {"a": True, "b": False}
    assert [*folded.facts_of(["l"])["l"].origins] == [Origin("t/0", 2)]


def test_values_are_written_as_elements() -> None:
    assert element_of(Value('a<"\r\n')) == '<value>a&lt;"&#13;&#10;</value>'
    reference = Value("", association_ref='idu=1,table="a,b"')
    assert element_of(reference) == (
        '<value association-ref="idu=1,table=&quot;a,b&quot;"></value>'
    )
    assert element_text(element_of(reference)) == 'idu=1,table="a,b"'
    parts = ValueComponent('n"', "<1>"), ValueComponent("m", "2")
    assert element_text(element_of(Value("", components=parts))) == r'{"n\"": "<1>", "m": "2"}'
