"""SQL that logs an update of the primary key as a change of one object's key.

It is an event of type 2 under the old key, with the old and the new value of the key's column: what readers
with ``key_change = "modify-association"`` expect.  An update of several key columns has no such event, so it
is logged as the delete of the old object and the insert of the new one.
"""

from __future__ import annotations

from publisher.triggers.child_events import SqlForms
from publisher.triggers.model import LoggedTable, literal


def changes_one_column(table: LoggedTable, forms: SqlForms) -> str:
    """A condition: the update changes exactly one column of the key."""
    differ = {name: _differ(table, forms, name) for name in table.key}
    return " OR ".join(
        " AND ".join(
            [differ[name], *(f"NOT ({differ[other]})" for other in table.key if other != name)]
        )
        for name in table.key
    )


def key_change(table: LoggedTable, forms: SqlForms, old_key: str) -> dict[str, str]:
    """The SQL of the event's values by columns of the log."""

    def choose_text(texts: dict[str, str]) -> str:
        if len(texts) == 1:
            return texts[table.key[0]]
        cases = [f"WHEN {_differ(table, forms, name)} THEN {text}" for name, text in texts.items()]
        return f"CASE {' '.join(cases)} END"

    def text_of(row: str) -> dict[str, str]:
        return {name: forms.text(table.relation, row, name) for name in table.key}

    values = table.event(
        old_key, 2, None, (choose_text(text_of("OLD")), choose_text(text_of("NEW")))
    )
    return values | {"column_name": choose_text({name: literal(name) for name in table.key})}


def _differ(table: LoggedTable, forms: SqlForms, name: str) -> str:
    return forms.differ(*(forms.text(table.relation, row, name) for row in ("OLD", "NEW")))
