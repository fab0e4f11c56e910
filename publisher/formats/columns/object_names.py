"""Resolves names of records: tables, keys and columns, checked against the catalogue.

Each distinct name is resolved once per split or batch, whatever the number of records.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import TableRefusedError
from publisher.formats.columns.key_lanes import key_lanes
from publisher.formats.contract import Excludes
from publisher.model.catalogue import (
    LONGEST_NAME,
    Catalogue,
    ColumnKind,
    Table,
)
from publisher.model.change import Outcome, Reason
from publisher.model.classes import attribute_of
from publisher.model.keys import BLANKS, IdentifierCase, KeyForm, KeyProblem, merged_names, parse
from publisher.model.lanes import key_lane, table_hash
from publisher.model.names import equal_in_any_case

# Possessive quantifiers, so that matching takes linear time; blanks after a bare part are removed later.
_PART = re.compile(
    r'\s*+(?:"((?:[^"]|"")*+)"\s*+|`((?:[^`]|``)*+)`\s*+|\[((?:[^\]]|\]\])*+)\]\s*+|([^."`\[\]]++))(\.|\Z)'
)

REMEMBERED = 10_000
"""Maximum number of remembered names; real tables and columns are fewer."""


class RecordFault(NamedTuple):
    """The reason why a record gives no change: it is rejected, or its table is excluded."""

    reason: Reason
    detail: str
    """The problem, ending with advice."""

    @property
    def outcome(self) -> Outcome:
        """The outcome of the record."""
        return Outcome.IGNORED if self.reason is Reason.EXCLUDED else Outcome.REJECTED


class Key(NamedTuple):
    """A resolved key: canonical text and lane."""

    text: str
    lane: int


class Keys(NamedTuple):
    """Many resolved keys of one table, and the faults of texts that are no keys."""

    texts: pa.Array
    lanes: npt.NDArray[np.int64]
    faults: dict[int, RecordFault]


class NamedColumn(NamedTuple):
    """A resolved column: its name, and whether its values are binary."""

    name: str
    octet: bool
    child: str | None = None
    """The child table that the column belongs to; ``None`` for columns of the class's own table."""


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A resolved table, with the facts that its keys and columns are checked against."""

    schema: str | None
    table: str
    known: Table | None
    form: KeyForm
    canonical: str | None
    """Matches keys that are canonical and name the key column (``KeyForm.canonical_pattern``)."""
    key_columns: frozenset[str]
    hash: int
    child: str | None = None
    """The child table that the records name; ``table`` and ``known`` are its class."""

    @property
    def is_view(self) -> bool:
        """True if the class is a view."""
        return self.known is not None and self.known.view_columns is not None


def split_name(text: str) -> tuple[str | None, str] | None:
    """Splits a name such as ``schema.table``; parts may be quoted as in databases.

    Drops the name of a database before the schema.  Returns ``None`` for text that is not a name.
    """
    parts = _split_parts(text)
    if parts is None or len(parts) > 3:
        return None
    return (parts[-2] if len(parts) > 1 else None), parts[-1]


def _split_parts(text: str) -> list[str] | None:
    """Splits a name at its dots; ``None`` for text that is not a name."""
    parts, at = [], 0
    while True:
        match = _PART.match(text, at)
        if match is None:
            return None
        double, back, bracket, bare = match.group(1, 2, 3, 4)
        if double is not None:
            parts.append(double.replace('""', '"'))
        elif back is not None:
            parts.append(back.replace("``", "`"))
        elif bracket is not None:
            parts.append(bracket.replace("]]", "]"))
        else:
            parts.append(bare.rstrip())
        at = match.end()
        if match[5] != ".":
            return parts if all(parts) else None


class Names:
    """Resolves the names of one split, and remembers them."""

    def __init__(
        self,
        catalogue: Catalogue,
        schema: str | None,
        case: IdentifierCase,
        lanes: int,
        excludes: Excludes | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._excludes = excludes
        self._schema = schema
        self._case = case
        self._lanes = lanes
        self._targets: dict[str, TargetTable | RecordFault] = {}
        self._columns: dict[tuple[str, str], NamedColumn | RecordFault] = {}

    def target(self, name: str) -> TargetTable | RecordFault:
        """Resolves a ``table_name``."""
        target = self._targets.get(name)
        if target is None:
            target = self._find_target(name)
            if len(self._targets) < REMEMBERED and len(name) <= LONGEST_NAME:
                self._targets[name] = target
        return target

    def _find_target(self, name: str) -> TargetTable | RecordFault:
        parts = _parse_table_name(name)
        if isinstance(parts, RecordFault):
            return parts
        schema, table = parts[0] or self._schema, parts[1]
        if self._is_excluded(schema, table):
            return _exclude(name)
        known = self._describe(schema, table, name)
        if isinstance(known, RecordFault):
            return known
        if known is None or known.parent is None:
            return self._target_table(schema, table, known, None)
        child, known = known.name, known.parent
        if self._is_excluded(schema or known.schema, known.name):
            return _exclude(name)
        return self._target_table(schema, known.name, known, child)

    def _describe(self, schema: str | None, table: str, name: str) -> Table | RecordFault | None:
        """Describes a table that records call ``name``; ``None`` if it is unknown, but may exist."""
        try:
            known = self._catalogue.table(schema, table)
        except TableRefusedError as refused:
            return RecordFault(Reason(refused.reason), refused.message)
        if known is None and self._catalogue.closed:
            return RecordFault(
                Reason.TABLE_NAME,
                f"the database has no table {name!r}; fix table_name, or set the schema",
            )
        merged = None if known is None else merged_names(known.parent or known, self._case)
        return known if merged is None else RecordFault(Reason.TABLE_NAME, merged)

    def _is_excluded(self, schema: str | None, table: str) -> bool:
        return self._excludes is not None and self._excludes(schema, table)

    def _target_table(
        self, schema: str | None, table: str, known: Table | None, child: str | None
    ) -> TargetTable:
        schema = schema or (known.schema if known else None)
        spelled = self._case.apply(table, known.name if known else None)
        if schema is not None:
            schema = self._case.apply(schema, self._spelling(schema, known))
        columns = dict(known.columns) if known else {}
        form = KeyForm(
            columns, self._case, known.key if known else (), known.column if known else None
        )
        key = [self._case.apply(column, column) for column in known.key] if known else []
        simple = len(key) == 1 and re.fullmatch(r"\w+", key[0])
        return TargetTable(
            schema,
            spelled,
            known,
            form,
            form.canonical_pattern(key[0]) if simple else None,
            frozenset(column.casefold() for column in key),
            table_hash(schema, spelled),
            child,
        )

    def _spelling(self, schema: str, known: Table | None) -> str | None:
        """Returns the spelling of a schema in the catalogue, else in the settings."""
        if known is not None and known.schema is not None:
            return known.schema
        same = self._schema is not None and self._schema.casefold() == schema.casefold()
        return self._schema if same else None

    def key(self, target: TargetTable, text: str) -> Key | RecordFault:
        """Resolves a ``table_key`` to its canonical form and lane."""
        try:
            canonical = target.form.text(text)
            self._check_columns(target, canonical)
        except KeyProblem as problem:
            return RecordFault(Reason.TABLE_KEY, f"table_key {_short(text)}: {problem}")
        return Key(canonical, key_lane(target.hash, canonical, self._lanes))

    def keys(self, target: TargetTable, texts: pa.Array) -> Keys:
        """Resolves many keys of a table, with the same results as ``key``."""
        lanes = key_lanes(target.hash, texts, self._lanes)
        canonical = np.zeros(len(texts), np.bool_)
        if target.canonical is not None:
            matches = pc.match_substring_regex(texts, target.canonical)
            canonical = matches.to_numpy(zero_copy_only=False)
        changed: dict[int, str] = {}
        faults: dict[int, RecordFault] = {}
        for row in np.flatnonzero(~canonical).tolist():
            key = self.key(target, texts[row].as_py())
            if isinstance(key, RecordFault):
                faults[row] = key
            else:
                changed[row], lanes[row] = key
        if changed:
            mask = np.zeros(len(texts), np.bool_)
            mask[list(changed)] = True
            texts = pc.replace_with_mask(texts, mask, pa.array(changed.values(), pa.string()))
        return Keys(texts, lanes, faults)

    def _check_columns(self, target: TargetTable, canonical: str) -> None:
        known = target.known
        if known is None or not (known.key or known.complete):
            return
        key_columns = [part.column for part in parse(canonical)]
        if target.key_columns:
            if {column.casefold() for column in key_columns} != target.key_columns:
                raise KeyProblem(
                    f"the key of {known.name} is {', '.join(known.key)}, not {', '.join(key_columns)};"
                    " fix the trigger, or the table's key in the settings"
                )
            return
        columns = {column.casefold() for column in known.columns}
        absent = [column for column in key_columns if column.casefold() not in columns]
        if absent:
            raise KeyProblem(f"{known.name} has no column {', '.join(absent)}; fix the trigger")

    def column(self, name: str, target: TargetTable, column: str) -> NamedColumn | RecordFault:
        """Resolves a ``column_name`` in the table that the records call ``name``."""
        resolved = self._columns.get((name, column))
        if resolved is None:
            resolved = self._find_column(target, column)
            if len(self._columns) < REMEMBERED and len(column) <= LONGEST_NAME:
                self._columns[name, column] = resolved
        return resolved

    def child_attributes(self, target: TargetTable) -> list[str]:
        """The attributes of the child table that the records of a target name."""
        known, child = target.known, target.child
        if known is None or child is None:
            return []
        names = [attribute_of(child, column) for column in known.children[child].columns]
        return [self._case.apply(name, name) for name in names]

    def _find_column(self, target: TargetTable, column: str) -> NamedColumn | RecordFault:
        known = target.known
        if known is None or column not in known.columns:
            column = column.rstrip(" ")  # columns of fixed width pad their values
        if not column.strip(BLANKS):
            return RecordFault(
                Reason.COLUMN_NAME, "column_name is empty; per-field events need a column"
            )
        if _is_too_long(column):
            return _too_long(Reason.COLUMN_NAME, column)
        match = None if known is None else _find_attribute(known, target.child, column)
        if known is None or match is None:
            fault = None if known is None else self._unknown_column(known, target.child, column)
            return fault or NamedColumn(self._case.apply(column), octet=False)
        name, kind = match
        octet = kind is ColumnKind.OCTET
        return NamedColumn(self._case.apply(column, name), octet, known.child_of(name))

    def _unknown_column(self, known: Table, child: str | None, column: str) -> RecordFault | None:
        """Rejects a column that a class does not have; ``None`` if its table may have more columns.

        ``child`` is the child table that the records name."""
        if child is not None or known.complete:
            own = None if child is None else self._catalogue.table(known.schema, child)
            if child is not None and own is not None and own.column(column) is not None:
                return RecordFault(
                    Reason.COLUMN_NAME,
                    f"column {column!r} of child table {child} is left out of class {known.name}: it "
                    "belongs to a key, or [tables] names other columns; log no changes of it, or name it "
                    f"in [tables.{known.name}.children.{child}.columns]",
                )
            return RecordFault(
                Reason.COLUMN_NAME,
                f"{child or known.name} has no column {column!r}; fix column_name, or the "
                "table's columns",
            )
        attribute = _attribute_without_prefix(known, column)
        if attribute is None:
            return None
        return RecordFault(
            Reason.COLUMN_NAME,
            f"{column!r} is a column of a child table; write {attribute}, or the child table as "
            "table_name",
        )


def _parse_table_name(name: str) -> tuple[str | None, str] | RecordFault:
    if _is_too_long(name):
        return _too_long(Reason.TABLE_NAME, name)
    return split_name(name) or RecordFault(
        Reason.TABLE_NAME,
        f"table_name {name!r} is not a table name; write table or schema.table",
    )


def _find_attribute(table: Table, child: str | None, column: str) -> tuple[str, ColumnKind] | None:
    """Finds a column of a class by any of its names: with or without table and schema.

    ``child`` is the child table that a record names instead of its class."""
    match = _lookup(table, column if child is None else attribute_of(child, column))
    if match is not None or "." not in column:
        return match
    parts = _split_parts(column) or []
    if len(parts) not in (2, 3) or (
        len(parts) == 3 and not equal_in_any_case(parts[0], table.schema or parts[0])
    ):
        return None
    owner, name = parts[-2:]
    if child is not None and not equal_in_any_case(owner, child):
        return None
    own = child is None and equal_in_any_case(owner, table.name)
    return _lookup(table, name if own else attribute_of(owner, name))


def _attribute_without_prefix(table: Table, column: str) -> str | None:
    """The attribute of a child table that has a column of this name."""
    for name, child in table.children.items():
        if any(equal_in_any_case(column, own) for own in child.columns):
            return attribute_of(name, column)
    return None


def _lookup(table: Table, column: str) -> tuple[str, ColumnKind] | None:
    """Finds name and kind of a column, see ``Table.column``."""
    name = table.column(column)
    return None if name is None else (name, table.columns[name])


def _exclude(name: str) -> RecordFault:
    detail = f"table_name {_short(name)} is excluded, or belongs to a system schema"
    return RecordFault(Reason.EXCLUDED, detail)


def _is_too_long(name: str) -> bool:
    return len(name) > LONGEST_NAME and len(name.strip(BLANKS)) > LONGEST_NAME


def _too_long(reason: Reason, name: str) -> RecordFault:
    column = "table_name" if reason is Reason.TABLE_NAME else "column_name"
    return RecordFault(
        reason,
        f"{column} {_short(name)} has {len(name.strip(BLANKS)):,} characters, but names have "
        f"{LONGEST_NAME:,} at most; fix the program that writes the name",
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
