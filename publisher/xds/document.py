"""Operations and whole documents, by templates.

A document is one line of UTF-8 text without an XML declaration (traces of the driver show none, and
UTF-8 is the default of XML), without DOCTYPE and without white space between elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from publisher import __version__
from publisher.xds.escape import attribute_text, escape_attribute, escape_text
from publisher.xds.operations import InsertQueryBack, OperationKind, join_attributes


@dataclass(frozen=True, slots=True)
class EnvelopeOptions:
    """Attributes and texts around the operations of a document; ``None`` omits an attribute."""

    dtdversion: str = "2.0"
    """Attribute ``dtdversion`` of ``<nds>``, the version of the document model."""
    ndsversion: str | None = "8.x"
    """Attribute ``ndsversion`` of ``<nds>``, the version of the directory; ``false`` omits it."""
    product: str = "XDS Publisher"
    """Text of ``<product>``, the name of the program that made the document."""
    version: str | None = __version__
    """Attribute ``version`` of ``<product>``; ``false`` omits it."""
    build: str | None = None
    """Attribute ``build`` of ``<product>``."""
    instance: str | None = None
    """Attribute ``instance`` of ``<product>``, as written by a driver object."""
    contact: str = ""
    """Text of ``<contact>``, the person or team responsible."""


ValueFormat = Literal["xml", "json"]
_MOST_SYNTAX = 256
"""Bytes by which JSON may exceed twice the bytes of XML: a character has an escape of two at most."""


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """Form of the operations of a document."""

    batch_size: Annotated[int, Ge(1), Le(128)] = 1
    """Maximum number of operations in one document; all belong to one object and poll."""
    event_id: bool = False
    """Write the attribute ``event-id`` into operations."""
    insert_query_back: InsertQueryBack = "modify"
    """Operation of event types 5 and 7: ``modify`` as the driver's guide prints it, or ``add``."""
    value_format: ValueFormat = "xml"
    """Format of documents: ``xml``, or ``json`` for consumers without an XML parser."""
    minimal: bool = False
    """Reduce each ``modify`` to the values that differ from those published last, and ignore changes
    without a difference (``unchanged``). The job keeps the published values of its objects."""


def converter_of(value_format: ValueFormat) -> Callable[[str], str] | None:
    """Returns the function that converts a rendered document to the format; ``None`` for XML."""
    if value_format == "xml":
        return None
    from publisher.xds.json_form import to_json  # noqa: PLC0415 - only JSON needs a parser

    return to_json


def limit_of_xml(value_format: ValueFormat, limit: int) -> int:
    """The bytes of XML that never give a document with more bytes than ``limit`` in the format."""
    return limit if value_format == "xml" else (limit - _MOST_SYNTAX) // 2


def operation(
    kind: OperationKind,
    class_name: str,
    association: str,
    fragments: Sequence[str] = (),
    event_id: str | None = None,
    new_association: str | None = None,
) -> str:
    """Renders one operation.  ``class_name``, both associations and ``event_id`` are plain text.

    ``modify-association`` has the old and the new association, and no class.

    ``fragments`` are the elements of attributes (``operations.Part``); several elements of one
    attribute are joined.  Raises ``ValueProblem`` if XML 1.0 forbids a character of a name or of the key:
    such characters are never replaced, because two objects could become one.
    """
    attributes = f' class-name="{escape_attribute(class_name)}"' if new_association is None else ""
    if event_id is not None:
        attributes += f' event-id="{attribute_text(event_id)}"'
    content = _association(association) + join_attributes(fragments)
    if new_association is not None:
        content += _association(new_association)
    return f"<{kind}{attributes}>{content}</{kind}>"


def _association(text: str) -> str:
    return f"<association>{escape_text(text, 'the key')}</association>"


class Envelope:
    """Wraps operations into documents.  Raises ``ValueProblem`` for options that XML forbids."""

    def __init__(self, options: EnvelopeOptions) -> None:
        root = _attributes(dtdversion=options.dtdversion, ndsversion=options.ndsversion)
        product = _attributes(
            build=options.build, instance=options.instance, version=options.version
        )
        contact = escape_text(options.contact, "contact")
        self.head = (
            f"<nds{root}><source><product{product}>{escape_text(options.product, 'product')}"
            f"</product>{f'<contact>{contact}</contact>' if contact else '<contact/>'}"
            "</source><input>"
        )
        self.tail = "</input></nds>"

    def document(self, operations: Iterable[str]) -> str:
        """Composes a document: one line, without a line break at its end."""
        return f"{self.head}{''.join(operations)}{self.tail}"


def _attributes(**values: str | None) -> str:
    return "".join(
        f' {name}="{escape_attribute(value)}"'
        for name, value in values.items()
        if value is not None
    )
