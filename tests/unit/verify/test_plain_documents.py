"""Documents read by a regular expression, compared with the parser of consumers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.consumer.errors import DocumentError
from publisher.consumer.parse import parse_document
from publisher.verify.operation_columns import OperationCollector
from publisher.verify.plain_documents import read_plain

HEAD = '<nds dtdversion="2.0"><source><product>X</product></source><input>'
END = "</input></nds>"
PIECES = (
    '<add class-name="usr">',
    '<add class-name="usr" event-id="s:1">',
    "</add>",
    '<modify class-name="usr">',
    "</modify>",
    '<delete class-name="usr">',
    "</delete>",
    "<association>idu=1,table=usr</association>",
    "<association>n=&lt;&amp;,table=usr</association>",
    "<association></association>",
    '<add-attr attr-name="fname">',
    '<add-attr attr-name="a&amp;b">',
    '<add-attr attr-name="">',
    "</add-attr>",
    '<modify-attr attr-name="fname">',
    "</modify-attr>",
    "<remove-all-values/>",
    "<remove-value>",
    "</remove-value>",
    "<add-value>",
    "</add-value>",
    '<value type="string">Jack &lt;b&gt;&#10;\t"\'</value>',
    "<value>é \U0001f600</value>",
    '<value type="string">&quot;</value>',
    '<value type="string">&nbsp;</value>',
    '<value type="string">\x01</value>',
    '<value type="string">\ufffe</value>',
    '<value type="string">]]></value>',
    '<value type="int">12</value>',
    '<value type="int">x</value>',
    '<value type="state">true</value>',
    '<value type="state">maybe</value>',
    '<value type="time">-1000</value>',
    '<value type="time">99999999999999</value>',
    '<value type="octet">AAAA</value>',
    '<value type="octet">AAA</value>',
    '<value type="odd">x</value>',
    '<value type="dn" association-ref="idu=1,table=&quot;u&quot;">idu=1</value>',
    '<value type="structured"><component name="n">x</component></value>',
    "<value/>",
    "text",
    "<!-- comment -->",
    "<input>",
)
ADD, MODIFY, DELETE = PIECES[1], PIECES[3], PIECES[5]
KEY, VALUE = PIECES[7], PIECES[21]
REPLACED = f"<remove-value>{VALUE}</remove-value><add-value>{VALUE}{VALUE}</add-value>"


def document(content: str, head: str = HEAD) -> bytes:
    return f"{head}{content}{END}".encode()


def collected(data: bytes, *, plain: bool) -> object:
    """The operation as columns; ``None`` if it is not read in this way."""
    collector = OperationCollector()
    if plain:
        operation = read_plain(data)
        if operation is None:
            return None
        collector.add_plain(7, operation)
    else:
        collector.add(7, parse_document(data))
    return collector


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_a_plain_document_is_one_that_consumers_read_alike(content: str) -> None:
    for data in (document(content), document(f"{ADD}{KEY}{content}</add>")):
        plain = collected(data, plain=True)
        if plain is not None:
            assert plain == collected(data, plain=False)


@given(st.sampled_from(("add-attr", "modify-attr")), st.text(max_size=8), st.text(max_size=8))
def test_values_and_names_are_read_alike(tag: str, name: str, text: str) -> None:
    inside = f"<value>{text}</value>"
    if tag == "modify-attr":
        inside = f"<add-value>{inside}</add-value>"
    kind = "add" if tag == "add-attr" else "modify"
    attribute = f'<{tag} attr-name="{name}">{inside}</{tag}>'
    content = f'<{kind} class-name="{name}">{KEY}{attribute}</{kind}>'
    plain = collected(document(content), plain=True)
    if plain is not None:
        assert plain == collected(document(content), plain=False)


@pytest.mark.parametrize(
    "content",
    [
        f'{ADD}{KEY}<add-attr attr-name="a">{VALUE}</add-attr></add>',
        f'{ADD}{KEY}<add-attr attr-name="a">{VALUE}{PIECES[22]}</add-attr></add>',
        f'{ADD}{PIECES[8]}<add-attr attr-name="a">{PIECES[37]}</add-attr></add>',
        f"{ADD}{KEY}</add>",
        f"{DELETE}{KEY}</delete>",
        f'{MODIFY}{KEY}<modify-attr attr-name="a"><remove-all-values/></modify-attr></modify>',
        f'{MODIFY}{KEY}<modify-attr attr-name="a">{REPLACED}</modify-attr></modify>',
    ],
)
def test_documents_of_this_program_are_plain(content: str) -> None:
    plain = collected(document(content), plain=True)
    assert plain is not None
    assert plain == collected(document(content), plain=False)


@pytest.mark.parametrize(
    "head",
    [
        "<nds><input>",
        "<nds><odd/><input>",
        "<nds><input></input><input>",
        "<nds><!--<input>",
        "<input>",
    ],
)
def test_the_head_of_a_document_is_checked(head: str) -> None:
    data = document(f"{DELETE}{KEY}</delete>", head)
    try:
        parse_document(data)
    except DocumentError:
        assert read_plain(data) is None
    else:
        assert read_plain(data) is not None


def test_large_and_undecodable_documents_are_left_to_the_parser() -> None:
    value = f'<add-attr attr-name="a"><value>{"x" * (1 << 20)}</value></add-attr>'
    assert read_plain(document(f"{ADD}{KEY}{value}</add>")) is None
    assert read_plain(document(f"{DELETE}{KEY}</delete>") + b"\xff") is None
    assert read_plain(b'{"operations": []}') is None
