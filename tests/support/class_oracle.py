"""Classes as one would find them by hand: from primary and foreign keys to documents of whole objects.

It shares no code with the program but the plain types.  The rules follow the description of logical
classes, not the program; ``plan_oracle`` plans the changes of each class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from publisher.model.change import Change, Object, Position
from tests.support import plan_oracle
from tests.support.plan_oracle import Unusable, attribute_in_xml, text_in_xml

SCHEMA = "indirect"
DataRow = Mapping[str, str | None]
"""A row of a table: the log texts of its values."""


class Link(NamedTuple):
    """A foreign key; no ``target`` means the primary key."""

    columns: tuple[str, ...]
    table: str
    target: tuple[str, ...] = ()


@dataclass
class PlainTable:
    """A table with its keys and rows."""

    name: str
    kinds: dict[str, str]
    key: tuple[str, ...] = ()
    links: list[Link] = field(default_factory=list)
    rows: list[DataRow] = field(default_factory=list)

    def link_of(self, column: str) -> Link | None:
        return next((link for link in self.links if column in link.columns), None)

    @property
    def owner(self) -> Link | None:
        """The link of the first constrained column."""
        links = [self.link_of(column) for column in self.kinds]
        return next((link for link in links if link is not None), None)


@dataclass(frozen=True)
class ClassRules:
    """The settings of classes that a case uses."""

    listed: frozenset[str] | None = None
    """The tables of ``sync_tables``; ``None`` for schema mode."""
    declared: frozenset[str] = frozenset()
    """Child tables that the settings name."""
    child_columns: Literal["reject", "each"] = "reject"
    child_row_events: Literal["reject", "read"] = "reject"
    enable_refs: bool = True
    reference_text: Literal["association", "key", "empty"] = "association"
    excluded_tables: frozenset[str] = frozenset()
    excluded_columns: frozenset[str] = frozenset()


class LoggedEvent(NamedTuple):
    """An event as it is meant; ``fault`` is the reason to reject it that its writer planted."""

    record_id: int
    type: int
    table: str
    key: Mapping[str, str]
    """Key of the class."""
    column: str | None = None
    old: str | None = None
    new: str | None = None
    through_parent: bool = False
    """True if the event names the parent of its table."""
    fault: str | None = None


class Refused(Exception):  # noqa: N818 -- a reject, not an error
    """A table that can be part of no class."""


@dataclass(frozen=True)
class Classes:
    """The classes of a database."""

    tables: Mapping[str, PlainTable]
    rules: ClassRules

    def is_class(self, table: PlainTable) -> bool:
        if self.rules.listed is not None:
            return table.name in self.rules.listed
        return bool(table.key)

    def parent_of(self, table: PlainTable) -> PlainTable | None:
        """The class whose attributes a child table holds.  Raises ``Refused`` for a child of none."""
        if self.is_class(table):
            return None
        owner = table.owner
        parent = None if owner is None else self.tables[owner.table]
        may_be_child = not table.key or table.name in self.rules.declared
        if owner is None or parent is None or not may_be_child or not self.is_class(parent):
            raise Refused(table.name)
        target = owner.target or parent.key
        if not set(target) <= set(parent.key):
            raise Refused(table.name)
        values = self.values_of(table)
        is_odd = len(values) > 1 or set(target) != set(parent.key)
        is_settled = self.rules.child_columns == "each" or table.name in self.rules.declared
        if not values or (is_odd and not is_settled):
            raise Refused(table.name)
        if table.name not in self.rules.declared:
            for column in values:
                self.target_of(table, column)
        return parent

    def values_of(self, child: PlainTable) -> list[str]:
        """Columns of values: neither the link nor the child's own key, but further links."""
        owner = child.owner
        assert owner is not None
        return [
            name
            for name in child.kinds
            if name not in owner.columns
            and (name not in child.key or child.link_of(name) is not None)
        ]

    def children_of(self, parent: PlainTable) -> list[PlainTable]:
        return [table for table in self.tables.values() if self._is_child(table, parent)]

    def _is_child(self, table: PlainTable, parent: PlainTable) -> bool:
        try:
            return self.parent_of(table) is parent
        except Refused:
            return False

    def target_of(self, table: PlainTable, column: str) -> PlainTable | None:
        """The class to which a column refers.  Raises ``Refused`` for references of several columns."""
        link = table.link_of(column)
        if link is None or not self.rules.enable_refs:
            return None
        target = self.tables[link.table]
        if not target.key or not self.is_class(target):
            return None
        if set(link.target or target.key) != set(target.key):
            return None
        if len(link.columns) > 1 and table.name not in self.rules.declared:
            raise Refused(table.name)
        return target if len(link.columns) == 1 else None

    def attributes_of(self, parent: PlainTable) -> dict[str, tuple[PlainTable, str]]:
        """Table and column of each attribute, in order.  Raises ``Refused``."""
        own = {name: (parent, name) for name in parent.kinds if name not in parent.key}
        for column in parent.kinds:
            self.target_of(parent, column)
        for table in self.tables.values():
            link = table.owner if table.name in self.rules.declared else None
            if link and link.table == parent.name and not set(link.target) <= set(parent.key):
                raise Refused(parent.name)
        children = {
            f"{child.name}.{name}": (child, name)
            for child in self.children_of(parent)
            for name in self.values_of(child)
        }
        return own | dict(sorted(children.items()))

    def current(self, parent: PlainTable) -> dict[Object, plan_oracle.Row | str | None]:
        """All objects of a class."""
        attributes = self.attributes_of(parent)
        found = _Rows()
        for row in parent.rows:
            values: dict[str, str | tuple[str, ...] | None] = {}
            for name, (table, column) in attributes.items():
                if table is parent:
                    values[name] = row[column]
                else:
                    values[name] = tuple(sorted(_values(row, parent, table, column)))
            found[object_of(parent, row)] = values
        return found

    def resolve(self, event: LoggedEvent) -> tuple[PlainTable, list[Change]] | str:
        """The class of an event and its changes, one for each attribute, or the fate of the event."""
        table = self.tables[event.table]
        named = self._class_named(event, table)
        if named.name in self.rules.excluded_tables:
            return "ignored: excluded"
        try:
            parent = self.parent_of(named) or named
            attributes = self.attributes_of(parent)
        except Refused:
            return "rejected: table-name"
        if parent.name in self.rules.excluded_tables:
            return "ignored: excluded"
        if event.fault is not None:
            return f"rejected: {event.fault}"
        kind, columns = event.type, list[str]()
        if table is not parent and kind in (4, 5, 6):
            if self.rules.child_row_events == "reject":
                return "rejected: child-row"
            kind = 8
            columns = sorted(f"{table.name}.{name}" for name in self.values_of(table))
        elif event.column is not None:
            columns = [event.column if table is parent else f"{table.name}.{event.column}"]
            if columns[0] not in attributes:
                return "rejected: column-name"
        old = (event.old,) if kind == 2 else None
        new = (event.new,) if kind <= 3 else None
        change = Change(
            event.record_id,
            object_of(parent, event.key),
            Position("", event.record_id, 0, 0),
            0,
            kind,
            (),
            old,
            new,
        )
        changes = [
            change._replace(position=Position("", event.record_id, 0, number), columns=(name,))
            for number, name in enumerate(columns)
        ]
        return parent, changes or [change]

    def _class_named(self, event: LoggedEvent, table: PlainTable) -> PlainTable:
        if not event.through_parent:
            return table
        assert table.owner is not None
        return self.tables[table.owner.table]

    def rules_of(
        self, parent: PlainTable, rules: plan_oracle.Rules, names: Mapping[Object, str]
    ) -> plan_oracle.Rules:
        """The rules of planning for the objects of one class."""
        attributes = self.attributes_of(parent)
        targets = {name: self.target_of(*place) for name, place in attributes.items()}
        references = {
            name: _reference_to(target, self.rules.reference_text)
            for name, target in targets.items()
            if target is not None
        }
        return replace(
            rules,
            kinds={name: table.kinds[column] for name, (table, column) in attributes.items()},
            excluded_columns=frozenset(
                name
                for name, (table, column) in attributes.items()
                if self._hides(parent, name, table, column)
            ),
            current=self.current(parent),
            attributes=frozenset(attributes),
            of_children=frozenset(
                name for name, (table, _) in attributes.items() if table is not parent
            ),
            references=references,
            association=names.__getitem__,
        )

    def _hides(self, parent: PlainTable, name: str, table: PlainTable, column: str) -> bool:
        names = {name, f"{parent.name}.{name}"}
        if table is not parent:
            names.add(column)
            if table.name in self.rules.excluded_tables:
                return True
        return not names.isdisjoint(self.rules.excluded_columns)


class _Rows(dict[Object, "plan_oracle.Row | str | None"]):
    """Rows of a table; objects without one are gone."""

    def __missing__(self, obj: Object) -> None:
        return None


def plan_events(
    events: Sequence[LoggedEvent], classes: Classes, rules: plan_oracle.Rules
) -> tuple[list[tuple[int, str, str]], dict[int, str]]:
    """Documents with their first records and associations; the fates of the other events."""
    fates: dict[int, str] = {}
    changes: dict[str, list[Change]] = {}
    names: dict[Object, str] = {}
    for event in events:
        resolved = classes.resolve(event)
        if isinstance(resolved, str):
            fates[event.record_id] = resolved
        else:
            parent, of_event = resolved
            changes.setdefault(parent.name, []).extend(of_event)
            names[of_event[0].object] = association(parent, event.key)
    documents: list[tuple[int, str, str]] = []
    for name, of_class in changes.items():
        ranked = plan_oracle.rank_changes(of_class, [event.record_id for event in events])
        own = classes.rules_of(classes.tables[name], rules, names)
        planned = plan_oracle.plan(ranked, own, frozenset())
        published = set[int]()
        for at, obj, text, rows in planned.documents:
            documents.append((at, names[obj], text))
            published |= set(rows)
        for row, (outcome, reason, _) in planned.fates.items():
            if row not in published:
                fates[row] = f"{outcome}: {reason}"
    return sorted(documents), fates


def object_of(table: PlainTable, row: DataRow) -> Object:
    """The object of a row, or of a key: columns by code points, numbers without zeros in front."""
    return Object(SCHEMA, table.name, _key_text(table, row, sorted(table.key)))


def association(table: PlainTable, row: DataRow) -> str:
    """The association of an object: its key in the order of columns, table and schema."""
    return f"{_key_text(table, row, table.key)},table={quote(table.name)},schema={SCHEMA}"


def _key_text(table: PlainTable, row: DataRow, columns: Iterable[str]) -> str:
    values = [(name, _canonical(table, name, str(row[name]))) for name in columns]
    return "+".join(f"{quote(name)}={quote(value)}" for name, value in values)


def quote(text: str) -> str:
    if text and text == text.strip() and not any(mark in text for mark in ",;'+\"=\\<>"):
        return text
    inside = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inside}"'


def _canonical(table: PlainTable, column: str, text: str) -> str:
    return _whole(text) if table.kinds[column] == "int" else text


def _whole(text: str) -> str:
    try:
        return str(int(text))
    except ValueError:
        raise Unusable("value") from None


def _values(row: DataRow, parent: PlainTable, child: PlainTable, column: str) -> set[str]:
    """The values of a child's column that belong to a row of its parent."""
    owner = child.owner
    assert owner is not None
    target = owner.target or parent.key
    found = {
        one[column]
        for one in child.rows
        if all(one[own] == row[key] for own, key in zip(owner.columns, target, strict=True))
    }
    return {value for value in found if value is not None}


def _reference_to(target: PlainTable, text: str) -> Callable[[str], str]:
    (key,) = target.key

    def write(value: str) -> str:
        name = association(target, {key: value})
        shown = {"association": name, "key": _key_text(target, {key: value}, [key]), "empty": ""}
        return (
            f'<value type="dn" association-ref="{attribute_in_xml(name)}">'
            f"{text_in_xml(shown[text])}</value>"
        )

    return write
