"""Compares the triggers of a log with those that ``ddl`` would make for its tables now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.errors import FatalError
from publisher.triggers.installed import InstalledTrigger, read_triggers
from publisher.triggers.model import DatabaseKind, Style, TableRef, literal, written_name
from publisher.triggers.plan import Refs, TriggerPlan, log_ref, plan

_SHOWN_TABLES = 5


def compare_triggers(database: Database, log: TableRef) -> str:
    """Describes the tables that triggers log, and the changes that no trigger sees.

    Raises ``FatalError`` if triggers are missing, are disabled or do not fit their tables, and the errors
    of ``plan``.
    """
    triggers = _triggers_of(database, log)
    if not triggers:
        return "no trigger that the user can see writes to it"
    log = log_ref(database, log)
    tables = tuple(dict.fromkeys(_as_named(trigger) for trigger in triggers))
    planned, stale = _closest_plan(database, Refs(tables, log), triggers)
    problems = [
        *(f"{one.description} is disabled" for one in triggers if not one.is_enabled),
        *_missing(planned, triggers),
        *_stale(database, stale, triggers),
    ]
    if problems:
        options = " ".join(f"--table {written_name(*table)}" for table in tables)
        raise FatalError(
            f"{'; '.join(problems)}: run xds-publisher ddl again with the same --style and {options}"
        )
    parts = [f"{len(tables)} table(s) are logged as ddl would do now"]
    if others := list(_tables_without(database, tables, log)):
        more = f" and {len(others) - _SHOWN_TABLES} more" if len(others) > _SHOWN_TABLES else ""
        parts.append(f"without triggers: {', '.join(others[:_SHOWN_TABLES])}{more}")
    return "; ".join([*parts, *planned.notes])


def logged_tables(database: Database, log: TableRef) -> tuple[TableRef, ...]:
    """Returns the tables that triggers of ``ddl`` log."""
    return tuple(dict.fromkeys(_as_named(trigger) for trigger in _triggers_of(database, log)))


def _triggers_of(database: Database, log: TableRef) -> list[InstalledTrigger]:
    """Reads the triggers that write to the log."""
    kind = DatabaseKind.of(database)
    installed = database.run(partial(read_triggers, kind))
    if not installed:
        return []
    into = f"INTO {log_ref(database, log).sql(kind)} ("
    return [trigger for trigger in installed if into in trigger.text]


def _as_named(trigger: InstalledTrigger) -> TableRef:
    """The table as ``ddl`` was given it: MariaDB's triggers name the schema only if it was given."""
    schema, name = trigger.table
    is_bare = (
        trigger.name.startswith("xds_") and literal(written_name(schema, name)) not in trigger.text
    )
    return TableRef(None if is_bare else schema, name)


def _closest_plan(
    database: Database, refs: Refs, triggers: Sequence[InstalledTrigger]
) -> tuple[TriggerPlan, list[InstalledTrigger]]:
    """Finds the style and the treatment of keys by which most triggers were made.

    Returns its plan, and the triggers that no plan makes.
    """
    stale = list(triggers)
    plans: list[tuple[int, TriggerPlan]] = []
    for style, joins_keys in product(Style, (False, True)):
        planned = plan(database, refs, style, joins_keys=joins_keys)
        texts = "\0".join(statement.text for statement in planned.statements)
        plans.append((sum(trigger.text in texts for trigger in triggers), planned))
        stale = [trigger for trigger in stale if trigger.text not in texts]
        if not stale:
            break
    return max(plans, key=lambda pair: pair[0])[1], stale


def _missing(planned: TriggerPlan, triggers: Sequence[InstalledTrigger]) -> Iterator[str]:
    installed = {trigger.description for trigger in triggers}
    for description in planned.created:
        if description.startswith("trigger ") and description not in installed:
            yield f"{description} is missing"


def _stale(
    database: Database,
    stale: Sequence[InstalledTrigger],
    triggers: Sequence[InstalledTrigger],
) -> Iterator[str]:
    quote = DatabaseKind.of(database).quote
    for table in dict.fromkeys(trigger.table for trigger in stale):
        names = ", ".join(trigger.name for trigger in stale if trigger.table == table)
        text = "".join(trigger.text for trigger in triggers if trigger.table == table)
        relation = catalogue_of(database).relation(*table)
        columns = [] if relation is None else [c for c in relation.types if quote(c) not in text]
        unlogged = f" (not logged: {', '.join(columns)})" if columns else ""
        yield f"{names} of {written_name(*table)} do not fit the table{unlogged}"


def _tables_without(database: Database, tables: Sequence[TableRef], log: TableRef) -> Iterator[str]:
    logged = {table.name for table in tables} | {log.name}
    for schema in dict.fromkeys(table.schema for table in tables):
        for name, is_view in catalogue_of(database).tables_of(schema):
            if not is_view and name not in logged:
                yield written_name(schema, name)
