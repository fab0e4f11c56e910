"""The association: the text that names an object in documents.

``idu=1,table=usr,schema=indirect``: the key, the table, and the schema if known.  The columns of compound
keys are joined with ``+``.  Names of tables and schemas are quoted like values of keys, so that two
objects never share an association.
"""

from __future__ import annotations

from functools import lru_cache

from publisher.model.change import Object
from publisher.model.keys import format_key, parse, quote


def association(obj: Object, key_order: tuple[str, ...] = ()) -> str:
    """Returns the association of an object as plain text, not escaped for XML.

    ``key_order`` lists the columns of the primary key in their order; other columns follow
    in code-point order.  ``obj.key`` must be canonical.
    """
    return key_text(obj.key, key_order) + suffix(obj.table, obj.schema)


def key_text(key: str, key_order: tuple[str, ...]) -> str:
    """Returns the key part of an association: ``idu=1``."""
    if key_order and "+" in key:  # a key without "+" has one column
        return _order_columns(key, key_order)
    return key


@lru_cache(maxsize=4096)
def suffix(table: str, schema: str | None) -> str:
    """Returns the part that all objects of a table share: ``,table=usr,schema=indirect``."""
    text = f",table={quote(table)}"
    return text if schema is None else f"{text},schema={quote(schema)}"


def _order_columns(key: str, key_order: tuple[str, ...]) -> str:
    exact, folded = _places(key_order)
    last = len(key_order)

    def place(pair: tuple[str, str]) -> tuple[int, str]:
        column = pair[0]
        return exact.get(column, folded.get(column.casefold(), last)), column

    return format_key(sorted(((part.column, part.value) for part in parse(key)), key=place))


@lru_cache(maxsize=4096)
def _places(key_order: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the index of each column by its exact name, and by its case-folded name."""
    exact = {column: place for place, column in enumerate(key_order)}
    folded = {column.casefold(): place for place, column in enumerate(key_order)}
    return exact, folded
