"""The class that a record was resolved to, and the reasons why values of it were not published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from publisher.ledger.run_reader import DecidedRecord
from publisher.model.catalogue import ChildTable, ColumnKind, Table
from publisher.model.change import EventType, Object, Reason
from publisher.model.plain import restore
from publisher.model.reason_texts import REASON_TEXTS
from publisher.planning.filters import Filter, FilterOptions


@dataclass(frozen=True, slots=True)
class ResolvedColumn:
    """A column of a change as an attribute of the class."""

    name: str
    child: str | None
    """Child table that the column belongs to; ``None`` for the class's own columns."""
    left_out: str | None
    """The setting that leaves its values out of documents; ``None`` if they are published."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The class of a record, and its other names in the source."""

    class_name: str
    is_view: bool
    logged_table: str | None
    """The child table as the source names it; ``None`` if the record names the class."""
    logged_column: str | None
    """The column as the source names it, if that is another name than the attribute's."""
    columns: tuple[ResolvedColumn, ...]


def filter_options(settings: Mapping[str, Any], source: int) -> FilterOptions:
    """Returns the filters of a source, given its number, from the settings of a manifest."""
    sources: Sequence[Mapping[str, Any]] = settings.get("sources", ())
    plain = sources[source] if source < len(sources) else {}
    names = {field.name for field in fields(FilterOptions)}
    return restore(FilterOptions, {name: plain[name] for name in names & plain.keys()})


def resolve(record: DecidedRecord, options: FilterOptions) -> Resolution | None:
    """Describes the class of a record; ``None`` if its object is unknown."""
    if record.object is None:
        return None
    children = record.children or (None,) * len(record.columns)
    filter_ = Filter(options, catalogue=_CatalogueOfRecord(record))
    is_key_change = record.event_type == EventType.KEY_CHANGE
    columns = tuple(
        ResolvedColumn(
            name, child, None if is_key_change else filter_.column_exclusion(record.object, name)
        )
        for name, child in dict.fromkeys(zip(record.columns, children, strict=True))
    )
    return Resolution(
        record.object.qualified_table,
        record.is_view,
        record.logged_table,
        record.logged_column,
        columns,
    )


def meaning_of(record: DecidedRecord, options: FilterOptions) -> str:
    """Explains the outcome of a record in terms of its class."""
    text = REASON_TEXTS.get(record.reason, "") if record.reason is not None else ""
    match record.reason:
        case Reason.DUPLICATE if record.detail:
            return record.detail  # names the repeated record
        case Reason.COMMIT if record.detail:
            return f"{text}; {record.detail}"  # the detail describes an unusual commit
        case Reason.EXCLUDED:
            return _exclusion(record, options) or record.detail or text
        case Reason.ROW_GONE if record.object is not None and any(record.children):
            return f"the row of {record.object.table} no longer exists, so its child tables were not read"
        case Reason.ROW_QUERY_BACK if any(record.children):
            return f"{text} and those of its child tables"
    return text or record.detail or ""


def _exclusion(record: DecidedRecord, options: FilterOptions) -> str | None:
    """Names the setting that excludes a record; ``None`` if its object is unknown."""
    if record.object is None:
        return None
    filter_ = Filter(options, catalogue=_CatalogueOfRecord(record))
    excluded = filter_.table_exclusion(record.object)
    if excluded is not None:
        return f"table {record.object.qualified_table}: {excluded}"
    texts = {name: filter_.column_exclusion(record.object, name) for name in record.columns}
    return "; ".join(f"column {name}: {text}" for name, text in texts.items() if text) or None


class _CatalogueOfRecord:
    """Describes the table of a record as far as the ledger shows it: its columns and child tables."""

    closed = False

    def __init__(self, record: DecidedRecord) -> None:
        obj = record.object or Object(None, "", "")
        children: dict[str, dict[str, ColumnKind]] = {}
        for name, child in zip(record.columns, record.children, strict=False):
            if child is not None:
                children.setdefault(child, {})[name[len(child) + 1 :]] = ColumnKind.STRING
        self._table = Table(
            obj.schema,
            obj.table,
            columns=dict.fromkeys(record.columns, ColumnKind.STRING),
            children={name: ChildTable(columns) for name, columns in children.items()},
        )

    def table(self, _schema: str | None, _name: str) -> Table:
        """Returns the table of the record."""
        return self._table
