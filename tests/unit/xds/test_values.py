"""Values as elements, by the kind of the column."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import pickle
import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from publisher.model.catalogue import ColumnKind
from publisher.model.change import Reason
from publisher.xds.values import ValueOptions, ValueProblem, Values, text_of

VALUES = Values(ValueOptions())
ANY_TEXT = st.text(st.characters())
XML_TEXT = st.text(
    st.characters(
        exclude_categories=["Cs"],
        exclude_characters=[*map(chr, {*range(32)} - {9, 10, 13}), "\ufffe", "\uffff"],
    )
)


def element(kind: ColumnKind | None, text: str, options: ValueOptions | None = None) -> str:
    return Values(options or ValueOptions()).converter(kind)(text)


def attempt(kind: ColumnKind | None, text: str) -> str | ValueProblem:
    try:
        return element(kind, text)
    except ValueProblem as problem:
        return problem


def refusal(kind: ColumnKind, text: str) -> ValueProblem:
    with pytest.raises(ValueProblem) as caught:
        element(kind, text)
    assert caught.value.detail == str(caught.value)
    return caught.value


@pytest.mark.parametrize("kind", [ColumnKind.STRING, ColumnKind.DECIMAL, None])
def test_text_decimals_and_unknown_kinds_go_as_string(kind: ColumnKind | None) -> None:
    assert element(kind, "01.50") == '<value type="string">01.50</value>'


def test_markup_and_line_breaks_go_as_references() -> None:
    assert element(None, "a<b>&c\r\n\td\"'") == (
        '<value type="string">a&lt;b&gt;&amp;c&#13;&#10;\td"\'</value>'
    )


@given(XML_TEXT)
@example("]]>")
@example("\r")
@example(" \u0085\u2028 ")
def test_text_that_xml_permits_comes_back_as_it_was(text: str) -> None:
    xml = element(None, text)
    assert "\n" not in xml
    assert (etree.fromstring(xml.encode()).text or "") == text


@given(ANY_TEXT)
def test_text_that_xml_forbids_is_refused_and_no_other(text: str) -> None:
    permitted = all(is_xml_char(ord(char)) for char in text)
    result = attempt(None, text)
    assert isinstance(result, str) == permitted
    if isinstance(result, ValueProblem):
        assert result.reason is Reason.FORBIDDEN_CHARACTER


def is_xml_char(code: int) -> bool:
    """The production Char of XML 1.0."""
    return (
        code in {0x9, 0xA, 0xD}
        or 0x20 <= code <= 0xD7FF
        or 0xE000 <= code <= 0xFFFD
        or 0x10000 <= code <= 0x10FFFF
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ab\x00", "U+0000 at character 2"),
        ("\ud800", "U+D800 at character 0"),
        ("<\uffff", "U+FFFF at character 1"),
    ],
)
def test_a_forbidden_character_is_named_with_its_place(text: str, says: str) -> None:
    problem = refusal(ColumnKind.STRING, text)
    assert says in problem.detail
    assert problem.detail.encode()  # has no surrogate itself


@given(ANY_TEXT)
def test_forbidden_characters_are_replaced_where_the_setting_says_so(text: str) -> None:
    xml = element(None, text, ValueOptions(forbidden="replace"))
    expected = "".join(char if is_xml_char(ord(char)) else "\ufffd" for char in text)
    assert (etree.fromstring(xml.encode()).text or "") == expected


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="Mars/Olympus"):
        ValueOptions(time_zone="Mars/Olympus")


def test_padding_is_trimmed_from_padded_columns_alone() -> None:
    assert (
        VALUES.converter(ColumnKind.STRING, padded=True)("Doe  ")
        == '<value type="string">Doe</value>'
    )
    assert VALUES.converter(ColumnKind.STRING)("Doe  ") == '<value type="string">Doe  </value>'
    kept = Values(ValueOptions(trim_padding=False))
    assert (
        kept.converter(ColumnKind.STRING, padded=True)("Doe ")
        == '<value type="string">Doe </value>'
    )


def test_padding_is_blanks_at_the_end() -> None:
    convert = VALUES.converter(ColumnKind.STRING, padded=True)
    assert convert(" Doe\t\u00a0 ") == '<value type="string"> Doe\t\u00a0</value>'


def test_the_empty_string_is_a_value() -> None:
    assert element(ColumnKind.STRING, "") == '<value type="string"></value>'


@given(st.binary())
def test_base64_of_any_bytes_goes_as_octet(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert element(ColumnKind.OCTET, text) == f'<value type="octet">{text}</value>'


@given(st.binary(min_size=60))
def test_base64_in_lines_goes_as_one_line(data: bytes) -> None:
    text = base64.encodebytes(data).decode().replace("\n", "\r\n")
    one_line = base64.b64encode(data).decode()
    assert element(ColumnKind.OCTET, text) == f'<value type="octet">{one_line}</value>'


@given(st.text("AQBZ09+/=-\n", max_size=5).map(lambda text: text + "=="[: -len(text) % 4]))
def test_octet_takes_what_a_strict_decoder_takes(text: str) -> None:
    data = "".join(text.split())
    try:
        good = base64.b64encode(base64.b64decode(data, validate=True)).decode() == data
    except ValueError:
        good = False
    result = attempt(ColumnKind.OCTET, text)
    if isinstance(result, ValueProblem):
        assert result.reason is Reason.VALUE
        assert not good
    else:
        assert good
        assert result == f'<value type="octet">{data}</value>'


@pytest.mark.parametrize(
    "text", ["qqo", "qqp=", "qr==", "q-o=", "qqo==", "====", "A===", "0xAAAA", "é"]
)
def test_damaged_base64_is_refused(text: str) -> None:
    assert "not Base64" in refusal(ColumnKind.OCTET, text).detail


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", "1"),
        (" 007 ", "7"),
        ("+1", "1"),
        ("-0", "0"),
        ("42.000", "42"),
        ("9" * 1000, "9" * 1000),
    ],
)
def test_integers_go_in_canonical_form(text: str, number: str) -> None:
    assert element(ColumnKind.INT, text) == f'<value type="int">{number}</value>'


@pytest.mark.parametrize("text", ["", "one", "1.5", "1e3", "0x1", "\u0661", "1 2", "1\n2"])
def test_what_is_no_integer_is_refused(text: str) -> None:
    problem = refusal(ColumnKind.INT, text)
    assert problem.reason is Reason.VALUE
    assert "not an integer" in problem.detail


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "TRUE", " True ", "yes", "Y"])
def test_true_in_its_spellings(text: str) -> None:
    assert element(ColumnKind.STATE, text) == '<value type="state">true</value>'


@pytest.mark.parametrize("text", ["0", "f", "F", "false", "False", "no", "N"])
def test_false_in_its_spellings(text: str) -> None:
    assert element(ColumnKind.STATE, text) == '<value type="state">false</value>'


@pytest.mark.parametrize("text", ["", "2", "on", "maybe"])
def test_what_is_no_boolean_is_refused(text: str) -> None:
    assert "not a boolean" in refusal(ColumnKind.STATE, text).detail


@pytest.mark.parametrize("kind", list(ColumnKind))
@given(text=ANY_TEXT)
def test_any_text_of_any_kind_gives_xml_or_a_value_problem(kind: ColumnKind, text: str) -> None:
    result = attempt(kind, text)
    if isinstance(result, str):
        assert etree.fromstring(result.encode()).tag == "value"


def test_a_value_problem_can_cross_processes() -> None:
    problem = ValueProblem(Reason.VALUE, "wrong: fix it")
    assert pickle.loads(pickle.dumps(problem)).args == problem.args


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("Jack", "Jack"),
        (Name("John"), "John"),
        (True, "true"),
        (False, "false"),
        (42, "42"),
        (10**30, "1" + 30 * "0"),
        (0.5, "0.5"),
        (decimal.Decimal("1.50"), "1.50"),
        (decimal.Decimal("1E+3"), "1000"),
        (b"\xaa\xaa", "qqo="),
        (bytearray(b"\xbb\xbb"), "u7s="),
        (memoryview(b"\xbb\xbb"), "u7s="),
        (dt.datetime(2024, 2, 29, 12, 30), "2024-02-29 12:30:00"),  # noqa: DTZ001
        (dt.datetime(2024, 2, 29, 12, 30, 0, 5, dt.UTC), "2024-02-29 12:30:00.000005+00:00"),
        (dt.date(2024, 2, 29), "2024-02-29"),
        (dt.time(12, 30, 1), "12:30:01"),
        (dt.timedelta(hours=12, minutes=30, microseconds=5), "12:30:00.000005"),
        (-dt.timedelta(hours=25), "-25:00:00"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({"a": [1, None, "é"]}, '{"a": [1, null, "é"]}'),
        ([b"\xaa\xaa"], '["qqo="]'),
    ],
)
def test_database_values_take_the_text_form_of_the_log(value: object, text: str | None) -> None:
    assert text_of(value) == text


def test_a_date_beyond_32_bits_is_refused_unless_the_settings_take_it() -> None:
    with pytest.raises(ValueProblem, match="time_range"):
        Values(ValueOptions()).converter(ColumnKind.DATE)("9999-12-31")
    element = Values(ValueOptions(time_range="any")).converter(ColumnKind.DATE)("9999-12-31")
    assert element == '<value type="time">253402214400</value>'


@given(st.binary() | st.integers() | st.booleans() | st.datetimes() | st.dates() | st.times())
def test_database_values_can_be_converted_by_their_kind(value: object) -> None:
    kinds = {
        bytes: ColumnKind.OCTET,
        int: ColumnKind.INT,
        bool: ColumnKind.STATE,
        dt.datetime: ColumnKind.TIMESTAMP,
        dt.date: ColumnKind.DATE,
        dt.time: ColumnKind.TIME,
    }
    text = text_of(value)
    assert text is not None
    convert = Values(ValueOptions(time_range="any")).converter(kinds[type(value)])
    assert etree.fromstring(convert(text)).tag == "value"
