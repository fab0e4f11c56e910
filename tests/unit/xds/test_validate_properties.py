"""Random documents of the model are valid, damaged ones are found, and two processors agree."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import xmlschema
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from publisher.xds import schema as xds_schema
from publisher.xds.validate import Finding, Profile, validate_files

Element = Any
Draw = Callable[[st.SearchStrategy[Any]], Any]

TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=8
)
BOOLEAN = st.sampled_from(["true", "false"])
BLANKS = st.sampled_from(["", " ", "\n", "\t\n "])
VALUES: dict[str, st.SearchStrategy[str]] = {
    "string": TEXT,
    "teleNumber": TEXT,
    "dn": TEXT,
    "int": st.integers(-(2**31), 2**31 - 1).map(str),
    "counter": st.integers(0, 2**31 - 1).map(str),
    "interval": st.integers(0, 2**31 - 1).map(str),
    "time": st.integers(-(2**31), 2**32 - 1).map(str),
    "state": BOOLEAN,
    "octet": st.binary(max_size=20).map(lambda octets: base64.b64encode(octets).decode()),
}
SPACED = {"int", "counter", "interval", "time", "state", "octet"}
SOURCE = ("src-dn", "src-entry-id", "qualified-src-dn", "timestamp")
COMMAND = ("dest-dn", "dest-entry-id", "event-id")
STATES = ["not-associated", "associated", "disabled", "migrate", "pending", "manual"]
TYPED: dict[str, st.SearchStrategy[str]] = {
    "from-merge": BOOLEAN,
    "from-reset": BOOLEAN,
    "from-move": BOOLEAN,
    "password-admin-reset": BOOLEAN,
    "remove-old-name": BOOLEAN,
    "naming": BOOLEAN,
    "enforce-password-policy": BOOLEAN,
    "cached-time": st.from_regex(r"[0-9]{14}\.[0-9]{3}Z", fullmatch=True).filter(str.isascii),
    "state": st.sampled_from(STATES),
    "level": st.sampled_from(["fatal", "error", "warning", "success", "retry"]),
}
OPERATIONS: dict[str, tuple[str, ...]] = {
    "add": ("cached-time", "template-dn", *SOURCE, *COMMAND),
    "modify": (
        *("class-name", "cached-time", "from-merge", "from-reset", "password-admin-reset"),
        *SOURCE,
        *COMMAND,
    ),
    "delete": ("class-name", "cached-time", *SOURCE, *COMMAND),
    "rename": (
        *("class-name", "remove-old-name", "old-src-dn", "qualified-old-src-dn"),
        *SOURCE,
        *COMMAND,
    ),
    "move": (
        *("class-name", "cached-time", "old-src-dn", "qualified-old-src-dn"),
        *SOURCE,
        *COMMAND,
    ),
    "sync": ("class-name", "class-id", "cached-time", "from-move", *SOURCE),
}


def element(draw: Draw, tag: str, /, optional: tuple[str, ...] = (), **required: str) -> Element:
    node = etree.Element(tag)
    for attribute, text in required.items():
        node.set(attribute.replace("_", "-"), text)
    for attribute in draw(st.lists(st.sampled_from(optional), unique=True)) if optional else ():
        node.set(attribute, draw(TYPED.get(attribute, TEXT)))
    return node


def association(draw: Draw) -> Element:
    node = element(draw, "association", ("state",))
    node.text = draw(TEXT)
    return node


def value(draw: Draw) -> Element:
    node = element(draw, "value", ("timestamp", "naming"))
    kind = draw(st.sampled_from([None, "structured", *VALUES]))
    if kind == "dn" and draw(st.booleans()):
        node.set("association-ref", draw(TEXT))
    if kind is None:
        node.text = draw(TEXT)
        return node
    node.set("type", kind)
    if kind == "structured":
        for _ in range(draw(st.integers(1, 3))):
            component = element(draw, "component", ("association-ref",), name=draw(TEXT))
            component.text = draw(TEXT)
            node.append(component)
        return node
    text = draw(VALUES[kind])
    node.text = draw(BLANKS) + text + draw(BLANKS) if kind in SPACED else text
    return node


def attribute(draw: Draw, name: str) -> Element:
    node = element(draw, name, ("enforce-password-policy",), attr_name=draw(TEXT))
    if name == "add-attr":
        node.extend(value(draw) for _ in range(draw(st.integers(1, 2))))
        return node
    parts = ("remove-value", "remove-all-values", "add-value")
    for part in draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3)):
        child = etree.SubElement(node, part)
        if part != "remove-all-values":
            child.extend(value(draw) for _ in range(draw(st.integers(1, 2))))
    return node


def operation(draw: Draw) -> Element:
    name = draw(st.sampled_from([*OPERATIONS, "status", "modify-association"]))
    if name == "modify-association":
        node = element(draw, name, ("event-id",))
        node.extend([association(draw), association(draw)])
        return node
    if name == "status":
        return element(draw, "status", ("event-id", "type"), level=draw(TYPED["level"]))
    required = {"class_name": draw(TEXT)} if name == "add" else {}
    node = element(draw, name, OPERATIONS[name], **required)
    node.append(association(draw))
    if name in {"add", "modify"}:
        for _ in range(draw(st.integers(1, 2))):
            node.append(attribute(draw, f"{name}-attr"))
    elif name == "rename":
        etree.SubElement(node, "new-name").text = draw(TEXT)
    elif name == "move":
        node.append(element(draw, "parent", ("src-dn", "dest-dn")))
    if draw(st.booleans()):
        foreign = etree.SubElement(etree.SubElement(node, "operation-data"), "{urn:x}any")
        foreign.set("key", draw(TEXT))
    return node


@st.composite
def documents(draw: Draw) -> Element:
    """A valid document of the input side."""
    root = element(draw, "nds", ("ndsversion",), dtdversion=draw(TEXT))
    if draw(st.booleans()):
        source = etree.SubElement(root, "source")
        etree.SubElement(source, "product", version=draw(TEXT)).text = draw(TEXT)
    side = etree.SubElement(root, "input")
    side.extend(operation(draw) for _ in range(draw(st.integers(1, 3))))
    return root


def elements_in_schema(root: Element) -> list[Element]:
    """The elements whose content the schema looks at."""
    return [
        found
        for found in root.iter("*")
        if found.tag != "status"
        and not list(found.iterancestors("operation-data"))
        and found.tag not in {"operation-data", "{urn:x}any"}
    ]


ELEMENT_ONLY = {
    "nds",
    "source",
    "input",
    *OPERATIONS,
    "add-attr",
    "modify-attr",
    "add-value",
    "remove-value",
}


def with_unknown_child(draw: Draw, root: Element) -> None:
    etree.SubElement(draw(st.sampled_from(elements_in_schema(root))), "unknown")


def with_wrong_word(draw: Draw, root: Element) -> None:
    status = etree.SubElement(root.find("input"), "status", level="error")
    status.set(
        "level",
        draw(
            TEXT.filter(lambda text: text not in {"fatal", "error", "warning", "success", "retry"})
        ),
    )


def with_text(draw: Draw, root: Element) -> None:
    places = [found for found in elements_in_schema(root) if found.tag in ELEMENT_ONLY]
    draw(st.sampled_from(places)).text = "text"


def without_required_attribute(draw: Draw, root: Element) -> None:
    needed = {
        "nds": "dtdversion",
        "add": "class-name",
        "add-attr": "attr-name",
        "modify-attr": "attr-name",
        "component": "name",
    }
    place = draw(
        st.sampled_from([found for found in elements_in_schema(root) if found.tag in needed])
    )
    del place.attrib[needed[place.tag]]


def with_second_side(draw: Draw, root: Element) -> None:
    etree.SubElement(root, draw(st.sampled_from(["input", "output", "source"])))


def with_two_associations(draw: Draw, root: Element) -> None:
    moved = etree.SubElement(root.find("input"), "delete")
    moved.extend([association(draw), association(draw)])


def with_wrong_value(draw: Draw, root: Element) -> None:
    wrong = {
        "int": "x",
        "counter": "1.5",
        "interval": "--1",
        "time": "now",
        "state": "1",
        "octet": "a",
        "structured": "x",
    }
    kind = draw(st.sampled_from(sorted(wrong)))
    place = etree.SubElement(root.find("input"), "add", {"class-name": "a", "dest-dn": "b"})
    node = etree.SubElement(
        etree.SubElement(place, "add-attr", {"attr-name": "a"}), "value", type=kind
    )
    node.text = wrong[kind]


DAMAGES = (
    with_unknown_child,
    with_wrong_word,
    with_text,
    without_required_attribute,
    with_second_side,
    with_two_associations,
    with_wrong_value,
)


def findings(root: Element, profile: Profile) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "document.xds")
        path.write_bytes(etree.tostring(root))
        return list(validate_files([path], profile))


@cache
def xsd_1_1(profile: Profile) -> xmlschema.XMLSchema11:
    return xmlschema.XMLSchema11(xds_schema.path(profile))


def is_valid_by_xsd_1_1(root: Element, profile: Profile) -> bool:
    return xsd_1_1(profile).is_valid(etree.tostring(root, encoding="unicode"))


@settings(max_examples=100, deadline=None)
@given(documents())
def test_a_document_of_the_model_has_no_finding(root: Element) -> None:
    for profile in Profile:
        assert findings(root, profile) == []
        assert is_valid_by_xsd_1_1(root, profile)


@settings(max_examples=150, deadline=None)
@given(documents(), st.sampled_from(DAMAGES), st.data())
def test_a_damaged_document_has_findings_in_both_profiles(
    root: Element, damage: Callable[[Draw, Element], None], data: st.DataObject
) -> None:
    damage(data.draw, root)
    for profile in Profile:
        assert findings(root, profile)
        assert not is_valid_by_xsd_1_1(root, profile)


@settings(max_examples=50, deadline=None)
@given(documents(), st.data())
def test_an_unknown_attribute_is_a_finding_of_the_strict_profile_alone(
    root: Element, data: st.DataObject
) -> None:
    place = data.draw(st.sampled_from(elements_in_schema(root)))
    place.set(data.draw(st.sampled_from(["unknown", "{urn:x}unknown"])), "1")
    assert len(findings(root, Profile.STRICT)) == 1
    assert findings(root, Profile.LENIENT) == []


def shuffle(draw: Draw, root: Element) -> None:
    """Any change whatever, of which nothing is known but that two processors see the same."""
    place = draw(st.sampled_from(list(root.iter("*"))))
    other = draw(st.sampled_from(list(root.iter("*"))))
    what = draw(st.sampled_from(["rename", "remove", "copy", "text", "attribute", "without"]))
    if what == "rename":
        place.tag = other.tag
    elif what == "remove" and place is not root:
        place.getparent().remove(place)
    elif what == "copy":
        place.insert(draw(st.integers(0, len(place))), etree.fromstring(etree.tostring(other)))
    elif what == "text":
        # the package xmlschema takes a no-break space for white space of XML
        text = TEXT.filter(lambda text: text.strip() == text.strip(" \t\r\n"))
        place.text = draw(st.one_of(text, st.sampled_from(["true", "-1", "qqo=", " "])))
    elif what == "attribute" and other.attrib:
        name = draw(st.sampled_from(sorted(other.attrib)))
        place.set(name, draw(st.sampled_from([other.attrib[name], "structured", "octet", ""])))
    elif what == "without" and place.attrib:
        del place.attrib[draw(st.sampled_from(sorted(place.attrib)))]


@settings(max_examples=150, deadline=None)
@given(documents(), st.integers(1, 3), st.data())
def test_libxml2_with_assertions_and_xsd_1_1_agree_on_any_document(
    root: Element, changes: int, data: st.DataObject
) -> None:
    for _ in range(changes):
        shuffle(data.draw, root)
    for profile in Profile:
        assert (findings(root, profile) == []) is is_valid_by_xsd_1_1(root, profile)
