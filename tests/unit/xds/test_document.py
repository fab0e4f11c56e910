"""Operations and documents by templates, proved against lxml."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from publisher import __version__
from publisher.model.change import Object, Reason
from publisher.model.keys import KeyForm, format_key, parse
from publisher.xds.association import association
from publisher.xds.document import Envelope, EnvelopeOptions, operation
from publisher.xds.escape import ValueProblem, escape_attribute
from publisher.xds.values import ValueOptions, Values
from tests.support.event_meanings import MEANINGS

XML_TEXT = st.text(
    st.characters(
        exclude_categories=["Cs"],
        exclude_characters=[*map(chr, {*range(32)} - {9, 10, 13}), "\ufffe", "\uffff"],
    )
)
NAME = XML_TEXT.filter(bool)
KEY = st.dictionaries(NAME, XML_TEXT, min_size=1, max_size=3)
FORBIDDEN = st.characters(categories=["Cs"]) | st.sampled_from("\x00\x0b\x1f\ufffe\uffff")
string = Values(ValueOptions()).converter(None)


def render(obj: Object, column: str, old: str | None, new: str | None, event_type: int) -> str:
    meaning = MEANINGS["modify"][event_type]
    part = meaning.part(
        escape_attribute(column),
        None if old is None else string(old),
        None if new is None else string(new),
    )
    text = operation(meaning.operation, obj.table, association(obj), [part], event_id=obj.table)
    return Envelope(EnvelopeOptions(contact="A & B")).document([text])


@given(
    schema=st.none() | NAME,
    table=NAME,
    key=KEY,
    column=NAME,
    old=XML_TEXT,
    new=XML_TEXT,
    event_type=st.sampled_from([1, 2, 3]),
)
@example("s\n", "t\t\"'", {"k\r\n": "\t&"}, 'c<>&"\t\r\n', "\r", "]]>", 2)
def test_any_text_anywhere_comes_back_from_the_document_as_it_was(
    schema: str | None,
    table: str,
    key: dict[str, str],
    column: str,
    old: str,
    new: str,
    event_type: int,
) -> None:
    obj = Object(schema, table, KeyForm().text(format_key(key.items())))
    document = render(obj, column, old, new, event_type)
    assert "\n" not in document
    change = etree.fromstring(document.encode())[1][0]
    assert change.get("class-name") == change.get("event-id") == table
    name = change[0].text
    assert name == association(obj)
    suffix = association(obj)[len(obj.key) :]
    assert {part.column: part.value for part in parse(name[: -len(suffix)])} == key
    assert change[1].get("attr-name") == column
    values = [value.text or "" for value in change.iter("value")]
    assert values == {1: [new], 2: [old, new], 3: [new]}[event_type]


@given(XML_TEXT, FORBIDDEN, XML_TEXT, st.sampled_from(["table", "key", "event id"]))
def test_forbidden_characters_in_names_and_keys_are_refused(
    before: str, forbidden: str, after: str, where: str
) -> None:
    text = before + forbidden + after
    given_texts = {"table": "usr", "key": "idu=1", "event id": "1"} | {where: text}
    with pytest.raises(ValueProblem) as caught:
        operation("delete", given_texts["table"], given_texts["key"], (), given_texts["event id"])
    assert caught.value.reason is Reason.FORBIDDEN_CHARACTER
    assert f"U+{ord(forbidden):04X} at character {len(before)}" in caught.value.detail
    assert caught.value.detail.encode()


def test_a_forbidden_character_in_a_column_name_is_refused() -> None:
    with pytest.raises(ValueProblem, match=r"U\+0000 at character 1"):
        escape_attribute("a\x00")


def test_a_document_is_the_envelope_around_its_operations() -> None:
    document = Envelope(EnvelopeOptions()).document(["<delete/>", "<add/>"])
    assert document == (
        '<nds dtdversion="2.0" ndsversion="8.x"><source>'
        f'<product version="{__version__}">XDS Publisher</product><contact/></source>'
        "<input><delete/><add/></input></nds>"
    )


def test_all_of_the_envelope_can_be_set() -> None:
    options = EnvelopeOptions(
        dtdversion="4.0",
        ndsversion=None,
        product="A <B>",
        version="1 ",
        build='"2"',
        instance="i",
        contact="C & D",
    )
    assert Envelope(options).document([]) == (
        '<nds dtdversion="4.0"><source><product build="&quot;2&quot;" instance="i" version="1 ">'
        "A &lt;B&gt;</product><contact>C &amp; D</contact></source><input></input></nds>"
    )


def test_attributes_that_are_none_are_left_out() -> None:
    assert "<product>" in Envelope(EnvelopeOptions(version=None)).document([])


def test_an_operation_has_its_event_id_where_one_is_given() -> None:
    assert operation("delete", "usr", "idu=1,table=usr", (), "log:4711") == (
        '<delete class-name="usr" event-id="log:4711">'
        "<association>idu=1,table=usr</association></delete>"
    )
