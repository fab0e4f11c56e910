"""SQL that recognizes updates of MariaDB that have left their row as it was.

After UPDATE IGNORE triggers are run for rows that could not be updated, too.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import types

from publisher.triggers.model import LoggedTable


def is_stored(table: LoggedTable, quote: Callable[[str], str], key: str, other_key: str) -> str:
    """A condition: the row is stored as NEW has it, and if its key has changed, not under the old key.

    ``key`` is the SQL of the table_key of row ``o``, ``other_key`` the condition that the key has changed.
    """
    place, own_types = table.ref.sql(quote), table.relation.types
    same = [f"o.{quote(name)} = NEW.{quote(name)}" for name in table.key]
    same += [
        # as texts, because a zero TIMESTAMP is not equal to itself
        f"CAST(o.{quote(name)} AS CHAR) <=> CAST(NEW.{quote(name)} AS CHAR)"
        if isinstance(own_types[name], types.DateTime)
        else f"o.{quote(name)} <=> NEW.{quote(name)}"
        for name in table.columns
        if not isinstance(own_types[name], types.NullType | types.LargeBinary)
    ]
    left = [f"o.{quote(name)} = OLD.{quote(name)}" for name in table.key]
    left.append(f"CAST({key} AS BINARY) = CAST(old_key AS BINARY)")
    return (
        f"EXISTS (SELECT 1 FROM {place} AS o WHERE {' AND '.join(same)})\n"
        f"  AND NOT ({other_key}\n"
        f"    AND EXISTS (SELECT 1 FROM {place} AS o WHERE {' AND '.join(left)}))"
    )
