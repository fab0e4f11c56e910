"""Takes associations apart: the key of the object, and its table."""

from __future__ import annotations

import re
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.keys import KeyProblem, parse

_NAME = r'(?:[^",]|"(?:[^"\\]|\\.)*")*'
_PARTS = re.compile(rf"({_NAME})(,table=({_NAME})(?:,schema=({_NAME}))?)", re.DOTALL).fullmatch


class AssociationParts(NamedTuple):
    """The parts of an association."""

    key: str
    suffix: str
    """The part that all objects of a table share."""


class AssociationTable(NamedTuple):
    """Schema and name of a table in associations."""

    schema: str | None
    table: str

    @property
    def text(self) -> str:
        """The name for people."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


def split_association(association: str) -> AssociationParts | None:
    """Splits an association; ``None`` if it is of another program."""
    match = _PARTS(association)
    return None if match is None else AssociationParts(match[1], match[2])


def suffixes_of(associations: pa.Array) -> pa.DictionaryArray:
    """Returns the suffixes of associations; null for those of other programs."""
    # a name without quotes ends at the first comma
    tails = pc.replace_substring_regex(associations, "^[^,]*", "").dictionary_encode()
    by_tail = [split_association(f"k{tail}") for tail in tails.dictionary.to_pylist()]
    suffixes = pa.array([parts and parts.suffix for parts in by_tail], pa.string()).take(
        tails.indices
    )
    is_quoted = pc.match_substring(associations, '"')
    if pc.any(is_quoted, min_count=0).as_py():
        parts = map(split_association, associations.filter(is_quoted).to_pylist())
        quoted = pa.array([each and each.suffix for each in parts], pa.string())
        suffixes = pc.replace_with_mask(suffixes, is_quoted, quoted)
    return suffixes.dictionary_encode()


def table_of_suffix(suffix: str) -> AssociationTable:
    """Reads the table's name from the part that all associations of a table share."""
    match = _PARTS(suffix)
    assert match is not None  # split_association has found it
    schema = None if match[4] is None else _unquote(match[4])
    return AssociationTable(schema, _unquote(match[3]))


def _unquote(name: str) -> str:
    try:
        return parse(f"name={name}")[0].value
    except KeyProblem:  # a name that needs quotes and has none
        return name
