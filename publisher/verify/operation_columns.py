"""The operations of documents by the column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.consumer.operations import (
    Add,
    AddValue,
    Delete,
    Modify,
    ModifyAssociation,
    Operation,
    RemoveAllValues,
)
from publisher.formats.columns.row_images import Places
from publisher.verify.elements import element_of
from publisher.verify.plain_documents import PlainOperation

_END = "</value>"


class OperationKind(IntEnum):
    """Kind of an operation."""

    ADD = 0
    MODIFY = 1
    DELETE = 2
    RENAME = 3
    """A change of the key; it has a row for each of its two associations."""


class ValueChangeKind(IntEnum):
    """Kind of a change of an attribute."""

    ADD = 0
    REMOVE = 1
    REMOVE_ALL = 2


_ATTRIBUTES = pa.dictionary(pa.int32(), pa.string())
_KINDS = {"add": OperationKind.ADD, "modify": OperationKind.MODIFY, "delete": OperationKind.DELETE}


@dataclass(frozen=True, slots=True)
class OperationColumns:
    """Operations in the order of their documents, and their changes of values."""

    documents: Places
    """The document of each operation; -1 for none."""
    kinds: npt.NDArray[np.int8]
    objects: Places
    """The place of each operation's object in ``associations``."""
    associations: pa.Array
    operations: Places
    """The operation of each change."""
    attributes: Places
    """The place of each change's attribute in ``names``."""
    names: tuple[str, ...]
    changes: npt.NDArray[np.int8]
    elements: pa.Array
    """The value of each change as an element; null if all values are removed."""


class OperationRows(NamedTuple):
    """Operations of some documents, and their changes of values."""

    documents: Places
    kinds: npt.NDArray[np.int8]
    associations: pa.Array
    sizes: Places
    """Number of changes of each operation."""
    attributes: pa.DictionaryArray
    changes: npt.NDArray[np.int8]
    elements: pa.Array
    """The value of each change as an element; null if all values are removed."""


def join_rows(parts: Sequence[OperationRows]) -> OperationColumns:
    """Joins operations, whose parts are in the order of their documents."""
    attributes = pa.chunked_array([part.attributes for part in parts], _ATTRIBUTES)
    rows = OperationRows(
        np.concatenate([part.documents for part in parts]),
        np.concatenate([part.kinds for part in parts]),
        pa.concat_arrays([part.associations for part in parts]),
        np.concatenate([part.sizes for part in parts]),
        attributes.unify_dictionaries().combine_chunks(),
        np.concatenate([part.changes for part in parts]),
        pa.concat_arrays([part.elements for part in parts]),
    )
    encoded = rows.associations.dictionary_encode()
    return OperationColumns(
        rows.documents,
        rows.kinds,
        encoded.indices.to_numpy().astype(np.int64),
        encoded.dictionary,
        np.repeat(np.arange(len(rows.sizes)), rows.sizes),
        rows.attributes.indices.to_numpy().astype(np.int64),
        tuple(rows.attributes.dictionary.to_pylist()),
        rows.changes,
        rows.elements,
    )


@dataclass(slots=True)
class OperationCollector:
    """Collects operations one by one."""

    documents: list[int] = field(default_factory=list)
    kinds: bytearray = field(default_factory=bytearray)
    associations: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Number of changes of each operation."""
    attributes: list[str] = field(default_factory=list)
    changes: bytearray = field(default_factory=bytearray)
    elements: list[str | None] = field(default_factory=list)

    def add_plain(self, document: int, operation: PlainOperation) -> None:
        """Adds the operation of a plain document."""
        before = len(self.attributes)
        *removals, added = operation.parts
        if removals or operation.has_several:
            self._change_values(operation)
        else:
            self.attributes += operation.attributes
            self.changes += bytes([ValueChangeKind.ADD]) * len(added)
            self.elements += added
        self._add(document, _KINDS[operation.kind], operation.association, before)

    def add(self, document: int, operations: Iterable[Operation]) -> None:
        """Adds the operations of a document."""
        for operation in operations:
            before = len(self.attributes)
            match operation:
                case ModifyAssociation(old, new):
                    self._add(document, OperationKind.RENAME, old, before)
                    self._add(document, OperationKind.RENAME, new, before)
                case Delete(association):
                    self._add(document, OperationKind.DELETE, association, before)
                case Add(association, _, changes) | Modify(association, _, changes):
                    for change in changes:
                        if isinstance(change, RemoveAllValues):
                            self._append(change.attribute, ValueChangeKind.REMOVE_ALL, None)
                            continue
                        is_added = isinstance(change, AddValue)
                        kind = ValueChangeKind.ADD if is_added else ValueChangeKind.REMOVE
                        self._append(change.attribute, kind, element_of(change.value))
                    is_add = isinstance(operation, Add)
                    of_object = OperationKind.ADD if is_add else OperationKind.MODIFY
                    self._add(document, of_object, association, before)

    def rows(self) -> OperationRows:
        """Returns the collected operations as columns."""
        return OperationRows(
            np.array(self.documents, np.int64),
            np.frombuffer(bytes(self.kinds), np.int8),
            pa.array(self.associations, pa.string()),
            np.array(self.sizes, np.int64),
            pa.array(self.attributes, pa.string()).dictionary_encode(),
            np.frombuffer(bytes(self.changes), np.int8),
            pa.array(self.elements, pa.string()),
        )

    def _add(self, document: int, kind: OperationKind, association: str, before: int) -> None:
        """Adds an operation after its changes."""
        self.documents.append(document)
        self.kinds.append(kind)
        self.associations.append(association)
        self.sizes.append(len(self.attributes) - before)

    def _append(self, name: str, change: ValueChangeKind, element: str | None) -> None:
        self.attributes.append(name)
        self.changes.append(change)
        self.elements.append(element)

    def _change_values(self, operation: PlainOperation) -> None:
        for name, *all_and_removed, added in zip(
            operation.attributes, *operation.parts, strict=True
        ):
            if all_and_removed:
                all_, removed = all_and_removed
                if all_ is not None:
                    self._append(name, ValueChangeKind.REMOVE_ALL, None)
                self._append_all(name, ValueChangeKind.REMOVE, removed)
            self._append_all(name, ValueChangeKind.ADD, added)

    def _append_all(self, name: str, change: ValueChangeKind, elements: str | None) -> None:
        if elements is None:
            return
        for element in elements.split(_END)[:-1]:
            self._append(name, change, element + _END)
