"""Parses a document, in XML or JSON, into typed operations.

Accepts the documents of this program and nothing else: another operation, element or type is a
``DocumentError``, because a consumer that skips it would silently miss a change.  No entity is expanded, no
file or address is opened, and ``Limits`` bound the size before anything is parsed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree

from publisher.consumer.errors import NOWHERE, DocumentError, Origin
from publisher.consumer.operations import (
    Add,
    AddValue,
    AttributeChange,
    Delete,
    Modify,
    ModifyAssociation,
    Operation,
    RemoveAllValues,
    RemoveValue,
    Value,
    ValueComponent,
    ValueType,
)
from publisher.xds.json_form import JsonFormProblem, is_json, to_tree

Element = Any
"""An element of lxml, whose type stubs are incomplete."""

_PARSER = etree.XMLParser(
    encoding="utf-8",
    resolve_entities=False,
    load_dtd=False,
    no_network=True,
    huge_tree=False,
    remove_comments=True,
    remove_pis=True,
)
_TYPES = {str(type_): type_ for type_ in ValueType}
_IGNORED = frozenset({"operation-data", "driver-operation-data"})
"""Elements that carry data of engine and driver, which are no changes of objects."""
_FOREIGN = "only documents of this program can be consumed; check the topic or the file"


@dataclass(frozen=True, slots=True)
class Limits:
    """Greatest document that is parsed.

    The parser itself limits an element's text to 10 MB and the depth to 256 elements.
    """

    max_bytes: int = 64 * 1024 * 1024
    max_tags: int = 1_000_000


DEFAULT_LIMITS = Limits()


def parse_document(
    data: bytes | str, origin: Origin = NOWHERE, limits: Limits = DEFAULT_LIMITS
) -> tuple[Operation, ...]:
    """Parses the operations of a document; a heartbeat has none.

    Raises:
        DocumentError: The document is not XDS of this program, or larger than the limits.
    """
    return tuple(_Reader(origin).operations(_parse(_encode(data, origin), origin, limits)))


def _encode(data: bytes | str, origin: Origin) -> bytes:
    if isinstance(data, bytes):
        return data
    try:
        return data.encode()
    except UnicodeEncodeError as error:
        raise DocumentError(origin, f"not Unicode text ({error}): decode it as UTF-8") from error


def _parse(data: bytes, origin: Origin, limits: Limits) -> Element:
    """Returns ``<nds>``."""
    if len(data) > limits.max_bytes:
        problem = f"the document has {len(data):,} bytes, more than {limits.max_bytes:,}"
        raise DocumentError(origin, f"{problem}: raise Limits.max_bytes if you expect it")
    # an element may have two tags; an attribute needs as much memory as a tag, and so does an item of JSON
    marks = (b"{", b",") if is_json(data) else (b"<", b"=")
    if sum(map(data.count, marks)) > 2 * limits.max_tags:
        problem = f"the document has more than {limits.max_tags:,} tags and attributes"
        raise DocumentError(origin, f"{problem}: raise Limits.max_tags if you expect it")
    if is_json(data):
        try:
            return to_tree(data)
        except JsonFormProblem as problem:
            raise DocumentError(origin, f"{problem}: {_FOREIGN}") from problem
    if b"<!DOCTYPE" in data:
        raise DocumentError(
            origin, f"the document has a DOCTYPE, unlike documents in XDS: {_FOREIGN}"
        )
    try:
        root: Element = etree.fromstring(data, _PARSER)
    except etree.XMLSyntaxError as error:
        raise DocumentError(origin, f"not XML ({error.msg}): {_FOREIGN}") from error
    if root.tag != "nds":
        raise DocumentError(origin, f"the root is <{root.tag}> instead of <nds>: {_FOREIGN}")
    return root


class _Reader:
    """Reads the elements of one document."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    def operations(self, root: Element) -> Iterator[Operation]:
        inputs = root.findall("input")
        if len(inputs) != 1 or any(child.tag not in ("source", "input") for child in root):
            raise self._problem("<nds> needs one <input>, and before it at most <source>")
        for element in inputs[0]:
            yield self._operation(element)

    def _operation(self, element: Element) -> Operation:
        event_id = element.get("event-id")
        match element.tag:
            case "add":
                added = tuple(self._changes(element, "add-attr", self._read_add))
                association, class_name = self._key(element), self._get(element, "class-name")
                return Add(association, class_name, added, event_id)
            case "modify":
                changes = tuple(self._changes(element, "modify-attr", self._read_modify))
                association, class_name = self._key(element), self._get(element, "class-name")
                return Modify(association, class_name, changes, event_id)
            case "delete":
                self._allow(element, ("association", *_IGNORED))
                return Delete(self._key(element), element.get("class-name"), event_id)
            case "modify-association":
                self._allow(element, ("association", *_IGNORED))
                old, new = self._associations(element, 2)
                return ModifyAssociation(old, new, event_id)
            case _:
                raise self._problem(f"<{element.tag}> is no operation that this version knows")

    def _key(self, element: Element) -> str:
        return self._associations(element, 1)[0]

    def _associations(self, element: Element, count: int) -> list[str]:
        texts = [self._text(child) for child in element.iterchildren("association")]
        if len(texts) != count or not all(texts):
            raise self._problem(f"<{element.tag}> needs {count} <association> with text")
        return texts

    def _changes(self, element: Element, tag: str, read: Any) -> Iterator[Any]:
        self._allow(element, ("association", tag, *_IGNORED))
        for child in element.iterchildren(tag):
            yield from read(child, self._get(child, "attr-name"))

    def _read_add(self, element: Element, name: str) -> Iterator[AddValue]:
        for value in self._values(element):
            yield AddValue(name, value)

    def _read_modify(self, element: Element, name: str) -> Iterator[AttributeChange]:
        for child in element:
            if child.tag == "remove-all-values":
                yield RemoveAllValues(name)
            elif child.tag == "add-value":
                yield from self._read_add(child, name)
            elif child.tag == "remove-value":
                for value in self._values(child):
                    yield RemoveValue(name, value)
            else:
                raise self._problem(f"<{child.tag}> is no change of an attribute")

    def _values(self, element: Element) -> Iterator[Value]:
        self._allow(element, ("value",))
        for child in element:
            yield self._value(child)

    def _value(self, element: Element) -> Value:
        name = element.get("type")
        type_ = None if name is None else _TYPES.get(name)
        if name is not None and type_ is None:
            raise self._problem(f"the type {name!r} of a value is unknown")
        if not len(element):
            value = Value(element.text or "", type_, element.get("association-ref"))
            problem = value.find_problem()
            if problem is not None:
                raise self._problem(f"the value {value.text[:40]!r} of type {name} {problem}")
            return value
        self._allow(element, ("component",))
        components = tuple(
            ValueComponent(
                self._get(child, "name"), self._text(child), child.get("association-ref")
            )
            for child in element
        )
        return Value("", type_, element.get("association-ref"), components)

    def _text(self, element: Element) -> str:
        if len(element):
            raise self._problem(f"<{element.tag}> contains elements instead of text")
        return element.text or ""

    def _get(self, element: Element, name: str) -> str:
        value = element.get(name)
        if not value:
            raise self._problem(f"<{element.tag}> has no {name}")
        return str(value)

    def _allow(self, element: Element, tags: Collection[str]) -> None:
        for child in element:
            if child.tag not in tags:
                raise self._problem(f"<{child.tag}> is unknown in <{element.tag}>")

    def _problem(self, problem: str) -> DocumentError:
        return DocumentError(self._origin, f"{problem}: {_FOREIGN}")
