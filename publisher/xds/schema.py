"""The schema of XDS in the form that libxml2 understands, and its assertions beside it.

``schemas/xds.xsd`` is XSD 1.1; libxml2 knows 1.0.  Everything is derived from the files when they
are loaded, so that there is one source of truth: ``xs:override`` of the lenient profile is carried
out as the recommendation defines it (a transformation of the overridden schema), the assertions are
taken out and compiled as XPath 1.0 (``matches`` as its EXSLT twin), and what is left is XSD 1.0.
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
"""An element of lxml, whose type stubs know less than it does."""

XS = "{http://www.w3.org/2001/XMLSchema}"
_REGULAR_EXPRESSIONS = {"re": "http://exslt.org/regular-expressions"}
FILES = {Profile.STRICT: "xds.xsd", Profile.LENIENT: "xds-lenient.xsd"}


@dataclass(frozen=True, slots=True)
class Assertion:
    """What XSD 1.0 cannot say about an element, and the reason to give when it does not hold."""

    holds: etree.XPath
    reason: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A compiled profile.

    ``suspects`` finds in one pass all elements of a document for which some assertion fails;
    ``assertions`` has the assertions by name of the element; ``open`` are the elements whose
    children are not XDS and not looked at.
    """

    grammar: etree.XMLSchema
    suspects: etree.XPath
    assertions: dict[str, tuple[Assertion, ...]]
    open: frozenset[str]

    def failed_assertions(self, root: Element) -> Iterator[tuple[Element, str]]:
        """The elements that break an assertion, in document order, each with the reason."""
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
    """The compiled schema of a profile; made once."""
    root = overridden(profile)
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


def overridden(profile: Profile) -> Element:
    """The schema of a profile as one document: its ``xs:override`` carried out."""
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
    return {str(found.get("name")): found for found in root.findall(f"{XS}complexType")}


def _elements(root: Element) -> Iterator[tuple[str, str]]:
    """Name and type of every element declaration; a name has one type wherever it stands."""
    for declaration in root.iter(f"{XS}element"):
        yield str(declaration.get("name")), str(declaration.get("type"))


def _assertions(root: Element) -> dict[str, list[tuple[str, str]]]:
    types = _types(root)

    def of_type(name: str | None) -> list[tuple[str, str]]:
        if name is None or name not in types:  # none inherited, or text of xs:string
            return []
        extension = types[name].find(f".//{XS}extension")
        inherited = of_type(None if extension is None else extension.get("base"))
        own = types[name].iter(f"{XS}assert")
        return inherited + [(str(found.get("test")), _documentation(found)) for found in own]

    found = {name: of_type(type_name) for name, type_name in _elements(root)}
    return {name: pairs for name, pairs in found.items() if pairs}


def _documentation(assertion: Element) -> str:
    return " ".join(str(assertion.findtext(f".//{XS}documentation")).split())


def _open_elements(root: Element) -> Iterator[str]:
    """Elements in which children without a namespace fall to a wildcard, or have no place at all."""
    types = _types(root)
    for name, type_name in _elements(root):
        declared = types[type_name]
        wildcards = declared.iter(f"{XS}any")
        if declared.find(f"{XS}simpleContent") is not None or any(
            wildcard.get("namespace") != "##other" for wildcard in wildcards
        ):
            yield name
