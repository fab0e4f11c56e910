"""Documents become the operations that they were rendered from; anything else is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.consumer import (
    Add,
    AddValue,
    Delete,
    DocumentError,
    Limits,
    Modify,
    ModifyAssociation,
    Operation,
    Origin,
    RemoveAllValues,
    RemoveValue,
    Value,
    ValueType,
    parse_document,
)
from publisher.consumer.operations import AttributeChange, ValueComponent
from publisher.xds.document import Envelope, EnvelopeOptions, operation
from publisher.xds.escape import escape_attribute, escape_text
from publisher.xds.operations import add_attr, replace_attr
from tests.support.event_meanings import update_attr

ORIGIN = Origin("xds/0", 7)
KEY = "idu=1,table=usr,schema=indirect"
A = f"<association>{KEY}</association>"
PHONE = "usr_phone.phoneno"


def nds(*operations: str) -> str:
    return Envelope(EnvelopeOptions()).document(operations)


def parse_one(text: str) -> Operation:
    (parsed,) = parse_document(nds(text), ORIGIN)
    return parsed


def string(text: str) -> Value:
    return Value(text, ValueType.STRING)


def reference(association: str) -> Value:
    return Value(association, ValueType.DN, association)


def v(text: str) -> str:
    return f'<value type="string">{text}</value>'


def r(association: str) -> str:
    return f'<value type="dn" association-ref="{association}">{association}</value>'


def put(name: str, *values: str) -> str:
    added = f"<add-value>{''.join(values)}</add-value>" if values else ""
    return f'<modify-attr attr-name="{name}"><remove-all-values/>{added}</modify-attr>'


def replaced(name: str, *values: Value) -> tuple[AttributeChange, ...]:
    return RemoveAllValues(name), *(AddValue(name, value) for value in values)


GROUP_7, GROUP_9 = (f"idg={n},table=grp,schema=indirect" for n in (7, 9))
MANAGER = "idu=2,table=usr,schema=indirect"
VIEW = "pk_idu={},table=view_usr,schema=direct"
PHONES = (v("111-1111"), v("222-2222"))
EXAMPLES: dict[str, tuple[str, Operation]] = {
    "E1": (
        (
            f'<add class-name="usr">{A}<add-attr attr-name="fname">{v("John")}</add-attr>'
            f'<add-attr attr-name="{PHONE}">{"".join(PHONES)}</add-attr></add>'
        ),
        Add(
            KEY,
            "usr",
            (
                AddValue("fname", string("John")),
                AddValue(PHONE, string("111-1111")),
                AddValue(PHONE, string("222-2222")),
            ),
        ),
    ),
    "E2": (
        (
            f'<modify class-name="usr">{A}<modify-attr attr-name="{PHONE}">'
            f"<remove-value>{v('111-1111')}</remove-value>\n <add-value>{v('333-3333')}</add-value>"
            f"<add-value>{v('444-4444')}</add-value></modify-attr></modify>"
        ),
        Modify(
            KEY,
            "usr",
            (
                RemoveValue(PHONE, string("111-1111")),
                AddValue(PHONE, string("333-3333")),
                AddValue(PHONE, string("444-4444")),
            ),
        ),
    ),
    "E3": (
        f'<modify class-name="usr">{A}{put(PHONE, v("333-3333"))}</modify>',
        Modify(KEY, "usr", replaced(PHONE, string("333-3333"))),
    ),
    "E4": (
        (
            f'<modify class-name="usr">{A}{put("fname", v("John"))}{put("manager", r(MANAGER))}'
            f"{put('usr_fax.faxno')}{put('usr_mbr_of.idg', r(GROUP_7), r(GROUP_9))}"
            f"{put(PHONE, *PHONES)}</modify>"
        ),
        Modify(
            KEY,
            "usr",
            (
                *replaced("fname", string("John")),
                *replaced("manager", reference(MANAGER)),
                *replaced("usr_fax.faxno"),
                *replaced("usr_mbr_of.idg", reference(GROUP_7), reference(GROUP_9)),
                *replaced(PHONE, string("111-1111"), string("222-2222")),
            ),
        ),
    ),
    "E5": (
        f'<modify class-name="usr">{A}{put(PHONE, *PHONES)}</modify>',
        Modify(KEY, "usr", replaced(PHONE, string("111-1111"), string("222-2222"))),
    ),
    "E6": (
        (
            f'<modify class-name="view_usr"><association>{VIEW.format(1)}</association>'
            f"{put('fk_manager', r(VIEW.format(2)))}</modify>"
        ),
        Modify(VIEW.format(1), "view_usr", replaced("fk_manager", reference(VIEW.format(2)))),
    ),
    "E7": (
        f"<modify-association>{A}<association>{MANAGER}</association></modify-association>",
        ModifyAssociation(KEY, MANAGER),
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_reference_are_read(name: str) -> None:
    text, expected = EXAMPLES[name]
    assert parse_one(text) == expected


def test_a_heartbeat_has_no_operations() -> None:
    assert parse_document(nds()) == ()


def test_operations_of_a_document_stay_in_order() -> None:
    delete = f'<delete class-name="usr" event-id="hr:3">{A}</delete>'
    operations = parse_document(nds(EXAMPLES["E3"][0], delete, EXAMPLES["E7"][0]))
    assert operations == (
        EXAMPLES["E3"][1],
        Delete(KEY, "usr", "hr:3"),
        EXAMPLES["E7"][1],
    )


XML_TEXT = st.text(
    st.characters(
        exclude_categories=["Cs"],
        exclude_characters=[*map(chr, {*range(32)} - {9, 10, 13}), "\ufffe", "\uffff"],
    ),
    max_size=20,
)
NAME = XML_TEXT.filter(bool)
OPTIONAL = st.none() | XML_TEXT
EVENTS = st.tuples(st.sampled_from([add_attr, update_attr, replace_attr]), NAME, OPTIONAL, OPTIONAL)


@given(
    association=NAME, class_name=NAME, events=st.lists(EVENTS, max_size=5, unique_by=lambda e: e[1])
)
def test_rendered_operations_are_read_as_they_were(
    association: str,
    class_name: str,
    events: list[tuple[object, str, str | None, str | None]],
) -> None:
    added = [event for event in events if event[0] is add_attr]
    modified = [event for event in events if event[0] is not add_attr]
    expected_adds = tuple(
        AddValue(name, string(new)) for _, name, _, new in added if new is not None
    )
    expected_changes: list[AttributeChange] = []
    for render, name, old, new in modified:
        if render is replace_attr:
            expected_changes.append(RemoveAllValues(name))
        elif old is not None:
            expected_changes.append(RemoveValue(name, string(old)))
        if new is not None:
            expected_changes.append(AddValue(name, string(new)))
    texts = [
        operation("add", class_name, association, _parts(added), "hr:1"),
        operation("modify", class_name, association, _parts(modified)),
        operation("delete", class_name, association),
    ]
    assert parse_document(nds(*texts)) == (
        Add(association, class_name, expected_adds, "hr:1"),
        Modify(association, class_name, tuple(expected_changes)),
        Delete(association, class_name),
    )


def _parts(events: list[tuple[object, str, str | None, str | None]]) -> list[str]:
    def value(text: str | None) -> str | None:
        return None if text is None else v(escape_text(text))

    return [
        render(escape_attribute(name), value(old), value(new))  # type: ignore[operator]
        for render, name, old, new in events
    ]


def value_of(element: str) -> Value:
    parsed = parse_one(f'<add class-name="c">{A}<add-attr attr-name="a">{element}</add-attr></add>')
    assert isinstance(parsed, Add)
    return parsed.changes[0].value


@pytest.mark.parametrize(
    ("type_", "text", "native"),
    [
        ("string", " a ", " a "),
        ("teleNumber", "+49", "+49"),
        ("int", "-12", -12),
        ("counter", "0", 0),
        ("state", "true", True),
        ("state", "false", False),
        ("octet", "AAE=", b"\0\1"),
        ("time", "86400", datetime(1970, 1, 2, tzinfo=UTC)),
        ("dn", "x", "x"),
    ],
)
def test_values_have_their_types(type_: str, text: str, native: object) -> None:
    value = value_of(f'<value type="{type_}">{text}</value>')
    assert (value.type, value.text, value.native) == (type_, text, native)
    assert not value.is_reference


def test_values_without_type_and_structured_values() -> None:
    assert value_of("<value/>") == Value("")
    structured = value_of(
        '<value type="structured"><component name="volume" association-ref="k">V</component>'
        '<component name="path">p</component></value>'
    )
    assert structured.components == (
        ValueComponent("volume", "V", "k"),
        ValueComponent("path", "p"),
    )


def test_100000_values_of_an_attribute_are_read() -> None:
    values = "".join(r(f"idu={n},table=usr") for n in range(100_000))
    parsed = parse_one(f'<modify class-name="usr">{A}{put("member", values)}</modify>')
    assert isinstance(parsed, Modify)
    assert len(parsed.changes) == 100_001
    assert parsed.changes[-1] == AddValue("member", reference("idu=99999,table=usr"))


BOMB = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(12))
ADD = f'<add class-name="c">{A}<add-attr attr-name="a">{{}}</add-attr></add>'
HOSTILE = {
    "no XML": ("hello", "not XML"),
    "nothing": ("", "not XML"),
    "broken": (nds()[:-3], "not XML"),
    "two roots": (nds() * 2, "not XML"),
    "other root": ("<a/>", "instead of <nds>"),
    "namespace": ('<nds xmlns="x"><input/></nds>', "instead of <nds>"),
    "no input": ("<nds/>", "one <input>"),
    "two inputs": ("<nds><input/><input/></nds>", "one <input>"),
    "output": ("<nds><output/></nds>", "one <input>"),
    "entities": (f'<!DOCTYPE nds [<!ENTITY a0 "x">{BOMB}]><nds><input/></nds>', "DOCTYPE"),
    "file": ('<!DOCTYPE nds SYSTEM "file:///etc/passwd"><nds><input/></nds>', "DOCTYPE"),
    "entity": (nds(ADD.format("<value>&a;</value>")), "not XML"),
    "deep": ("<nds>" + "<input>" * 300 + "</input>" * 300 + "</nds>", "not XML"),
    "long text": (nds(ADD.format(f"<value>{'x' * 10_000_001}</value>")), "not XML"),
    "other operation": (nds("<rename/>"), "<rename> is no operation"),
    "foreign element": (nds('<a:add xmlns:a="b"/>'), "is no operation"),
    "no association": (nds('<delete class-name="c"/>'), "needs 1 <association>"),
    "empty association": (nds("<delete><association/></delete>"), "needs 1 <association>"),
    "nested": (nds("<delete><association><b/></association></delete>"), "instead of text"),
    "one key": (nds(f"<modify-association>{A}</modify-association>"), "needs 2 <association>"),
    "no class": (nds(f"<add>{A}</add>"), "no class-name"),
    "no name": (nds(f'<add class-name="c">{A}<add-attr/></add>'), "no attr-name"),
    "other attribute": (nds(f'<add class-name="c">{A}<modify-attr/></add>'), "is unknown in <add>"),
    "password": (nds(f'<add class-name="c">{A}<password>x</password></add>'), "<password>"),
    "other change": (nds(f'<modify class-name="c">{A}{put("a", "<x/>")}</modify>'), "<x>"),
    "other type": (nds(ADD.format('<value type="fax">1</value>')), "'fax'"),
    "no number": (nds(ADD.format('<value type="int">1.5</value>')), "not an integer"),
    "no truth": (nds(ADD.format('<value type="state">yes</value>')), "neither true"),
    "no bytes": (nds(ADD.format('<value type="octet">A</value>')), "not Base64"),
    "no time": (nds(ADD.format(f'<value type="time">{10**19}</value>')), "not a time"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_other_content_is_refused_with_its_place(name: str) -> None:
    text, problem = HOSTILE[name]
    with pytest.raises(DocumentError) as error:
        parse_document(text, ORIGIN)
    assert str(error.value).startswith("xds/0:7: ")
    assert problem in error.value.problem
    copy = pickle.loads(pickle.dumps(error.value))
    assert (str(copy), copy.place) == (str(error.value), ORIGIN)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
def test_another_encoding_is_refused(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>{nds(ADD.format("<value>é</value>"))}'
    with pytest.raises(DocumentError, match="not XML"):
        parse_document(text.encode(encoding))


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(DocumentError, match="not Unicode"):
        parse_document("\ud800")


def test_limits_are_checked_before_parsing() -> None:
    text = nds(EXAMPLES["E5"][0])
    assert parse_document(text, limits=Limits(len(text), 60))
    with pytest.raises(DocumentError, match=r"raise Limits\.max_bytes"):
        parse_document(text, limits=Limits(len(text) - 1))
    with pytest.raises(DocumentError, match=r"raise Limits\.max_tags"):
        parse_document(text, limits=Limits(max_tags=5))


@given(st.binary(max_size=50) | st.text(max_size=50))
def test_any_text_is_read_or_refused(data: bytes | str) -> None:
    with pytest.raises(DocumentError):
        parse_document(data)


def test_comments_and_data_of_the_engine_are_skipped() -> None:
    text = (
        f"<modify class-name='usr'>{A}<modify-attr attr-name='a'><add-value><value>x<!-- -->y</value>"
        "</add-value></modify-attr><operation-data><b>c</b></operation-data></modify>"
    )
    assert parse_one(text) == Modify(KEY, "usr", (AddValue("a", Value("xy")),))


ALLOWED = """
import sys
from contextlib import suppress
class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in {"lxml", "publisher"}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from publisher.consumer import Inbox, Objects, part_files, read_files
print(sorted(name for name in sys.modules if name.startswith("publisher.")))
"""


def test_the_package_needs_lxml_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALLOWED], capture_output=True, text=True, check=True
    )
    modules = {
        name.split(".")[1] for name in done.stdout.strip("[]\n").replace("'", "").split(", ")
    }
    assert modules == {"consumer", "errors", "xds"}


@given(
    name=st.sampled_from(sorted(EXAMPLES)),
    at=st.integers(0, 2000),
    length=st.integers(0, 30),
    inserted=st.binary(max_size=3)
    | st.sampled_from([b"<value>", b"</add-value>", b"&a;", b"<!--"]),
)
def test_damaged_documents_are_read_or_refused(
    name: str, at: int, length: int, inserted: bytes
) -> None:
    data = nds(EXAMPLES[name][0]).encode()
    with suppress(DocumentError):
        assert isinstance(parse_document(data[:at] + inserted + data[at + length :]), tuple)
