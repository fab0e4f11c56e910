"""Groups the operations of an object's poll into drafts of documents, and composes the documents.

Consecutive per-field events with the same kind of operation become one operation, attributes
in the order of positions; a change of a whole row is an operation by itself.  Up to
``batch_size`` consecutive operations of the object and poll share a document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from publisher.model.change import PER_FIELD, Change, Document, EventType, Position
from publisher.model.keys import IdentifierCase
from publisher.planning.polls import ObjectPoll
from publisher.xds.document import DocumentOptions, Envelope, operation
from publisher.xds.operations import OperationKind

_JOINED = PER_FIELD | {EventType.KEY_CHANGE}
"""Event types whose consecutive changes of one kind become one operation."""


@dataclass(frozen=True, slots=True)
class SourceNaming:
    """The name of a source, the notation of its positions, and the case of its identifiers."""

    source: str
    position_text: Callable[[Position], str] = Position.text
    identifier_case: IdentifierCase = IdentifierCase.DATABASE
    joins_keys: bool = False
    """True if changes of keys are published: a delete then ends its document, because another object may
    get the key before the next operation."""


class OperationPiece(NamedTuple):
    """The contribution of one change: the kind of its operation and an element for each attribute.

    ``new_association`` is the association after a change of the key."""

    change: Change
    kind: OperationKind
    attributes: tuple[str, ...]
    new_association: str | None = None


class Draft(NamedTuple):
    """The operations of one document; each consists of the pieces of one or more changes."""

    poll: ObjectPoll
    association: str
    operations: list[list[OperationPiece]]

    @property
    def first(self) -> Change:
        """The first change of the document."""
        return self.operations[0][0].change


class DocumentComposer:
    """Composes the documents of one source."""

    def __init__(self, naming: SourceNaming, options: DocumentOptions, envelope: Envelope) -> None:
        self._naming = naming
        self._options = options
        self._envelope = envelope

    def drafts(
        self, poll: ObjectPoll, association: str, pieces: list[OperationPiece]
    ) -> Iterator[Draft]:
        """Groups the pieces of an object's poll."""
        operations = _group(pieces) if len(pieces) > 1 else [pieces] if pieces else []
        batch: list[list[OperationPiece]] = []
        for group in operations:
            is_ended = self._naming.joins_keys and batch and batch[-1][0].kind == "delete"
            if batch and (is_ended or len(batch) == self._options.batch_size):
                yield Draft(poll, association, batch)
                batch = []
            batch.append(group)
        if batch:
            yield Draft(poll, association, batch)

    def document(self, draft: Draft) -> Document:
        """Composes the document of a draft."""
        texts = []
        for pieces in draft.operations:
            event_id = self._event_id(pieces[0].change.position) if self._options.event_id else None
            parts = [element for piece in pieces for element in piece.attributes]
            kind, renamed = pieces[0].kind, pieces[0].new_association
            table = draft.poll.object.table
            texts.append(operation(kind, table, draft.association, parts, event_id, renamed))
        changes = [piece.change for pieces in draft.operations for piece in pieces]
        first = draft.first.position
        records = [self._naming.position_text(change.position) for change in changes]
        event_id = f"{self._naming.source}:{records[0]}"
        return Document(
            draft.poll.object,
            first,
            draft.poll.number,
            " ".join([pieces[0].kind for pieces in draft.operations]),
            draft.association,
            f"{event_id}.{first.ordinal}" if first.ordinal else event_id,
            self._envelope.document(texts),
            tuple([change.row for change in changes]),
            ",".join(records),
            draft.operations[0][0].new_association,
        )

    def _event_id(self, position: Position) -> str:
        """An id that is stable over runs and unique within the source."""
        text = f"{self._naming.source}:{self._naming.position_text(position)}"
        return f"{text}.{position.ordinal}" if position.ordinal else text


def _group(pieces: Sequence[OperationPiece]) -> list[list[OperationPiece]]:
    """Groups pieces by operation."""
    groups: list[list[OperationPiece]] = []
    kind, joinable = "", False
    for piece in pieces:
        can_join = piece.change.event_type in _JOINED
        if joinable and can_join and piece.kind == kind:
            groups[-1].append(piece)
        else:
            groups.append([piece])
            kind, joinable = piece.kind, can_join
    return groups
