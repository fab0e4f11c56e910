"""The state that documents lead to: objects by association, with the values of their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from publisher.consumer.delivery import Delivery
from publisher.consumer.errors import NOWHERE, Origin, StateError
from publisher.consumer.operations import (
    Add,
    AddValue,
    AttributeChange,
    Delete,
    Modify,
    ModifyAssociation,
    Operation,
    RemoveAllValues,
    RemoveValue,
    Value,
)


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object as documents describe it."""

    class_name: str
    attributes: Mapping[str, tuple[Value, ...]]
    """Values in the order in which they were added; an attribute without values is not listed."""

    def values(self, attribute: str) -> tuple[Value, ...]:
        """Returns the values of an attribute, which may have none."""
        return self.attributes.get(attribute, ())

    def text(self, attribute: str) -> str | None:
        """Returns the text of the first value; ``None`` without a value."""
        values = self.values(attribute)
        return values[0].text if values else None


@dataclass(slots=True)
class _State:
    class_name: str
    attributes: dict[str, dict[Value, None]] = field(default_factory=dict)
    """The values of each attribute are the keys of a dictionary, which keeps their order."""


class Objects(Mapping[str, KnownObject]):
    """Objects by association.

    Adding a value that is present, removing one that is absent, and deleting an absent object change
    nothing, as the document model demands.  ``strict`` raises ``StateError`` instead, also for an ``Add`` of
    an object that exists and a ``Modify`` of one that does not: for tests of logs with old and new values.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._states: dict[str, _State] = {}

    def __getitem__(self, association: str) -> KnownObject:
        state = self._states[association]
        attributes = {name: tuple(values) for name, values in state.attributes.items() if values}
        return KnownObject(state.class_name, MappingProxyType(attributes))

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def target(self, value: Value) -> KnownObject | None:
        """Returns the object that a value refers to, if it is known."""
        return self.get(value.association_ref) if value.association_ref is not None else None

    def apply_all(self, deliveries: Iterable[Delivery]) -> None:
        """Applies documents in their order."""
        for delivery in deliveries:
            for operation in delivery.operations:
                self.apply(operation, delivery.origin)

    def apply(self, operation: Operation, origin: Origin = NOWHERE) -> None:
        """Applies an operation.

        Raises:
            StateError: A strict state contradicts the operation.
        """
        match operation:
            case Add(association, class_name, changes):
                self._expect(association not in self._states, operation, origin, "exists")
                self._change(association, class_name, changes, origin)
            case Modify(association, class_name, changes):
                self._expect(association in self._states, operation, origin, "does not exist")
                self._change(association, class_name, changes, origin)
            case Delete(association):
                self._expect(association in self._states, operation, origin, "does not exist")
                self._states.pop(association, None)
            case ModifyAssociation(old, new):
                self._expect(old in self._states, operation, origin, "does not exist")
                self._expect(new not in self._states, operation, origin, "has its new key already")
                if old in self._states:
                    self._states[new] = self._states.pop(old)

    def _change(
        self,
        association: str,
        class_name: str,
        changes: Iterable[AttributeChange],
        origin: Origin,
    ) -> None:
        state = self._states.setdefault(association, _State(class_name))
        for change in changes:
            values = state.attributes.setdefault(change.attribute, {})
            match change:
                case AddValue(_, value):
                    self._expect(value not in values, change, origin, "is present", association)
                    values[value] = None
                case RemoveValue(_, value):
                    self._expect(value in values, change, origin, "is absent", association)
                    values.pop(value, None)
                case RemoveAllValues():
                    values.clear()

    def _expect(
        self,
        holds: bool,
        what: Operation | AttributeChange,
        origin: Origin,
        state: str,
        association: str = "",
    ) -> None:
        if self._strict and not holds:
            raise StateError(
                origin,
                f"{association + ': ' if association else ''}{what} cannot be applied, because it {state}: "
                "start with the first document of the object, or with a state that is not strict",
            )
