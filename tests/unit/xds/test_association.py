"""The text by which a document names its object."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from publisher.model.change import Object
from publisher.model.keys import KeyForm, format_key
from publisher.xds.association import association

TEXT = st.text(st.characters()) | st.text(st.sampled_from("a,=+\"\\ schematbl'"), max_size=12)
KEYS = st.dictionaries(TEXT.filter(bool), TEXT, min_size=1, max_size=3).map(
    lambda key: KeyForm().text(format_key(key.items()))
)
OBJECTS = st.builds(Object, st.none() | TEXT, TEXT, KEYS)


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (Object("indirect", "usr", "idu=1"), "idu=1,table=usr,schema=indirect"),
        (Object("direct", "view_usr", "pk_empno=1"), "pk_empno=1,table=view_usr,schema=direct"),
        (Object("INDIRECT", "USR", "IDU=34131"), "IDU=34131,table=USR,schema=INDIRECT"),
        (Object(None, "usr", "idu=1"), "idu=1,table=usr"),
        (Object("a,b", 'say "x"', "k=1"), r'k=1,table="say \"x\"",schema="a,b"'),
        (Object("", " t", 'k="a+b"'), 'k="a+b",table=" t",schema=""'),
    ],
)
def test_an_association_has_key_table_and_schema(obj: Object, text: str) -> None:
    assert association(obj) == text


@pytest.mark.parametrize(
    ("order", "key"),
    [
        ((), 'a=1+b="x+y"+c=3'),
        (("c", "b", "a"), 'c=3+b="x+y"+a=1'),
        (("B",), 'b="x+y"+a=1+c=3'),
        (("none",), 'a=1+b="x+y"+c=3'),
    ],
)
def test_parts_stand_in_the_order_of_the_primary_key(order: tuple[str, ...], key: str) -> None:
    assert association(Object(None, "t", 'a=1+b="x+y"+c=3'), order) == f"{key},table=t"


def test_names_that_differ_by_case_alone_keep_their_places() -> None:
    assert association(Object(None, "t", "ID=1+id=2"), ("id", "ID")) == "id=2+ID=1,table=t"


@given(OBJECTS, OBJECTS, st.lists(TEXT, max_size=2).map(tuple))
@example(Object(None, "t,schema=s", "a=1"), Object("s", "t", "a=1"), ())
@example(Object(None, "t", "a=1"), Object("", "t", "a=1"), ())
def test_two_objects_never_share_an_association(
    one: Object, other: Object, order: tuple[str, ...]
) -> None:
    assert (association(one, order) == association(other, order)) == (one == other)
