"""The grammar of table_key, and the canonical form of a key."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from publisher.model.catalogue import ColumnKind
from publisher.model.keys import (
    IdentifierCase,
    KeyForm,
    KeyPart,
    KeyProblem,
    canonical,
    decimal_text,
    format_key,
    integer_text,
    parse,
    parse_grammar,
)

ANY_TEXT = st.text(st.characters())  # surrogates too
WORDS = st.text(st.sampled_from("abA01. \t\n\"\\+=,;'<>\u00a0é"), max_size=3)
NEAR_GRAMMAR = st.lists(st.lists(WORDS, min_size=2, max_size=2).map("=".join), max_size=3).map(
    "+".join
)
"""Keys, most of them with something wrong in a name or a value."""
SIMPLE = st.lists(
    st.builds("{}={}".format, st.sampled_from(["a", "b", "Ab", "é"]), st.sampled_from("10é")),
    min_size=1,
    max_size=3,
).map("+".join)
Result = TypeVar("Result")
KEYS = st.dictionaries(ANY_TEXT.filter(bool), ANY_TEXT, min_size=1, max_size=4)
FORMS = [
    KeyForm(),
    KeyForm({"a": ColumnKind.INT, "b": ColumnKind.DECIMAL, "A": ColumnKind.STRING}),
    KeyForm(case=IdentifierCase.UPPER),
    KeyForm({"Ab": ColumnKind.INT}, IdentifierCase.DATABASE),
    KeyForm(case=IdentifierCase.LOWER),
]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("idu=1", [("idu", "1", False)]),
        ("pk_empno=1", [("pk_empno", "1", False)]),
        ("pkey1=value1+pkey2=value2", [("pkey1", "value1", False), ("pkey2", "value2", False)]),
        (r'''pkey=", ; ' + \" = \\ < >"''', [("pkey", r""", ; ' + " = \ < >""", True)]),
        ("idu= 1", [("idu", "1", False)]),
        (" idu \t= 1\r\n+ b =2 ", [("idu", "1", False), ("b", "2", False)]),
        ("name=Jack Frost", [("name", "Jack Frost", False)]),
        ('name= " Jack " +b=1', [("name", " Jack ", True), ("b", "1", False)]),
        ('name=""', [("name", "", True)]),
        ('"a+b"=1', [("a+b", "1", False)]),
        ("a=one\ntwo", [("a", "one\ntwo", False)]),
        ("a=\u00a01\u00a0", [("a", "\u00a01\u00a0", False)]),
    ],
)
def test_parts_are_read_by_the_grammar(text: str, parts: list[tuple[str, str, bool]]) -> None:
    assert parse(text) == tuple(KeyPart(*part) for part in parts)


@pytest.mark.parametrize(
    ("text", "offset", "says"),
    [
        ("", 0, "column name is missing"),
        ("  ", 0, "column name is missing"),
        ("=1", 0, "column name is missing"),
        ('""=1', 0, "column name is missing"),
        ("idu", 3, '"=" is missing'),
        ("idu=", 4, "value is missing"),
        ("idu= ", 4, "value is missing"),
        ("a=1+", 4, "column name is missing"),
        ("a=1++b=2", 4, "column name is missing"),
        ("a=1+a=2", 4, "appears twice"),
        ("a=1,table=t", 3, "double quotes"),
        ("a=b=c", 3, "double quotes"),
        ("a=o'brien", 3, "double quotes"),
        (r"a=CORP\jack", 6, "double quotes"),
        ('a=x"y"', 3, "double quotes"),
        ('a="x"y', 5, "only + may follow"),
        ('a="x', 2, "closing double quote"),
        (r'a="x\"', 2, "closing double quote"),
        (r'a="x\n"', 4, "inside quotes"),
        ('a="x\\', 4, "inside quotes"),
    ],
)
def test_a_problem_names_its_offset_and_what_to_do(text: str, offset: int, says: str) -> None:
    with pytest.raises(KeyProblem) as caught:
        parse(text)
    assert caught.value.offset == offset
    assert says in caught.value.message
    assert ":" in caught.value.message


@given(KEYS)
@example({"a": ""})
@example({"a": "\n", " b": "x "})
def test_reading_what_was_written_gives_the_same_key(key: dict[str, str]) -> None:
    assert [part[:2] for part in parse(format_key(key.items()))] == list(key.items())


def attempt(by: Callable[[str], Result], text: str) -> Result | KeyProblem:
    try:
        return by(text)
    except KeyProblem as problem:
        return problem


@given(ANY_TEXT | NEAR_GRAMMAR)
def test_any_text_is_a_key_or_a_key_problem(text: str) -> None:
    read = attempt(parse, text)
    if isinstance(read, KeyProblem):
        assert 0 <= read.offset <= len(text)
    else:
        assert read


@given(SIMPLE | NEAR_GRAMMAR)
@example("a,=1")
@example("a=1+b,=1")
def test_short_cuts_read_as_the_grammar_does(text: str) -> None:
    short, whole = attempt(parse, text), attempt(parse_grammar, text)
    assert str(short) == str(whole)
    assert type(short) is type(whole)


@given(st.sampled_from(FORMS), SIMPLE | NEAR_GRAMMAR)
@example(FORMS[4], "A=1")
@example(FORMS[1], "A=01+a=01+b=01")
@example(FORMS[3], "ab=01")
def test_the_canonical_text_is_idempotent_and_has_no_short_cut_of_its_own(
    form: KeyForm, text: str
) -> None:
    written = attempt(form.text, text)
    plain = attempt(lambda key: form.canonical(parse_grammar(key)), text)
    assert str(written) == str(plain)
    if isinstance(written, str):
        assert form.text(written) == written


@given(KEYS, st.randoms())
def test_the_order_of_the_parts_does_not_matter(key: dict[str, str], random: object) -> None:
    pairs = list(key.items())
    random.shuffle(pairs)  # type: ignore[attr-defined]
    assert KeyForm().text(format_key(pairs)) == KeyForm().text(format_key(key.items()))


@given(KEYS, KEYS)
def test_different_keys_have_different_texts(one: dict[str, str], other: dict[str, str]) -> None:
    texts = [KeyForm().text(format_key(key.items())) for key in (one, other)]
    assert (texts[0] == texts[1]) == (one == other)


def test_columns_stand_in_code_point_order_and_quotes_only_where_needed() -> None:
    assert KeyForm().text('b="1"+a=" x"+B="a=b"+\U00010000=1+\uffee=2') == (
        'B="a=b"+a=" x"+b=1+\uffee=2+\U00010000=1'
    )


@pytest.mark.parametrize("text", ["idu=1", "idu= 1", "idu=01", 'idu="+1"', 'idu="1 "', "IDU=1.0"])
def test_an_integer_key_has_one_text(text: str) -> None:
    form = KeyForm({"idu": ColumnKind.INT}, IdentifierCase.LOWER)
    assert form.text(text) == "idu=1"


@pytest.mark.parametrize("text", ["p=1.5", "p=01.50", 'p="+1.5"', "p=15e-1", "p=0.15E1"])
def test_a_decimal_key_has_one_text(text: str) -> None:
    assert KeyForm({"p": ColumnKind.DECIMAL}).text(text) == "p=1.5"


def test_numbers_of_columns_of_unknown_kind_stay_as_written() -> None:
    assert KeyForm().text("idu=01") == "idu=01"


@pytest.mark.parametrize("text", ["idu=one", "idu=1.5", "idu=1e3", "idu=\u0661", 'idu=""'])
def test_an_integer_column_without_an_integer_is_a_problem(text: str) -> None:
    with pytest.raises(KeyProblem, match=r"is not a number.*fix the key"):
        KeyForm({"idu": ColumnKind.INT}).text(text)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (IdentifierCase.AS_WRITTEN, "Idu=1"),
        (IdentifierCase.LOWER, "idu=1"),
        (IdentifierCase.UPPER, "IDU=1"),
        (IdentifierCase.DATABASE, "iDU=1"),
    ],
)
def test_case_of_columns_follows_the_setting(case: IdentifierCase, text: str) -> None:
    assert canonical(parse("Idu=1"), case=case, names=["iDU"]) == text


def test_a_name_that_the_database_does_not_know_stays_as_written() -> None:
    assert canonical(parse("Idu=1"), case=IdentifierCase.DATABASE) == "Idu=1"


def test_a_name_that_fits_two_columns_of_the_database_but_for_case_is_not_guessed() -> None:
    form = KeyForm({"ID": ColumnKind.INT, "id": ColumnKind.INT}, IdentifierCase.DATABASE)
    assert [form.text(text) for text in ("ID=1", "id=1", "Id=1")] == ["ID=1", "id=1", "Id=1"]


def test_columns_that_become_one_by_the_setting_are_a_problem() -> None:
    with pytest.raises(KeyProblem, match="appears twice"):
        KeyForm(case=IdentifierCase.LOWER).text("ID=1+id=2")


@pytest.mark.parametrize("pairs", [[], [("", "1")], [("a", "1"), ("a", "1")]])
def test_what_is_no_key_is_not_written(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(KeyProblem):
        format_key(pairs)


@given(st.integers(), st.sampled_from(["", "0", "000"]), st.sampled_from(["", ".", ".00"]))
def test_integers_have_one_canonical_text(number: int, zeros: str, fraction: str) -> None:
    sign = "-" if number < 0 else ""
    assert integer_text(f" {sign}{zeros}{abs(number)}{fraction} ") == str(number)


@pytest.mark.parametrize(
    "text",
    ["0" * 300_000 + "x", 'a="' + "\\\\" * 200_000, "a=1+" * 100_000],
    ids=["zeros", "escapes", "parts"],
)
def test_long_broken_texts_are_refused_in_linear_time(text: str) -> None:
    assert integer_text(text) is None
    assert decimal_text(text) is None
    with pytest.raises(KeyProblem):
        parse(text)


def test_minus_zero_is_zero() -> None:
    assert integer_text("-00") == decimal_text("-0.00") == "0"


@given(st.decimals(allow_nan=False, allow_infinity=False))
@example(decimal.Decimal("1E+400"))
@example(decimal.Decimal("-123456789012345678901234567890.1234567890"))
def test_decimals_keep_every_digit(number: decimal.Decimal) -> None:
    text = decimal_text(str(number))
    if text is None:
        assert abs(number.as_tuple().exponent) > 500  # type: ignore[arg-type]
        return
    assert decimal.Decimal(text) == number
    assert "e" not in text.lower()
    assert decimal_text(text) == text


@pytest.mark.parametrize("text", ["", ".", "-", "e5", "1e", "1e99999", "NaN", "Infinity", "1,5"])
def test_what_is_no_decimal_number(text: str) -> None:
    assert decimal_text(text) is None


@given(
    st.sampled_from(["idu", "Idu", "k"]),
    st.sampled_from([None, "int", "decimal"]),
    st.sampled_from(list(IdentifierCase)),
    st.text("0123456789-+. ab=\\\"'xЖ\xa0\n{~", max_size=6),
)
def test_a_key_that_matches_the_canonical_pattern_is_canonical_as_it_is(
    column: str, kind: str | None, case: IdentifierCase, value: str
) -> None:
    form = KeyForm({} if kind is None else {column: kind}, case, [column])
    key = f"{column}={value}"
    pattern = form.canonical_pattern(column)
    if pattern is not None and pc.match_substring_regex(pa.scalar(key), pattern).as_py():
        assert form.text(key) == key
