"""The JSON form of a document, for consumers without an XML parser.

``schemas/xds.schema.json`` describes it.  Both forms hold the same: a document of this program that is
written as JSON and read back has the same elements, attributes and texts.  Other documents are refused,
because content that has no place in the other form would be lost.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from lxml import etree

Element = Any
"""An element of lxml, whose type stubs are incomplete."""
Json = Mapping[str, Any]

_PARSER = etree.XMLParser(
    encoding="utf-8", resolve_entities=False, load_dtd=False, no_network=True, huge_tree=True
)
_ASSOCIATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "add": ("association",),
        "modify": ("association",),
        "delete": ("association",),
        "modify-association": ("old_association", "new_association"),
    }
)
"""Operations, and the members that hold the texts of their ``<association>`` elements."""
_ATTRIBUTE_TAGS: Mapping[str, str] = MappingProxyType({"add": "add-attr", "modify": "modify-attr"})
_REMOVE_ALL = "remove-all-values"
_CHANGES = (_REMOVE_ALL, "remove-value", "add-value")
_PRODUCT_ATTRIBUTES = ("build", "instance", "version")
_OPERATION_ATTRIBUTES = ("class-name", "event-id")
_VALUE_ATTRIBUTES = ("type", "association-ref")
_COMPONENT_ATTRIBUTES = ("name", "association-ref")


class JsonFormProblem(ValueError):  # noqa: N818 -- callers add the position and what to do
    """Content that the form does not have; the message names its place in the document."""


def is_json(data: bytes) -> bool:
    """Returns whether a document is in JSON: XML never begins with a brace."""
    return data[:64].lstrip()[:1] == b"{"


def to_json(document: str | bytes) -> str:
    """Converts a document from XML to one line of JSON, without a line break.

    Raises:
        JsonFormProblem: It is not a document of this program.
    """
    data = document if isinstance(document, bytes) else document.encode()
    try:
        root = etree.fromstring(data, _PARSER)
    except etree.XMLSyntaxError as error:
        raise JsonFormProblem(f"not XML: {error.msg}") from error
    return json.dumps(_document(root), ensure_ascii=False, separators=(",", ":"))


def to_tree(data: str | bytes) -> Element:
    """Converts a document from JSON; returns its ``<nds>``.

    Raises:
        JsonFormProblem: It is not the JSON form of a document.
    """
    try:
        content = json.loads(data, object_pairs_hook=_unique_members)
    except (ValueError, RecursionError) as error:
        raise JsonFormProblem(f"not JSON: {error}") from error
    return _build_document(content)


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member appears twice in an object")
    return members


def _document(root: Element) -> dict[str, Any]:
    _expect(root, "nds")
    content = _attributes(root, ("dtdversion", "ndsversion"))
    for child in root:
        match child.tag:
            case "source" if "source" not in content:
                content["source"] = _source(child)
            case "input" if "operations" not in content:
                content["operations"] = [_operation(operation) for operation in child]
            case _:
                raise JsonFormProblem(f"<nds> has <{child.tag}>")
    if "operations" not in content:
        raise JsonFormProblem("<nds> has no <input>")
    return content


def _source(element: Element) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for child in element:
        match child.tag:
            case "product":
                attributes = _attributes(child, _PRODUCT_ATTRIBUTES)
                content["product"] = {"name": _text(child), **attributes}
            case "contact":
                content["contact"] = _text(child)
            case _:
                raise JsonFormProblem(f"<source> has <{child.tag}>")
    return content


def _operation(element: Element) -> dict[str, Any]:
    kind = element.tag
    if kind not in _ASSOCIATIONS:
        raise JsonFormProblem(f"<input> has <{kind}>")
    content = {"operation": kind, **_attributes(element, _OPERATION_ATTRIBUTES)}
    tag = _ATTRIBUTE_TAGS.get(kind)
    associations, attributes = [], []
    for child in element:
        if child.tag == "association":
            _attributes(child, ())
            associations.append(_text(child))
        elif child.tag == tag:
            attributes.append(_attribute(child))
        else:
            raise JsonFormProblem(f"<{kind}> has <{child.tag}>")
    names = _ASSOCIATIONS[kind]
    if len(associations) != len(names):
        raise JsonFormProblem(f"<{kind}> has {len(associations)} <association>")
    content.update(zip(names, associations, strict=True))
    return content if tag is None else {**content, "attributes": attributes}


def _attribute(element: Element) -> dict[str, Any]:
    content = {"name": _attributes(element, ("attr-name",)).get("attr_name")}
    if element.tag == "add-attr":
        return {**content, "values": [_value(child) for child in element]}
    return {**content, "changes": [_change(child) for child in element]}


def _change(element: Element) -> dict[str, Any]:
    _attributes(element, ())
    if element.tag not in _CHANGES:
        raise JsonFormProblem(f"<modify-attr> has <{element.tag}>")
    if element.tag != _REMOVE_ALL:
        return {"change": element.tag, "values": [_value(child) for child in element]}
    return {"change": element.tag}


def _value(element: Element) -> dict[str, Any]:
    _expect(element, "value")
    content = _attributes(element, _VALUE_ATTRIBUTES)
    if len(element):
        return {**content, "components": [_component(child) for child in element]}
    return {**content, "text": _text(element)}


def _component(element: Element) -> dict[str, Any]:
    _expect(element, "component")
    return {**_attributes(element, _COMPONENT_ATTRIBUTES), "text": _text(element)}


def _attributes(element: Element, names: Collection[str]) -> dict[str, Any]:
    for name in element.attrib:
        if name not in names:
            raise JsonFormProblem(f"<{element.tag}> has the attribute {name}")
    return {
        name.replace("-", "_"): element.get(name) for name in names if element.get(name) is not None
    }


def _text(element: Element) -> str:
    if len(element):
        raise JsonFormProblem(f"<{element.tag}> has elements")
    return element.text or ""


def _expect(element: Element, tag: str) -> None:
    if element.tag != tag:
        raise JsonFormProblem(f"<{element.tag}> is in place of <{tag}>")


def _build_document(content: Any) -> Element:
    place = "the document"
    members = _members(content, place, ("dtdversion", "operations"), ("ndsversion", "source"))
    root = etree.Element("nds")
    _set_attributes(root, members, ("dtdversion", "ndsversion"), place)
    if "source" in members:
        _build_source(root, members["source"])
    inside = etree.SubElement(root, "input")
    for operation, path in _each(members, "operations", ""):
        _build_operation(inside, operation, path)
    return root


def _build_source(root: Element, content: Any) -> None:
    members = _members(content, "source", (), ("product", "contact"))
    element = etree.SubElement(root, "source")
    if "product" in members:
        place = "source.product"
        named = _members(members["product"], place, ("name",), _PRODUCT_ATTRIBUTES)
        product = _add_text(element, "product", named, "name", place)
        _set_attributes(product, named, _PRODUCT_ATTRIBUTES, place)
    if "contact" in members:
        _add_text(element, "contact", members, "contact", "source")


def _build_operation(parent: Element, content: Any, place: str) -> None:
    kind = _choice(content, "operation", _ASSOCIATIONS, place)
    tag = _ATTRIBUTE_TAGS.get(kind)
    names = _ASSOCIATIONS[kind]
    required = ("operation", *names, *(() if tag is None else ("class_name", "attributes")))
    optional = ("event_id", *(("class_name",) if kind == "delete" else ()))
    members = _members(content, place, required, optional)
    element = etree.SubElement(parent, kind)
    _set_attributes(element, members, _OPERATION_ATTRIBUTES, place)
    for name in names:
        _add_text(element, "association", members, name, place)
    if tag is not None:
        for attribute, path in _each(members, "attributes", place):
            _build_attribute(element, tag, attribute, path)


def _build_attribute(parent: Element, tag: str, content: Any, place: str) -> None:
    inside = "values" if tag == "add-attr" else "changes"
    members = _members(content, place, ("name", inside))
    element = etree.SubElement(parent, tag)
    _set(element, "attr-name", members, "name", place)
    if inside == "values":
        _build_values(element, members, place)
        return
    for change, path in _each(members, "changes", place):
        kind = _choice(change, "change", _CHANGES, path)
        has_values = kind != _REMOVE_ALL
        named = _members(change, path, ("change", "values") if has_values else ("change",))
        changed = etree.SubElement(element, kind)
        if has_values:
            _build_values(changed, named, path)


def _build_values(parent: Element, members: Json, place: str) -> None:
    for content, path in _each(members, "values", place):
        has_components = isinstance(content, dict) and "components" in content
        inside = "components" if has_components else "text"
        value = _members(content, path, (inside,), ("type", "association_ref"))
        if has_components:
            element = etree.SubElement(parent, "value")
            for component, name in _each(value, "components", path):
                _build_component(element, component, name)
        else:
            element = _add_text(parent, "value", value, "text", path)
        _set_attributes(element, value, _VALUE_ATTRIBUTES, path)


def _build_component(parent: Element, content: Any, place: str) -> None:
    members = _members(content, place, ("name", "text"), ("association_ref",))
    element = _add_text(parent, "component", members, "text", place)
    _set_attributes(element, members, _COMPONENT_ATTRIBUTES, place)


def _members(
    content: Any, place: str, required: Collection[str], optional: Collection[str] = ()
) -> Json:
    if not isinstance(content, dict):
        raise JsonFormProblem(f"{place} is not an object")
    for name in required:
        if name not in content:
            raise JsonFormProblem(f"{place} has no {name}")
    for name in content:
        if name not in required and name not in optional:
            raise JsonFormProblem(f"{place} has the unknown member {name[:80]!r}")
    return content


def _choice(content: Any, name: str, choices: Collection[str], place: str) -> str:
    choice = content.get(name) if isinstance(content, dict) else None
    if not isinstance(choice, str) or choice not in choices:
        raise JsonFormProblem(f"{place}: {name} is none of {', '.join(choices)}")
    return choice


def _each(members: Json, name: str, place: str) -> Iterator[tuple[Any, str]]:
    """Yields the items of an array with their places."""
    path = f"{place}.{name}" if place else name
    if not isinstance(members[name], list):
        raise JsonFormProblem(f"{path} is not an array")
    for number, content in enumerate(members[name]):
        yield content, f"{path}[{number}]"


def _string(members: Json, name: str, place: str) -> str:
    text = members[name]
    if not isinstance(text, str):
        raise JsonFormProblem(f"{place}: {name} is not a string")
    return text


def _add_text(parent: Element, tag: str, members: Json, name: str, place: str) -> Element:
    element = etree.SubElement(parent, tag)
    text = _string(members, name, place)
    try:
        element.text = text or None
    except ValueError as error:
        raise JsonFormProblem(f"{place}: {name} has a character that XML forbids") from error
    return element


def _set(element: Element, attribute: str, members: Json, name: str, place: str) -> None:
    text = _string(members, name, place)
    try:
        element.set(attribute, text)
    except ValueError as error:
        raise JsonFormProblem(f"{place}: {name} has a character that XML forbids") from error


def _set_attributes(element: Element, members: Json, names: Collection[str], place: str) -> None:
    for name in names:
        member = name.replace("-", "_")
        if member in members:
            _set(element, name, members, member, place)
