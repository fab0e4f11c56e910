"""The JSON form holds what the XML holds, and nothing else is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from lxml import etree

from publisher.consumer import DocumentError, Limits, parse_document
from publisher.resources import resource
from publisher.xds.document import Envelope, EnvelopeOptions, converter_of, limit_of_xml, operation
from publisher.xds.json_form import JsonFormProblem, is_json, to_json, to_tree
from publisher.xds.operations import add_attr, replace_attr
from publisher.xds.validate import validate_files
from tests.support.event_meanings import update_attr

GOLDEN = Path(__file__).parents[2] / "golden"
SCHEMA = Draft202012Validator(json.loads(resource("schemas/xds.schema.json").read_text("utf-8")))
TEXT = st.text(
    st.characters(
        exclude_categories=["Cs"],
        exclude_characters=[*map(chr, {*range(32)} - {9, 10, 13}), "\ufffe", "\uffff"],
    ),
    max_size=20,
)
NAME = TEXT.filter(bool)


def golden_operations() -> dict[str, str]:
    """Operations of the golden documents, by file and number."""
    found = {}
    parser = etree.XMLParser(remove_blank_text=True)
    paths = set(GOLDEN.rglob("*.xml")) - set((GOLDEN / "xds").rglob("*.xml"))  # foreign documents
    for path in sorted(paths):
        root = etree.fromstring(path.read_bytes(), parser)
        operations = root[-1] if root.tag == "nds" else [root]
        for number, element in enumerate(operations):
            name = f"{path.relative_to(GOLDEN)}-{number}"
            found[name] = etree.tostring(element, encoding="unicode")
    return found


OPERATIONS = golden_operations()


def canonical(element: Any) -> bytes:
    return bytes(etree.tostring(element, method="c14n"))


def assert_lossless(document: str) -> None:
    content = to_json(document)
    size = len(content.encode())
    assert limit_of_xml("json", size - 1) < len(document.encode())
    assert "\n" not in content
    assert is_json(content.encode())
    assert list(SCHEMA.iter_errors(json.loads(content))) == []
    original = canonical(etree.fromstring(document.encode()))
    assert canonical(to_tree(content)) == original
    assert parse_document(content) == parse_document(document)


def test_there_are_golden_documents_of_every_operation() -> None:
    kinds = {text[1:].split(" ")[0].split(">")[0] for text in OPERATIONS.values()}
    assert kinds >= {"add", "modify", "delete", "modify-association"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_golden_documents_come_back(name: str) -> None:
    assert_lossless(Envelope(EnvelopeOptions()).document([OPERATIONS[name]]))


@given(key=TEXT, name=NAME, old=TEXT, new=TEXT, event_id=st.none() | TEXT, contact=TEXT)
def test_any_text_comes_back(
    key: str, name: str, old: str, new: str, event_id: str | None, contact: str
) -> None:
    document = etree.Element("nds", dtdversion="4.0", ndsversion=name)
    source = etree.SubElement(document, "source")
    etree.SubElement(source, "product", build=key, version=new).text = old
    etree.SubElement(source, "contact").text = contact
    element = etree.SubElement(etree.SubElement(document, "input"), "modify", {"class-name": name})
    if event_id is not None:
        element.set("event-id", event_id)
    etree.SubElement(element, "association").text = key or "k"
    attribute = etree.SubElement(element, "modify-attr", {"attr-name": name})
    removed, added = (etree.SubElement(attribute, f"{kind}-value") for kind in ("remove", "add"))
    etree.SubElement(removed, "value", {"type": "string"}).text = old
    etree.SubElement(added, "value", {"type": "dn", "association-ref": key}).text = new
    structured = etree.SubElement(added, "value", type="structured")
    etree.SubElement(structured, "component", {"name": name, "association-ref": old}).text = new
    assert_lossless(etree.tostring(document, encoding="unicode"))


def test_the_form_is_the_documented_one() -> None:
    value = '<value type="string">Jack</value>'
    reference = '<value type="dn" association-ref="idu=2">idu=2</value>'
    document = Envelope(EnvelopeOptions(version="1", contact="hr")).document(
        [
            operation("add", "usr", "idu=1", [add_attr("fname", None, value)], "a:1"),
            operation("modify", "usr", "idu=1", [replace_attr("boss", None, reference)]),
            operation("modify", "usr", "idu=1", [update_attr("fname", value, None)]),
            operation("delete", "usr", "idu=1"),
            operation("modify-association", "", "idu=1", new_association="idu=3"),
        ]
    )
    jack = {"type": "string", "text": "Jack"}
    boss = {"type": "dn", "association_ref": "idu=2", "text": "idu=2"}
    usr = {"class_name": "usr", "association": "idu=1"}
    assert json.loads(to_json(document)) == {
        "dtdversion": "2.0",
        "ndsversion": "8.x",
        "source": {"product": {"name": "XDS Publisher", "version": "1"}, "contact": "hr"},
        "operations": [
            {
                "operation": "add",
                "event_id": "a:1",
                "attributes": [{"name": "fname", "values": [jack]}],
                **usr,
            },
            {
                "operation": "modify",
                "attributes": [
                    {
                        "name": "boss",
                        "changes": [
                            {"change": "remove-all-values"},
                            {"change": "add-value", "values": [boss]},
                        ],
                    }
                ],
                **usr,
            },
            {
                "operation": "modify",
                "attributes": [
                    {"name": "fname", "changes": [{"change": "remove-value", "values": [jack]}]}
                ],
                **usr,
            },
            {"operation": "delete", **usr},
            {
                "operation": "modify-association",
                "old_association": "idu=1",
                "new_association": "idu=3",
            },
        ],
    }


def test_heartbeats_have_no_operations() -> None:
    document = Envelope(EnvelopeOptions()).document(())
    assert json.loads(to_json(document))["operations"] == []
    assert parse_document(to_json(document)) == ()


def test_xml_stays_as_it_is() -> None:
    assert converter_of("xml") is None
    assert converter_of("json") is to_json


def in_input(operation: str) -> str:
    return f'{{"dtdversion":"2.0","operations":[{operation}]}}'


BROKEN = {
    "no JSON": ("{", "not JSON: "),
    "a member twice": ('{"dtdversion":"1","dtdversion":"2"}', "a member appears twice"),
    "deep": ("{" + '"a":[' * 100_000, "not JSON: "),
    "no operations": ('{"dtdversion":"2.0"}', "the document has no operations"),
    "unknown member": ('{"dtdversion":"2.0","operations":[],"x":1}', "the unknown member 'x'"),
    "number for text": ('{"dtdversion":2,"operations":[]}', "dtdversion is not a string"),
    "null for text": (
        in_input('{"operation":"delete","association":null}'),
        r"operations\[0\]: association is not a string",
    ),
    "object for array": ('{"dtdversion":"2.0","operations":{}}', "operations is not an array"),
    "text for object": (in_input('"add"'), r"operations\[0\]: operation is none of add, modify"),
    "unknown operation": (
        in_input('{"operation":"sync","association":"a"}'),
        r"operations\[0\]: operation is none of",
    ),
    "delete with attributes": (
        in_input('{"operation":"delete","association":"a","attributes":[]}'),
        "the unknown member 'attributes'",
    ),
    "no class": (
        in_input('{"operation":"add","association":"a","attributes":[]}'),
        r"operations\[0\] has no class_name",
    ),
    "unknown change": (
        in_input(
            '{"operation":"modify","class_name":"c","association":"a","attributes":'
            '[{"name":"n","changes":[{"change":"replace"}]}]}'
        ),
        r"operations\[0\].attributes\[0\].changes\[0\]: change is none of",
    ),
    "text and components": (
        in_input(
            '{"operation":"add","class_name":"c","association":"a","attributes":'
            '[{"name":"n","values":[{"text":"a","components":[]}]}]}'
        ),
        r"values\[0\] has the unknown member 'text'",
    ),
    "a forbidden character": (
        in_input('{"operation":"delete","association":"\\u0000"}'),
        r"operations\[0\]: association has a character that XML forbids",
    ),
    "half a character": (
        in_input('{"operation":"delete","association":"\\ud800"}'),
        "association has a character that XML forbids",
    ),
    "a forbidden character in a name": (
        in_input('{"operation":"delete","association":"a","class_name":"\\u0001"}'),
        "class_name has a character that XML forbids",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_everything_else_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    data, message = BROKEN[name]
    with pytest.raises(JsonFormProblem, match=message):
        to_tree(data)
    with pytest.raises(DocumentError, match=message):
        parse_document(data.encode())
    path = tmp_path / "part.xds"
    path.write_text(f"{to_json(Envelope(EnvelopeOptions()).document(()))}\n{data}\n")
    (finding,) = validate_files([path])
    assert finding.line == 2


@pytest.mark.parametrize("name", [*(n for n in BROKEN if "character" not in n)][3:])
def test_the_schema_refuses_the_same(name: str) -> None:
    assert list(SCHEMA.iter_errors(json.loads(BROKEN[name][0]))) != []


FOREIGN = {
    "not XML": ("<nds", "not XML"),
    "another root": ("<xds/>", "<xds> is in place of <nds>"),
    "output": ('<nds dtdversion="4.0"><output/></nds>', "<nds> has <output>"),
    "a query": ('<nds dtdversion="4.0"><input><query/></input></nds>', "<input> has <query>"),
    "an attribute": (
        '<nds dtdversion="4.0"><input><delete src-dn="a"/></input></nds>',
        "<delete> has the attribute src-dn",
    ),
    "no key": ('<nds dtdversion="4.0"><input><delete/></input></nds>', "has 0 <association>"),
    "an element in a text": (
        '<nds dtdversion="4.0"><input><delete><association><b/></association></delete></input></nds>',
        "<association> has elements",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_other_xml_has_no_json_form(name: str) -> None:
    document, message = FOREIGN[name]
    with pytest.raises(JsonFormProblem, match=message):
        to_json(document)


def test_documents_in_json_have_the_limits_of_the_reader(tmp_path: Path) -> None:
    many = in_input(",".join(['{"operation":"delete","association":"a"}'] * 20))
    assert len(parse_document(many)) == 20
    with pytest.raises(DocumentError, match="more than 10 tags"):
        parse_document(many, limits=Limits(max_tags=10))
    path = tmp_path / "part.xds"
    path.write_text(in_input(",".join(["{}"] * 250_001)))
    (finding,) = validate_files([path])
    assert "more than 250,000 tags" in finding.reason


def test_validate_finds_what_the_schema_of_xml_forbids(tmp_path: Path) -> None:
    path = tmp_path / "part.xds"
    value = '{"type":"unknown","text":"a"}'
    bad = in_input(
        '{"operation":"add","class_name":"c","association":"a",'
        f'"attributes":[{{"name":"n","values":[{value}]}}]}}'
    )
    path.write_text(in_input("") + "\n" + bad + "\n")
    findings = list(validate_files([path]))
    assert {(finding.line, finding.document) for finding in findings} == {(2, 2)}
    assert "unknown" in findings[0].reason
