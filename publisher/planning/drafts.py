"""Groups the operations of an object's poll into drafts of documents, and composes the documents.

Consecutive per-field events with the same kind of operation become one operation, attributes
in the order of positions; a change of a whole row is an operation by itself.  Up to
``batch_size`` consecutive operations of the object and poll share a document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from publisher.model.change import PER_FIELD, Change, Document, EventType, Position
from publisher.model.event_ids import IdOrigin
from publisher.model.keys import IdentifierCase
from publisher.planning.polls import ObjectPoll
from publisher.xds.document import DocumentOptions, Envelope, operation
from publisher.xds.operations import OperationKind

_JOINED = PER_FIELD | {EventType.KEY_CHANGE}
"""Event types whose consecutive changes of one kind become one operation."""


@dataclass(frozen=True, slots=True)
class SourceNaming:
    """The name of a source, the origin of its event ids, the notation of its positions, and the case of
    its identifiers."""

    source: str
    position_text: Callable[[Position], str] = Position.text
    identifier_case: IdentifierCase = IdentifierCase.DATABASE
    joins_keys: bool = False
    """True if changes of keys are published: a delete then ends its document, because another object may
    get the key before the next operation."""
    origin: IdOrigin = field(kw_only=True)

    @property
    def id_prefix(self) -> str:
        """The beginning of event ids that do not name the object."""
        return f"{self.origin.prefix(self.source)}:"


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
        self._id_prefix = naming.id_prefix
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
            event_id = self._event_id(draft, pieces[0].change) if self._options.event_id else None
            parts = [element for piece in pieces for element in piece.attributes]
            kind, renamed = pieces[0].kind, pieces[0].new_association
            table = draft.poll.object.table
            texts.append(operation(kind, table, draft.association, parts, event_id, renamed))
        changes = [piece.change for pieces in draft.operations for piece in pieces]
        records = [self._naming.position_text(change.position) for change in changes]
        return Document(
            draft.poll.object,
            draft.first.position,
            draft.poll.number,
            " ".join([pieces[0].kind for pieces in draft.operations]),
            draft.association,
            self._event_id(draft, draft.first),
            self._envelope.document(texts),
            tuple([change.row for change in changes]),
            ",".join(records),
            draft.operations[0][0].new_association,
        )

    def _event_id(self, draft: Draft, first: Change) -> str:
        """The id of a document or operation that begins with a change."""
        naming, position, prefix = self._naming, first.position, self._id_prefix
        if naming.origin.by_object:
            prefix = f"{naming.origin.prefix_of(naming.source, draft.poll.object)}:"
        text = f"{prefix}{naming.position_text(position)}"
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
