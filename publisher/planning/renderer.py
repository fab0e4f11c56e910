"""What remains of an object's poll, as operations and documents.

Consecutive per-field events that give the same kind of operation become one operation, attributes
in the order of positions; a change that speaks of a whole row is an operation by itself.  Up to
``batch_size`` consecutive operations of the object and poll share a document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from publisher.errors import TableRefusedError
from publisher.model.catalogue import Catalogue, Table
from publisher.model.change import (
    PER_FIELD,
    PER_FIELD_LOGGED,
    QUERY_BACK,
    Change,
    Decision,
    Document,
    Object,
    Outcome,
    Position,
    Reason,
    rejected,
)
from publisher.model.keys import IdentifierCase, parse
from publisher.planning.filters import Filter
from publisher.planning.polls import ObjectPoll
from publisher.planning.query_back import Answer, Refused, Row
from publisher.xds.association import association, key_text
from publisher.xds.document import DocumentOptions, Envelope, operation
from publisher.xds.escape import ValueProblem, escape_attribute, escape_text
from publisher.xds.operations import MEANINGS, OperationKind
from publisher.xds.values import Converter, Values

_READS_REMEMBERED = 4096


class Rendered(NamedTuple):
    """Documents, each with the rank of its first change, and decisions on what gave none."""

    documents: list[tuple[int, Document]]
    decisions: list[Decision]


class Piece(NamedTuple):
    """What one change contributes: the kind of its operation and an element for each attribute."""

    change: Change
    kind: OperationKind
    attributes: tuple[str, ...]


class Prepared(NamedTuple):
    """What the log itself says of an object's poll, before precedence and look-up.

    ``pieces`` and ``problems`` are by the rows of their changes; a change with a problem is rejected.
    """

    association: str
    pieces: dict[int, Piece]
    problems: dict[int, ValueProblem]


class Column(NamedTuple):
    """A column of a table, ready for rendering: its name as an attribute's text, its values."""

    name: str
    convert: Converter
    wanted: bool


@dataclass(frozen=True, slots=True)
class Naming:
    """How a source names things: itself, its positions, the case of identifiers."""

    source: str
    position_text: Callable[[Position], str] = Position.text
    identifier_case: IdentifierCase = IdentifierCase.DATABASE


class Renderer:
    """Renders what remains of the polls of one source."""

    def __init__(
        self,
        naming: Naming,
        options: DocumentOptions,
        envelope: Envelope,
        values: Values,
        filter_: Filter,
        catalogue: Catalogue,
    ) -> None:
        self._naming = naming
        self._options = options
        self._envelope = envelope
        self._values = values
        self._filter = filter_
        self._catalogue = catalogue
        self.meanings = MEANINGS[options.insert_query_back]
        """What the event types give."""
        self._tables: dict[tuple[str | None, str], dict[str, Column]] = {}
        self._read: dict[tuple[object, ...], Sequence[tuple[int, Column]]] = {}

    @property
    def source(self) -> str:
        """Name of the source."""
        return self._naming.source

    @property
    def makes_plain_documents(self) -> bool:
        """Whether a document is one operation and nothing in it is of its change alone."""
        return self._options.batch_size == 1 and not self._options.event_id

    def prepare(self, changes: Sequence[Change]) -> Prepared:
        """Renders what the log itself says of the changes of one object."""
        pieces: dict[int, Piece] = {}
        problems: dict[int, ValueProblem] = {}
        if not changes:
            return Prepared("", pieces, problems)
        try:
            name = self._association(changes[0].object)
        except ValueProblem as problem:
            return Prepared("", pieces, {change.row: problem for change in changes})
        for change in changes:
            try:
                if change.event_type in PER_FIELD_LOGGED:
                    pieces[change.row] = self._logged(change)
                else:
                    _check_names(change)
            except ValueProblem as problem:
                problems[change.row] = problem
        return Prepared(name, pieces, problems)

    def render(
        self, poll: ObjectPoll, kept: Sequence[Change], prepared: Prepared, answer: Answer
    ) -> Rendered:
        """Documents of ``kept``, the changes of an object that precedence left, in order.

        ``answer`` is the row where one was looked up.
        """
        decisions: list[Decision] = []
        pieces: list[Piece] = []
        for change in kept:
            found = prepared.pieces.get(change.row) or self._piece(change, answer)
            if isinstance(found, Decision):
                decisions.append(found)
            elif found.kind == "modify" and not found.attributes:
                decisions.append(Decision(change.row, Outcome.IGNORED, Reason.NOTHING_TO_PUBLISH))
            else:
                pieces.append(found)
        return Rendered(self._documents(poll, prepared.association, pieces), decisions)

    def plain_text(self, event_type: int, table: str, association: str, attributes: str) -> str:
        """A document of one operation, whose attributes are XML already.  Raises ``ValueProblem``.

        Only where ``makes_plain_documents``.
        """
        kind = self.meanings[event_type].operation
        return self._envelope.document((operation(kind, table, association, (attributes,)),))

    def is_in_row(self, change: Change) -> bool:
        """Whether a query-back of the row publishes the columns of a per-field event.

        It publishes neither columns of the key nor those of child tables."""
        obj = change.object
        table = self._catalogue.table(obj.schema, obj.table)
        key = {part.column.casefold() for part in parse(obj.key)}
        return all(
            name.casefold() not in key
            and ("." not in name or (table is not None and table.column(name) is not None))
            for name in change.columns
        )

    def key_text(self, obj: Object) -> str:
        """The association's part for the key."""
        return key_text(obj.key, self._key_order(obj))

    def position_text(self, change: Change) -> str:
        """The position of a change as users of its source write it."""
        return self._naming.position_text(change.position)

    def position_of(self, position: Position) -> str:
        """A position as users of the source write it."""
        return self._naming.position_text(position)

    def rejected(self, change: Change, reason: Reason, detail: str) -> Decision:
        """The decision that rejects a change."""
        return rejected(change, self.position_text(change), reason, detail)

    def _piece(self, change: Change, answer: Answer) -> Piece | Decision:
        """The piece of a delete or of a query-back."""
        if change.event_type not in QUERY_BACK:
            return Piece(change, "delete", ())
        if answer is None:
            return Decision(change.row, Outcome.IGNORED, Reason.ROW_GONE)
        if isinstance(answer, Refused):
            return self.rejected(change, answer.reason, answer.detail)
        try:
            return self._looked_up(change, answer)
        except ValueProblem as problem:
            return self.rejected(change, problem.reason, problem.detail)

    def _logged(self, change: Change) -> Piece:
        meaning = self.meanings[change.event_type]
        obj = change.object
        columns = self._tables.get(obj[:2])
        if columns is None:
            columns = self._tables[obj[:2]] = {}
        attributes: list[str] = []
        for place, name in enumerate(change.columns):
            column = columns.get(name)
            if column is None:
                column = columns[name] = self._column(obj, name)
            if column.wanted:
                old = change.old[place] if change.old is not None else None
                new = change.new[place] if change.new is not None else None
                element = meaning.part(
                    column.name,
                    column.convert(old) if old is not None else None,
                    column.convert(new) if new is not None else None,
                )
                if element:
                    attributes.append(element)
        return Piece(change, meaning.operation, tuple(attributes))

    def _looked_up(self, change: Change, row: Row) -> Piece:
        """A query-back with the current values: of the named columns, or of all but the key."""
        meaning = self.meanings[change.event_type]
        part, values = meaning.part, row.values
        attributes: list[str] = []
        for place, column in self.read_columns(
            change.object, change.event_type, change.columns, row.columns
        ):
            value = values[place]
            xml = None if value is None else column.convert(value)
            attributes.append(part(column.name, None, xml))
        return Piece(change, meaning.operation, tuple(filter(None, attributes)))

    def read_columns(
        self, obj: Object, event_type: int, named: tuple[str, ...], columns: tuple[str, ...]
    ) -> Sequence[tuple[int, Column]]:
        """The columns of a row that a query-back publishes, each with its place in ``columns``.

        ``named`` are those that its change names.  Raises ``ValueProblem``.
        """
        per_field = event_type in PER_FIELD
        names = named if per_field else tuple([part[0] for part in parse(obj.key)])
        key = (obj.schema, obj.table, per_field, names, columns)
        known = self._read.get(key)
        if known is None:
            if len(self._read) >= _READS_REMEMBERED:
                self._read.clear()
            known = self._read[key] = self._columns_read(obj, per_field, names, columns)
        return known

    def _columns_read(
        self, obj: Object, per_field: bool, names: Sequence[str], columns: tuple[str, ...]
    ) -> Sequence[tuple[int, Column]]:
        named: set[str] = set()
        for name in names:
            found = _alike(name, columns)
            if per_field and not found:
                raise ValueProblem(
                    Reason.COLUMN_NAME,
                    f"table {obj.table!r} has no column {name!r}: {_advice(name)}",
                )
            named.update(found)
        case = self._naming.identifier_case
        read = [
            (place, self.column(obj, case.apply(name, name)))
            for place, name in enumerate(columns)
            if (name in named) is per_field
        ]
        return [(place, column) for place, column in read if column.wanted]

    def column(self, obj: Object, name: str) -> Column:
        """A column of the object's table.  Raises ``ValueProblem`` where XML forbids its name."""
        columns = self._tables.setdefault(obj[:2], {})
        if name not in columns:
            columns[name] = self._column(obj, name)
        return columns[name]

    def _column(self, obj: Object, name: str) -> Column:
        table = self._known_table(obj)
        known = None if table is None else table.column(name)
        kind = None if known is None or table is None else table.columns[known]
        padded = table is not None and known in table.padded
        return Column(
            escape_attribute(name),
            self._values.converter(kind, padded),
            self._filter.column_wanted(obj.table, name),
        )

    def _known_table(self, obj: Object) -> Table | None:
        """Describe the object's table.  Raises ``ValueProblem`` where the database refuses that."""
        try:
            return self._catalogue.table(obj.schema, obj.table)
        except TableRefusedError as refused:
            raise ValueProblem(Reason.DATABASE_REFUSED, refused.message) from None

    def _association(self, obj: Object) -> str:
        """The association of an object.  Raises ``ValueProblem`` where XML forbids a name of it."""
        text = association(obj, self._key_order(obj))
        escape_text(text, "the key")
        escape_attribute(obj.table)
        return text

    def _key_order(self, obj: Object) -> tuple[str, ...]:
        """Columns of the primary key in their order, where they are several."""
        if "+" not in obj.key:
            return ()
        table = self._known_table(obj)
        return table.key if table is not None else ()

    def _documents(
        self, poll: ObjectPoll, name: str, pieces: list[Piece]
    ) -> list[tuple[int, Document]]:
        operations = _grouped(pieces) if len(pieces) > 1 else [pieces] if pieces else []
        size = self._options.batch_size
        batches = [operations[start : start + size] for start in range(0, len(operations), size)]
        return [(batch[0][0].change.rank, self._document(poll, name, batch)) for batch in batches]

    def _document(self, poll: ObjectPoll, name: str, batch: list[list[Piece]]) -> Document:
        texts = []
        for pieces in batch:
            event_id = self._event_id(pieces[0].change.position) if self._options.event_id else None
            parts = [element for piece in pieces for element in piece.attributes]
            texts.append(operation(pieces[0].kind, poll.object.table, name, parts, event_id))
        changes = [piece.change for pieces in batch for piece in pieces]
        position_text = self._naming.position_text
        first = changes[0].position
        records = [position_text(change.position) for change in changes]
        event_id = f"{self._naming.source}:{records[0]}"
        return Document(
            poll.object,
            first,
            poll.number,
            " ".join([pieces[0].kind for pieces in batch]),
            name,
            f"{event_id}.{first.ordinal}" if first.ordinal else event_id,
            self._envelope.document(texts),
            tuple([change.row for change in changes]),
            ",".join(records),
        )

    def _event_id(self, position: Position) -> str:
        """Stable over runs, and unique within the source."""
        text = f"{self._naming.source}:{self._naming.position_text(position)}"
        return f"{text}.{position.ordinal}" if position.ordinal else text


def _advice(column: str) -> str:
    if "." in column:
        return "columns of child tables are not read back, log their values (types 1 to 3)"
    return "fix the trigger that logs it"


def _alike(name: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The column of this name, else those whose names differ from it in case alone."""
    if name in columns:
        return (name,)
    return tuple([column for column in columns if column.lower() == name.lower()])


def _check_names(change: Change) -> None:
    for name in change.columns:
        escape_attribute(name)


def _grouped(pieces: list[Piece]) -> list[list[Piece]]:
    """Pieces of one operation together."""
    groups: list[list[Piece]] = []
    kind, joinable = "", False
    for piece in pieces:
        per_field = piece.change.event_type in PER_FIELD
        if joinable and per_field and piece.kind == kind:
            groups[-1].append(piece)
        else:
            groups.append([piece])
            kind, joinable = piece.kind, per_field
    return groups
