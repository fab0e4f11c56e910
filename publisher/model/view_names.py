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

    column: str
    """The effective name, without prefixes, as written."""
    role: ViewRole = ViewRole.VALUE
    is_multiple: bool = False
    group: int | None = None
    ref: str | None = None
    """The key column that a key column refers to."""

    @property
    def schema_name(self) -> str:
        """The form of schema mapping, which documents use: only ``pk_`` and ``fk_`` remain."""
        prefix = {ViewRole.PRIMARY_KEY: "pk_", ViewRole.FOREIGN_KEY: "fk_"}.get(self.role, "")
        return prefix + self.column

    def is_same(self, other: ViewName) -> bool:
        """Returns whether both are variants of one name: their effective names are equal in any case."""
        return self.column.casefold() == other.column.casefold()


def parse_view_name(name: str, keys: Collection[str], *, enabled: bool = True) -> ViewName:
    """Parses a column name.  ``keys`` are the effective names of all key columns, in any case.

    Without ``enabled`` (``enable_meta_identifiers = false``) prefixes belong to the name.
    """
    if not enabled:
        return ViewName(name)
    for match, role in (
        (_PRIMARY(name), ViewRole.PRIMARY_KEY),
        (_FOREIGN(name), ViewRole.FOREIGN_KEY),
    ):
        if match is not None:
            values, group, rest = match.groups()
            ref, column = _split_ref(rest, keys)
            return ViewName(
                column,
                role,
                is_multiple=(values or "").lower() == "mv_",
                group=int(group[:-1]) if group else None,
                ref=ref,
            )
    match = _VALUES(name)
    if match is None:
        return ViewName(name)
    return ViewName(match[2], is_multiple=match[1].lower() == "mv_")


def _split_ref(text: str, keys: Collection[str]) -> tuple[str | None, str]:
    """Splits ``_ref__column``; of several splits, the one whose reference is a key."""
    if not text.startswith("_"):
        return None, text
    ends = [end for end in range(2, len(text) - 2) if text.startswith("__", end)]
    splits = [(text[1:end], text[end + 2 :]) for end in ends]
    known = {key.casefold() for key in keys}
    chosen = [split for split in splits if split[0].casefold() in known] or splits
    return chosen[0] if chosen else (None, text)


def view_name_problems(names: Sequence[ViewName], owners: Mapping[str, int]) -> Iterator[str]:
    """Yields the reasons to refuse a view with these columns.

    ``owners`` has the number of classes with a key column of each effective name, case-folded.
    """
    if not any(name.role is ViewRole.PRIMARY_KEY for name in names):
        yield "no column begins with pk_: name the key columns pk_COLUMN"
    for effective, count in Counter(name.column.casefold() for name in names).items():
        if count > 1:
            yield f"{count} columns have the effective name {effective}: rename all except one"
    foreign = [name for name in names if name.role is ViewRole.FOREIGN_KEY]
    for name in foreign:
        if name.ref is None:
            yield f"fk_{name.column} names no key: write fk__KEY__{name.column}"
        elif (count := owners.get(name.ref.casefold(), 0)) != 1:
            classes = "no class" if not count else f"{count} classes"
            yield f"fk_{name.column} refers to {name.ref}, which is the key of {classes}: refer to one key"
    for group, count in Counter(name.group for name in foreign).items():
        if group is not None and count > 1:
            yield f"{count} columns are the foreign key of group {group}: use keys of one column"
