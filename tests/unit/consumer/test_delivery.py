"""Records of a topic: headers, keys, and the two copies of a key change."""

from __future__ import annotations

import pytest

from publisher.consumer import Delete, Delivery, DocumentError, KeyChange, ModifyAssociation, Origin
from publisher.consumer.delivery import from_record
from publisher.xds.document import Envelope, EnvelopeOptions, operation

ORIGIN = Origin("xds/2", 17)
ENVELOPE = Envelope(EnvelopeOptions())
DELETE = ENVELOPE.document([operation("delete", "usr", "idu=1")]).encode()
RENAME = ENVELOPE.document(
    [
        (
            "<modify-association><association>idu=1</association><association>idu=5</association>"
            "</modify-association>"
        )
    ]
).encode()
HEADERS = (
    ("event-id", b"hr:5"),
    ("source", b"hr"),
    ("position", b"5"),
    ("operation", b"delete"),
    ("class-name", b"usr"),
    ("record-ids", b"5,6"),
)
KEYS = (("key-from", b"idu=1"), ("key-to", b"idu=5"))


def test_a_record_is_read_with_its_headers() -> None:
    delivery = from_record(DELETE, b"idu=1", [*HEADERS, ("recovered", b"at-least-once")], ORIGIN)
    operations = (Delete("idu=1", "usr"),)
    assert delivery == Delivery(operations, ORIGIN, "idu=1", "hr:5", ("5", "6"), True)
    assert not from_record(DELETE, b"idu=1", HEADERS).recovered


def test_a_heartbeat_is_told_apart() -> None:
    headers = [("event-id", b"job:heartbeat:1"), ("operation", b"heartbeat")]
    delivery = from_record(ENVELOPE.document([]).encode(), None, headers, ORIGIN)
    assert delivery == Delivery((), ORIGIN, None, "job:heartbeat:1")
    assert delivery.is_heartbeat


@pytest.mark.parametrize("key", ["idu=1", "idu=5"])
def test_a_key_change_comes_under_both_keys(key: str) -> None:
    delivery = from_record(RENAME, key.encode(), [*HEADERS, *KEYS], ORIGIN)
    assert delivery.operations == (ModifyAssociation("idu=1", "idu=5"),)
    assert (delivery.key, delivery.key_change) == (key, KeyChange("idu=1", "idu=5"))


def test_a_key_that_stays_is_no_change() -> None:
    document = RENAME.replace(b"idu=5", b"idu=1")
    keys = [("key-from", b"idu=1"), ("key-to", b"idu=1")]
    assert from_record(document, b"idu=1", [*HEADERS, *keys], ORIGIN).key_change is None


@pytest.mark.parametrize(
    ("value", "key", "headers", "problem"),
    [
        (None, b"idu=1", HEADERS, "no value"),
        (b"<a/>", b"idu=1", HEADERS, "instead of <nds>"),
        (DELETE, b"idu=2", HEADERS, "the key 'idu=2' is not idu=1"),
        (DELETE, None, HEADERS, "the key None is not idu=1"),
        (DELETE, b"\xff", HEADERS, "the key is not UTF-8"),
        (DELETE, b"idu=1", [("event-id", b"\xff")], "header event-id is not UTF-8"),
        (DELETE, b"idu=1", [*HEADERS, *KEYS], "one <modify-association>"),
        (RENAME, b"idu=2", [*HEADERS, *KEYS], "is not idu=1 or idu=5"),
        (RENAME, b"idu=1", HEADERS, "headers key-from and key-to"),
        (RENAME, b"idu=1", [*HEADERS, KEYS[0]], "headers key-from and key-to"),
        (RENAME, b"idu=1", KEYS, "the header event-id"),
    ],
)
def test_other_records_are_refused_with_their_place(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]], problem: str
) -> None:
    with pytest.raises(DocumentError) as error:
        from_record(value, key, headers, ORIGIN)
    assert str(error.value).startswith("xds/2:17: ")
    assert problem in error.value.problem
