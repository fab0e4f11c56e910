"""The association: the text by which a document names its object.

``idu=1,table=usr,schema=indirect``: the key, the table, the schema where it is known (reference,
event types, examples).  Compound keys are joined with ``+``; table and schema names are quoted as
values of keys are, so that two objects never share an association.
"""

from __future__ import annotations

from functools import lru_cache

from publisher.model.change import Object
from publisher.model.keys import format_key, parse, quote


def association(obj: Object, key_order: tuple[str, ...] = ()) -> str:
    """The association of ``obj``, as plain text (not escaped for XML).

    ``key_order`` has the primary key's columns in their order; columns that it does not name follow
    in code-point order.  ``obj.key`` must be canonical.
    """
    return key_text(obj.key, key_order) + suffix(obj.table, obj.schema)


def key_text(key: str, key_order: tuple[str, ...]) -> str:
    """The association's part for the key: ``idu=1``."""
    if key_order and "+" in key:  # without a "+" it has one column
        return _ordered(key, key_order)
    return key


@lru_cache(maxsize=4096)
def suffix(table: str, schema: str | None) -> str:
    """The association's part that all objects of a table share: ``,table=usr,schema=indirect``."""
    text = f",table={quote(table)}"
    return text if schema is None else f"{text},schema={quote(schema)}"


def _ordered(key: str, key_order: tuple[str, ...]) -> str:
    exact, folded = _places(key_order)
    last = len(key_order)

    def place(pair: tuple[str, str]) -> tuple[int, str]:
        column = pair[0]
        return exact.get(column, folded.get(column.casefold(), last)), column

    return format_key(sorted(((part.column, part.value) for part in parse(key)), key=place))


@lru_cache(maxsize=4096)
def _places(key_order: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """Place of each column by its name, and by its name without regard to case."""
    exact = {column: place for place, column in enumerate(key_order)}
    folded = {column.casefold(): place for place, column in enumerate(key_order)}
    return exact, folded
