"""The schema of XDS in the form that libxml2 understands, with its assertions as XPath.

``schemas/xds.xsd`` is XSD 1.1, but libxml2 supports only 1.0.  Loading derives both from the file: it applies
``xs:override`` of the lenient profile as the recommendation defines it (a transformation of the overridden
schema), removes the assertions and compiles them as XPath 1.0 (``matches`` as its EXSLT equivalent).  The
remaining schema is XSD 1.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lxml import etree

from publisher.resources import resource
from publisher.xds.findings import Profile

Element = Any
"""An element of lxml, whose type stubs are incomplete."""

XS = "{http://www.w3.org/2001/XMLSchema}"
_REGULAR_EXPRESSIONS = {"re": "http://exslt.org/regular-expressions"}
FILES = {Profile.STRICT: "xds.xsd", Profile.LENIENT: "xds-lenient.xsd"}


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition of an element that XSD 1.0 cannot express, and the reason to report if it fails."""

    holds: etree.XPath
    reason: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A compiled profile.

    ``suspects`` finds in one pass all elements of a document that break an assertion;
    ``assertions`` has the assertions by name of the element; ``open`` has the names of the elements
    whose children are not XDS and are not checked.
    """

    grammar: etree.XMLSchema
    suspects: etree.XPath
    assertions: dict[str, tuple[Assertion, ...]]
    open: frozenset[str]

    def failed_assertions(self, root: Element) -> Iterator[tuple[Element, str]]:
        """Yields the elements that break an assertion, in document order, each with the reason."""
        suspects: Any = self.suspects(root)
        for element in suspects:
            if self._is_xds(element):
                for assertion in self.assertions[element.tag]:
                    if not assertion.holds(element):
                        yield element, assertion.reason

    def _is_xds(self, element: Element) -> bool:
        return not any(
            up.tag in self.open or up.tag.startswith("{") for up in element.iterancestors()
        )


def path(profile: Profile) -> Path:
    """The schema file of a profile."""
    return resource(f"schemas/{FILES[profile]}")


@cache
def load(profile: Profile) -> Schema:
    """Loads and compiles the schema of a profile once."""
    root = apply_override(profile)
    texts = _assertions(root)
    open_elements = frozenset(_open_elements(root))
    for assertion in list(root.iter(f"{XS}assert")):
        assertion.getparent().remove(assertion)
    assertions = {
        name: tuple(Assertion(_xpath(f"boolean({test})"), reason) for test, reason in pairs)
        for name, pairs in texts.items()
    }
    suspects = " | ".join(
        f"//{name}[{' or '.join(f'not({test})' for test, _ in pairs)}]"
        for name, pairs in texts.items()
    )
    return Schema(etree.XMLSchema(root), _xpath(suspects), assertions, open_elements)


def _xpath(expression: str) -> etree.XPath:
    return etree.XPath(expression.replace("matches(", "re:test("), namespaces=_REGULAR_EXPRESSIONS)


def apply_override(profile: Profile) -> Element:
    """Reads the schema of a profile as one document and applies its ``xs:override``."""
    root = etree.parse(path(profile)).getroot()
    override = root.find(f"{XS}override")
    if override is None:
        return root
    base = etree.parse(resource(f"schemas/{override.get('schemaLocation')}")).getroot()
    replacements = {(child.tag, child.get("name")): child for child in override}
    for component in list(base):
        replacement = replacements.get((component.tag, component.get("name")))
        if replacement is not None:
            base.replace(component, deepcopy(replacement))
    return base


def _types(root: Element) -> dict[str, Element]:
    return {str(type_.get("name")): type_ for type_ in root.findall(f"{XS}complexType")}


def _elements(root: Element) -> Iterator[tuple[str, str]]:
    """Yields name and type of every element declaration; a name has the same type everywhere."""
    for declaration in root.iter(f"{XS}element"):
        yield str(declaration.get("name")), str(declaration.get("type"))


def _assertions(root: Element) -> dict[str, list[tuple[str, str]]]:
    types = _types(root)

    def of_type(name: str | None) -> list[tuple[str, str]]:
        if name is None or name not in types:  # no base type, or text of xs:string
            return []
        extension = types[name].find(f".//{XS}extension")
        inherited = of_type(None if extension is None else extension.get("base"))
        asserts = types[name].iter(f"{XS}assert")
        return inherited + [(str(node.get("test")), _documentation(node)) for node in asserts]

    assertions = {name: of_type(type_name) for name, type_name in _elements(root)}
    return {name: pairs for name, pairs in assertions.items() if pairs}


def _documentation(assertion: Element) -> str:
    return " ".join(str(assertion.findtext(f".//{XS}documentation")).split())


def _open_elements(root: Element) -> Iterator[str]:
    """Yields elements whose children are not described: any child is permitted, or only text is."""
    types = _types(root)
    for name, type_name in _elements(root):
        type_ = types[type_name]
        wildcards = type_.iter(f"{XS}any")
        if type_.find(f"{XS}simpleContent") is not None or any(
            wildcard.get("namespace") != "##other" for wildcard in wildcards
        ):
            yield name
