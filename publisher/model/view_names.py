"""The grammar of column names of views, whose prefixes describe the columns (direct synchronization)::

view-column-name ::= [meta-info] column-name                  prefixes in any case
meta-info        ::= primary-key | foreign-key | "sv_" | "mv_"
primary-key      ::= "pk_" ["sv_"] [group] [ref]              group ::= integer "_"
foreign-key      ::= "fk_" ["sv_" | "mv_"] [group] ref        ref   ::= "_" column-name "__"
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from publisher.model.names import find_name

T = TypeVar("T")

_VALUES = re.compile(r"(sv_|mv_)(.+)", re.IGNORECASE | re.DOTALL).fullmatch
_PRIMARY = re.compile(r"pk_(sv_)?([0-9]+_)?(.+)", re.IGNORECASE | re.DOTALL).fullmatch
_FOREIGN = re.compile(r"fk_(sv_|mv_)?([0-9]+_)?(.+)", re.IGNORECASE | re.DOTALL).fullmatch


class ViewRole(StrEnum):
    """The role of a view's column."""

    VALUE = "value"
    PRIMARY_KEY = "primary key"
    FOREIGN_KEY = "foreign key"


@dataclass(frozen=True, slots=True)
class ViewName:
    """A parsed column name."""

    written: str
    """The name with its prefixes."""
    column: str
    """The effective name, without prefixes."""
    role: ViewRole = ViewRole.VALUE
    is_multiple: bool = False
    group: int | None = None
    ref: str | None = None
    """The key column that a key column refers to."""

    @property
    def schema_name(self) -> str:
        """The form of schema mapping, which documents use: only ``pk_`` and ``fk_`` remain."""
        return self.column if self.role is ViewRole.VALUE else self.written[:3] + self.column

    def is_same(self, other: ViewName) -> bool:
        """Returns whether both are variants of one name: their effective names are equal in any case."""
        return self.column.casefold() == other.column.casefold()


@dataclass(frozen=True, slots=True)
class ViewColumns:
    """The columns of a view by the names of their attributes, which are those of schema mapping."""

    names: Mapping[str, ViewName]
    keys: frozenset[str]
    """The effective names of the key columns of all classes, in any case."""

    def attribute(self, name: str) -> str | None:
        """Finds the attribute that any variant of a column's name means."""
        wanted = parse_view_name(name, self.keys)
        for attribute, own in self.names.items():
            if own.is_same(wanted):
                return attribute
        return find_name(name, self.names)

    def by_attribute(self, values: Mapping[str, T]) -> dict[str, T]:
        """Returns values by attribute instead of by any variant of a column's name; omits unknown names."""
        attributes = {name: self.attribute(name) for name in values}
        return {own: values[name] for name, own in attributes.items() if own is not None}

    def spelling_of(self, name: str) -> str:
        """Returns the view's own spelling of a column; unknown names stay as they are."""
        attribute = self.attribute(name)
        return name if attribute is None else self.names[attribute].written


def find_variant(name: str, columns: Collection[str]) -> str | None:
    """Finds the column of a view that any variant of its name means."""
    return ViewColumns({own: parse_view_name(own, ()) for own in columns}, frozenset()).attribute(
        name
    )


def parse_view_name(name: str, keys: Collection[str]) -> ViewName:
    """Parses a column name.  ``keys`` are the effective names of all key columns, in any case."""
    for match, role in (
        (_PRIMARY(name), ViewRole.PRIMARY_KEY),
        (_FOREIGN(name), ViewRole.FOREIGN_KEY),
    ):
        if match is not None:
            values, group, rest = match.groups()
            ref, column = _split_ref(rest, keys)
            return ViewName(
                name,
                column,
                role,
                is_multiple=(values or "").lower() == "mv_",
                group=int(group[:-1]) if group else None,
                ref=ref,
            )
    match = _VALUES(name)
    if match is None:
        return ViewName(name, name)
    return ViewName(name, match[2], is_multiple=match[1].lower() == "mv_")


def _split_ref(text: str, keys: Collection[str]) -> tuple[str | None, str]:
    """Splits ``_ref__column``; of several splits, the one whose reference is a key."""
    if not text.startswith("_"):
        return None, text
    ends = [end for end in range(2, len(text) - 2) if text.startswith("__", end)]
    splits = [(text[1:end], text[end + 2 :]) for end in ends]
    known = {key.casefold() for key in keys}
    chosen = [split for split in splits if split[0].casefold() in known] or splits
    return chosen[0] if chosen else (None, text)


def ambiguous_names(names: Sequence[ViewName], keys: Collection[str]) -> Iterator[str]:
    """Yields the problems of a view in which a name means two of these columns."""
    effective = Counter(name.column.casefold() for name in names)
    for column, count in effective.items():
        if count > 1:
            yield f"{count} columns have the effective name {column}: rename all except one"
    for name in names:
        shown = parse_view_name(name.schema_name, keys).column.casefold()
        if shown != name.column.casefold() and shown in effective:
            yield (
                f"column {name.written} is {name.schema_name} in documents, which is a name of another "
                "column: rename one of both"
            )
