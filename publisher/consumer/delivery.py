"""A document as it arrives: its operations, its place, and the headers of its record."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from publisher.consumer.errors import NOWHERE, DocumentError, Origin
from publisher.consumer.operations import ModifyAssociation, Operation
from publisher.consumer.parse import DEFAULT_LIMITS, Limits, parse_document

Headers = Iterable[tuple[str, bytes | None]]
_REKEYED = "read the topic that the publisher writes; a record with another key loses its order"


class KeyChange(NamedTuple):
    """The associations of a document that is sent under both of them."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """One arrived document."""

    operations: tuple[Operation, ...]
    origin: Origin = NOWHERE
    key: str | None = None
    """Association under which the document was sent; ``None`` in files and for heartbeats."""
    event_id: str | None = None
    record_ids: tuple[str, ...] = ()
    """Positions of the source records that the document contains."""
    recovered: bool = False
    """Whether the topic may already have the document."""
    key_change: KeyChange | None = None
    """Set if this is one of the two copies of a key change."""
    at_end: bool = False
    """Whether this is no document, but the last mark of a transaction at the end of a partition."""
    topic_id: str = ""
    """The id of the topic, another one once the topic was created again; empty if it is not known."""
    digest: str = field(default="", repr=False, compare=False)
    """Digest of the record's value; equal events have equal digests."""

    @property
    def is_heartbeat(self) -> bool:
        """Returns whether the document only shows that the publisher works."""
        return not self.operations and not self.at_end


def from_record(
    value: bytes | None,
    key: bytes | None,
    headers: Headers,
    origin: Origin = NOWHERE,
    limits: Limits = DEFAULT_LIMITS,
) -> Delivery:
    """Reads a Kafka record.

    Raises:
        DocumentError: It is not a record of the publisher.
    """
    if value is None:
        raise DocumentError(origin, "the record has no value: documents are never tombstones")
    operations = parse_document(value, origin, limits)
    texts = _decode(headers, origin)
    key_text = None if key is None else _text(key, "the key", origin)
    _check_key(operations, key_text, origin)
    return Delivery(
        operations,
        origin,
        key_text,
        texts.get("event-id"),
        tuple(texts["record-ids"].split(",")) if "record-ids" in texts else (),
        "recovered" in texts,
        _key_change(operations, texts, origin),
        digest=_digest(value),
    )


def digest_of(delivery: Delivery) -> str:
    """Returns the digest of a document, also of one that was not read from a record."""
    return delivery.digest or _digest(repr(delivery.operations).encode())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _decode(headers: Headers, origin: Origin) -> dict[str, str]:
    return {name: _text(value or b"", f"header {name}", origin) for name, value in headers}


def _text(data: bytes, name: str, origin: Origin) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(origin, f"{name} is not UTF-8: {_REKEYED}") from error


def _check_key(operations: tuple[Operation, ...], key: str | None, origin: Origin) -> None:
    """Refuses a record whose key is not the association: its order would be that of other objects."""
    for operation in operations:
        names = (
            (operation.old, operation.new)
            if isinstance(operation, ModifyAssociation)
            else (operation.association,)
        )
        if key not in names:
            raise DocumentError(origin, f"the key {key!r} is not {' or '.join(names)}: {_REKEYED}")


def _key_change(
    operations: tuple[Operation, ...], headers: Mapping[str, str], origin: Origin
) -> KeyChange | None:
    """Returns the two keys of the record's copies; ``None`` if there is a single record."""
    named = KeyChange(headers.get("key-from", ""), headers.get("key-to", ""))
    changes = [KeyChange(o.old, o.new) for o in operations if isinstance(o, ModifyAssociation)]
    if not any(named) and not changes:
        return None
    if changes != [named] or len(operations) != 1 or "event-id" not in headers:
        raise DocumentError(
            origin,
            "a change of a key needs one <modify-association> with its keys in the headers key-from and "
            f"key-to, and the header event-id: {_REKEYED}",
        )
    return None if named.old == named.new else named
