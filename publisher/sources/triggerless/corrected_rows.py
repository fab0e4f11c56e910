"""Corrected rows and changes of compared tables, in the forms in which rejected ones are exported.

A row that could not be read has the columns of its input.  Rows with one key have this key, and the columns
of documents.  A change that was rejected after the comparison has its key, columns, and old and new values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.errors import FatalError, UsageError
from publisher.model.catalogue import Catalogue
from publisher.model.change import EventType
from publisher.model.keys import KeyProblem, parse
from publisher.sources.columns.object_names import RecordFault
from publisher.sources.triggerless.class_shape import with_children
from publisher.sources.triggerless.multi_values import group_values
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.table_shape import (
    FoundTable,
    TableShape,
    find_table,
    read_rows,
    shape_of,
)

_CHANGE = {"key", "event_type", "columns", "old", "new"}
_DRIVER_FORM = "base64"
"""The form of binary values in differences, and in rows of databases."""


class ValueChanges(NamedTuple):
    """Values that a multi-valued column of an object loses, and those that it gets."""

    removed: frozenset[str]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CorrectedRow:
    """A corrected row, or some of its columns; ``event`` is the type of a corrected change."""

    key: str
    values: Mapping[str, str | None] = field(default_factory=dict)
    """Texts by column, as states have them."""
    changes: Mapping[str, ValueChanges] = field(default_factory=dict)
    """Changed values of other columns."""
    event: EventType | None = None


@dataclass(frozen=True, slots=True)
class CorrectedTable:
    """A compared table of a state, whose rows have been corrected."""

    name: str
    entry: Mapping[str, Any]
    """Its description in the state."""
    catalogue: Catalogue
    options: TriggerlessOptions

    def find(self, where: str) -> FoundTable:
        """Finds the table in the catalogue.  Raises ``FatalError`` if there is none."""
        return find_table(self.name, self.catalogue, self.options, where)

    def shape(self, columns: Iterable[str], where: str) -> TableShape:
        """The shape of rows with these columns.  Raises ``FatalError`` if there is none."""
        options = replace(self.options, key_change_by={})  # a correction may omit its columns
        return shape_of(self.name, tuple(columns), self.catalogue, options, where)

    def child_shape(self, columns: Iterable[str], where: str) -> TableShape | None:
        """The shape of the child table that has these columns; ``None`` unless exactly one has them."""
        parent = self.shape(self.entry["key"], where)
        found: list[TableShape] = []
        for child in self.find(where).known.children:
            try:
                whole = with_children(
                    parent, {child: tuple(columns)}, self.catalogue, self.options, where
                )
            except FatalError:
                continue
            found += whole.children
        return found[0] if len(found) == 1 else None


def read_corrected_row(raw: Any, table: CorrectedTable, where: str) -> CorrectedRow | RecordFault:
    """Reads a corrected row, or returns why it is rejected; ``where`` names it in messages.

    Raises:
        UsageError: It is no row or change of the table.
    """
    if not isinstance(raw, dict):
        raise UsageError(
            f"{where}: raw is not an object: write the row as columns and values, as in "
            '{"COLUMN": "VALUE", ...}'
        )
    try:
        if raw.keys() == _CHANGE and isinstance(raw["columns"], list):
            row = _read_change(raw, table, where)
        elif _has_key_of(raw, table):
            values = {name: value for name, value in raw.items() if name != "key"}
            row = _read_values(raw["key"], values, {}, table, where)
        else:
            row = _read_row(raw, table, where)
    except FatalError as error:
        raise UsageError(error.message) from None
    except (KeyProblem, ValueError, TypeError) as problem:
        raise UsageError(
            f"{where}: raw is no change of {table.name} ({problem}): write it as rejects "
            "--export does"
        ) from None
    if isinstance(row, CorrectedRow):
        _refuse_other_columns(row, table, where)
    return row


def _refuse_other_columns(row: CorrectedRow, table: CorrectedTable, where: str) -> None:
    unknown = sorted((row.values.keys() | row.changes.keys()) - set(table.entry["columns"]))
    if unknown:
        raise UsageError(
            f"{where}: no comparison of {table.name} has read {', '.join(unknown)}: leave them out, and "
            "publish the table again"
        )


def _has_key_of(raw: Mapping[str, Any], table: CorrectedTable) -> bool:
    """Tests whether a record has a key as documents have it, beside columns."""
    try:
        parts = parse(raw["key"])
    except (KeyError, TypeError, AttributeError, KeyProblem):
        return False
    return sorted(part.column for part in parts) == sorted(table.entry["key"])


def _read_change(
    raw: Mapping[str, Any], table: CorrectedTable, where: str
) -> CorrectedRow | RecordFault:
    event = EventType(raw["event_type"])
    if event is EventType.KEY_CHANGE:
        raise UsageError(
            f"{where} is a changed key, which the next comparison publishes with the row: correct the row "
            "in the table"
        )
    columns, new = raw["columns"], raw["new"] or []
    old = raw["old"] or [None] * len(columns)
    if event is EventType.DELETE_ROW:
        columns, old, new = [], [], []
    values: dict[str, Any] = {}
    changes: dict[str, ValueChanges] = {}
    for column, before, after in zip(columns, old, new, strict=True):
        if column not in table.entry["multiple"]:
            values[column] = after
        elif event is EventType.UPDATE_FIELD:
            known = changes.get(column, ValueChanges(frozenset(), ()))
            changes[column] = ValueChanges(
                known.removed | ({before} - {None}),
                known.added if after is None else (*known.added, after),
            )
        else:
            values.setdefault(column, []).append(after)
    row = _read_values(raw["key"], values, changes, table, where)
    return replace(row, event=event) if isinstance(row, CorrectedRow) else row


def _read_values(
    key: str,
    values: Mapping[str, Any],
    changes: Mapping[str, ValueChanges],
    table: CorrectedTable,
    where: str,
) -> CorrectedRow | RecordFault:
    """Reads values by the names of columns in documents; lists are values of multi-valued columns."""
    multiple = {name: value for name, value in values.items() if name in table.entry["multiple"]}
    singles = {part.column: part.value for part in parse(key)}
    singles |= {name: value for name, value in values.items() if name not in multiple}
    row = _read_texts(table.shape(singles, where), singles, _DRIVER_FORM, where)
    if isinstance(row, RecordFault):
        return row
    texts = {name: join_values(value or ()) for name, value in multiple.items()}
    return replace(row, values={**row.values, **texts}, changes=changes)


def _read_row(
    raw: Mapping[str, Any], table: CorrectedTable, where: str
) -> CorrectedRow | RecordFault:
    """Reads a row of the input: of the table, or of one of its child tables."""
    binary = table.options.binary_text if table.entry["origin"] is None else _DRIVER_FORM
    own = {name.casefold() for name in (*table.entry["key"], *table.entry["columns"])}
    is_own = own.issuperset(map(str.casefold, raw))
    child = None if is_own else table.child_shape(raw, where)
    if child is None:
        return _read_texts(table.shape(raw, where), raw, binary, where)
    row = _read_texts(child, raw, binary, where)
    if isinstance(row, RecordFault):
        return row
    added = {
        name: ValueChanges(frozenset(), () if text is None else (text,))
        for name, text in row.values.items()
    }
    return CorrectedRow(row.key, changes=added)


def _read_texts(
    shape: TableShape, texts: Mapping[str, Any], binary: str | None, where: str
) -> CorrectedRow | RecordFault:
    arrays = [pa.array([_text(value)], pa.string()) for value in texts.values()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(texts))
    rows = read_rows(shape, batch, binary, where)
    if rows.faults:
        return rows.faults[0]
    values = zip(shape.columns, (column[0].as_py() for column in rows.values), strict=True)
    return CorrectedRow(rows.keys[0].as_py(), dict(values))


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def join_values(values: Sequence[str | None]) -> str | None:
    """Joins the values of a multi-valued column to one text, see ``multi_values``."""
    texts = pa.array(values, pa.string())
    joined: str | None = group_values(np.zeros(len(texts), np.int64), 1, texts)[0].as_py()
    return joined
