"""Renders the remaining changes of an object's poll as operations, which ``drafts`` groups into documents."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from publisher.model.catalogue import Catalogue
from publisher.model.change import (
    PER_FIELD,
    PER_FIELD_LOGGED,
    QUERY_BACK,
    Change,
    Decision,
    Document,
    EventType,
    Object,
    Outcome,
    Position,
    Reason,
    reject,
)
from publisher.model.classes import ClassOptions
from publisher.model.key_changes import object_after
from publisher.model.keys import parse
from publisher.model.names import equal_in_any_case
from publisher.planning.drafts import DocumentComposer, Draft, OperationPiece, SourceNaming
from publisher.planning.filters import Filter
from publisher.planning.polls import ObjectPoll
from publisher.planning.query_back import Answer, CurrentRow, RefusedLookup
from publisher.planning.rendered_columns import ColumnRenderer, RenderedColumn
from publisher.xds.association import association, key_text
from publisher.xds.document import DocumentOptions, Envelope, operation
from publisher.xds.escape import ValueProblem, escape_attribute, escape_text, refuse_long
from publisher.xds.operations import MEANINGS
from publisher.xds.values import Values

_READS_REMEMBERED = 4096


class Rendered(NamedTuple):
    """Drafts of documents, and decisions on changes without a document."""

    drafts: list[Draft]
    decisions: list[Decision]


class PreparedPoll(NamedTuple):
    """The logged values of an object's poll, rendered before precedence and look-up.

    ``pieces`` and ``problems`` are keyed by the rows of their changes; a change with a problem is
    rejected.
    """

    association: str
    pieces: dict[int, OperationPiece]
    problems: dict[int, ValueProblem]


class Renderer:
    """Renders the polls of one source."""

    def __init__(
        self,
        naming: SourceNaming,
        options: DocumentOptions,
        envelope: Envelope,
        values: Values,
        filter_: Filter,
        catalogue: Catalogue,
        classes: ClassOptions | None = None,
    ) -> None:
        self._naming = naming
        self._options = options
        self._envelope = envelope
        self._composer = DocumentComposer(naming, options, envelope)
        self._catalogue = catalogue
        self._classes = classes or ClassOptions()
        self.meanings = MEANINGS[options.insert_query_back]
        """Operation and attribute parts of each event type."""
        self._columns = ColumnRenderer(naming.identifier_case, values, filter_, catalogue)
        self._read: dict[tuple[object, ...], Sequence[tuple[int, RenderedColumn]]] = {}

    @property
    def id_prefix(self) -> str:
        """The beginning of event ids, up to the position."""
        return self._naming.id_prefix

    @property
    def has_uniform_documents(self) -> bool:
        """True if a document is one operation and depends on object and attributes alone."""
        options = self._options
        names_objects = options.event_id or self._naming.origin.by_object
        return options.batch_size == 1 and not names_objects

    def prepare(self, changes: Sequence[Change]) -> PreparedPoll:
        """Renders the logged values of the changes of one object."""
        pieces: dict[int, OperationPiece] = {}
        problems: dict[int, ValueProblem] = {}
        if not changes:
            return PreparedPoll("", pieces, problems)
        try:
            name = self._association(changes[0].object)
        except ValueProblem as problem:
            return PreparedPoll("", pieces, {change.row: problem for change in changes})
        for change in changes:
            try:
                if change.event_type in PER_FIELD_LOGGED:
                    pieces[change.row] = self._render_values(change)
                elif change.event_type == EventType.KEY_CHANGE:
                    renamed = self._association(object_after(change))
                    pieces[change.row] = OperationPiece(change, "modify-association", (), renamed)
                else:
                    for column in change.columns:
                        self.column(change.object, column)
            except ValueProblem as problem:
                problems[change.row] = problem
        return PreparedPoll(name, pieces, problems)

    def render(
        self, poll: ObjectPoll, remaining: Sequence[Change], prepared: PreparedPoll, answer: Answer
    ) -> Rendered:
        """Renders the changes of an object that remain after precedence, in order.

        ``answer`` is the answer to the look-up, if there was one.
        """
        decisions: list[Decision] = []
        pieces: list[OperationPiece] = []
        for change in remaining:
            piece = prepared.pieces.get(change.row) or self._render_piece(change, answer)
            if isinstance(piece, Decision):
                decisions.append(piece)
            elif piece.kind == "modify" and not piece.attributes:
                decisions.append(Decision(change.row, Outcome.IGNORED, Reason.NOTHING_TO_PUBLISH))
            else:
                pieces.append(piece)
        drafts = self._composer.drafts(poll, prepared.association, pieces)
        return Rendered(list(drafts), decisions)

    def document(self, draft: Draft) -> Document:
        """Composes the document of a draft."""
        return self._composer.document(draft)

    def uniform_document(
        self, event_type: int, table: str, association: str, attributes: str
    ) -> str:
        """Renders a document of one operation, if ``has_uniform_documents``; ``attributes`` is XML.

        Raises ``ValueProblem``."""
        kind = self.meanings[event_type].operation
        return self._envelope.document((operation(kind, table, association, (attributes,)),))

    def check_table(self, obj: Object) -> None:
        """Raises ``ValueProblem`` if an object's table, or its class, is refused."""
        self._columns.known_table(obj)

    def is_in_row(self, change: Change) -> bool:
        """Returns whether a query-back of the row publishes the columns of a per-field event.

        A query-back of the row publishes the attributes of the class, but no columns of the key and of other
        tables."""
        obj = change.object
        table = self._catalogue.table(obj.schema, obj.table)
        key = {part.column.casefold() for part in parse(obj.key)}
        return all(
            name.casefold() not in key
            and ("." not in name or (table is not None and table.column(name) is not None))
            for name in change.columns
        )

    def ends_with_delete(self, change: Change) -> bool:
        """Returns whether a per-field event is ignored after the delete of its object."""
        return self._classes.child_after_delete == "ignore" and any(
            self.column(change.object, name).is_multiple for name in change.columns
        )

    def inserts_row(self, change: Change) -> bool:
        """Returns whether an insert concerns the object's own row, not only rows of its child tables."""
        columns = [self.column(change.object, name) for name in change.columns]
        return not columns or not all(column.is_multiple for column in columns)

    def ends_children(self, obj: Object) -> bool:
        """Returns whether updates of an object's child tables are ignored after its delete."""
        is_set = self._classes.child_after_delete == "ignore"
        with suppress(ValueProblem):  # its changes are rejected
            table = self._columns.known_table(obj) if is_set else None
            return table is not None and any(map(table.is_multiple, table.columns))
        return False

    def associations(self, change: Change) -> list[str]:
        """The associations of a change's object, before and after it; none that cannot be written."""
        objects = [change.object]
        if change.event_type == EventType.KEY_CHANGE:
            objects.append(object_after(change))
        names = []
        for obj in objects:
            with suppress(ValueProblem):  # no document has it
                names.append(self._association(obj))
        return names

    def key_text(self, obj: Object) -> str:
        """The key part of the association."""
        return key_text(obj.key, self._key_order(obj))

    def position_text(self, change: Change) -> str:
        """The position of a change in the notation of its source."""
        return self._naming.position_text(change.position)

    def position_of(self, position: Position) -> str:
        """A position in the notation of the source."""
        return self._naming.position_text(position)

    def reject(self, change: Change, reason: Reason, detail: str) -> Decision:
        """The decision that rejects a change."""
        if reason is Reason.LONG_VALUE:
            detail = f"{association(change.object)[:80]}: {detail}"
        return reject(change, self.position_text(change), reason, detail)

    def _render_piece(self, change: Change, answer: Answer) -> OperationPiece | Decision:
        """Renders a delete or a query-back."""
        if change.event_type not in QUERY_BACK:
            return OperationPiece(change, "delete", ())
        if answer is None:
            return Decision(change.row, Outcome.IGNORED, Reason.ROW_GONE)
        if isinstance(answer, RefusedLookup):
            return self.reject(change, answer.reason, answer.detail)
        try:
            return self._render_current(change, answer)
        except ValueProblem as problem:
            return self.reject(change, problem.reason, problem.detail)

    def _render_values(self, change: Change) -> OperationPiece:
        meaning = self.meanings[change.event_type]
        obj = change.object
        columns = self._columns.of_table(obj)
        attributes: list[str] = []
        joins_values = change.event_type == EventType.REPLACE_FIELD
        joined = ""
        for place, name in enumerate(change.columns):
            column = columns.get(name)
            if column is None:
                column = self._columns.column(obj, name)
            if column.is_published:
                old = change.old[place] if change.old is not None else None
                new = change.new[place] if change.new is not None else None
                current = column.convert_current(new)
                if joins_values and change.columns[place + 1 : place + 2] == (name,):
                    joined += current or ""
                    continue
                if joined:
                    current, joined = joined + (current or ""), ""
                element = meaning.part(column.name, column.convert_current(old), current)
                if element:
                    attributes.append(element)
        return OperationPiece(change, meaning.operation, tuple(attributes))

    def _render_current(self, change: Change, row: CurrentRow) -> OperationPiece:
        """Renders a query-back with current values: of the named columns, or of all except the key."""
        meaning = self.meanings[change.event_type]
        part, values = meaning.part, row.values
        attributes: list[str] = []
        for place, column in self.read_columns(
            change.object, change.event_type, change.columns, row.columns
        ):
            value = values[place]
            xml = column.convert_current(value)
            attributes.append(part(column.name, None, xml))
        return OperationPiece(change, meaning.operation, tuple(filter(None, attributes)))

    def read_columns(
        self, obj: Object, event_type: int, named: tuple[str, ...], columns: tuple[str, ...]
    ) -> Sequence[tuple[int, RenderedColumn]]:
        """The columns of a row that a query-back publishes, each with its index in ``columns``.

        ``named`` are the columns of its change.  Raises ``ValueProblem``.
        """
        per_field = event_type in PER_FIELD
        names = named if per_field else tuple([part[0] for part in parse(obj.key)])
        key = (obj.schema, obj.table, per_field, names, columns)
        read = self._read.get(key)
        if read is None:
            if len(self._read) >= _READS_REMEMBERED:
                self._read.clear()
            read = self._read[key] = self._find_read_columns(obj, per_field, names, columns)
        return read

    def _find_read_columns(
        self, obj: Object, per_field: bool, names: Sequence[str], columns: tuple[str, ...]
    ) -> Sequence[tuple[int, RenderedColumn]]:
        named: set[str] = set()
        for name in names:
            matches = _same_name(name, columns)
            if per_field and not matches:
                raise ValueProblem(
                    Reason.COLUMN_NAME,
                    f"table {obj.table!r} has no column {name!r}: {_advice(name)}",
                )
            named.update(matches)
        case = self._naming.identifier_case
        read = [
            (place, self.column(obj, case.apply(name, name)))
            for place, name in enumerate(columns)
            if (name in named) is per_field
        ]
        return [(place, column) for place, column in read if column.is_published]

    def column(self, obj: Object, name: str) -> RenderedColumn:
        """A column of the object's table.  Raises ``ValueProblem`` if XML forbids its name."""
        return self._columns.column(obj, name)

    def _association(self, obj: Object) -> str:
        """The association of an object.  Raises ``ValueProblem`` if XML forbids a name in it."""
        text = association(obj, self._key_order(obj))
        escape_text(text, "the key")
        if self._options.value_format == "xml":
            refuse_long(text, "the key")
        escape_attribute(obj.table)
        return text

    def _key_order(self, obj: Object) -> tuple[str, ...]:
        """Columns of a compound primary key in their order."""
        if "+" not in obj.key:
            return ()
        table = self._columns.known_table(obj)
        return table.key if table is not None else ()


def _advice(column: str) -> str:
    if "." in column:
        return "make it a column of a child table of the class, which the command classes shows"
    return "fix the trigger that logs it"


def _same_name(name: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The column of this name, else the columns whose names differ only in case."""
    same = [column for column in columns if equal_in_any_case(column, name)]
    return (name,) if name in columns else tuple(same)
