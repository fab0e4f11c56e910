"""The meaning of event types: the kind of operation, and the element of one column.

The driver's guide documents types 1 to 5 like this::

    type  operation  element of an attribute                      NULL
    1     add        add-attr                                     no attribute
    2     modify     remove-value old, add-value new              no element for this value
    3     modify     remove-all-values, add-value new             remove-all-values alone
    4     delete
    5, 7  modify     as 3, with current values                    as 3
    6, 8  modify     as 3, with current values                    as 3

With ``insert_query_back = "add"``, types 5 and 7 give an add as type 1, with current values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

OperationKind = Literal["add", "modify", "delete", "modify-association"]
InsertQueryBack = Literal["modify", "add"]
Part = Callable[[str, str | None, str | None], str]
"""Renders the element of an attribute from its escaped name and the old and the new ``<value>`` element
(``None`` for NULL or absent); returns "" if there is no element."""


def add_attr(name: str, _old: str | None, new: str | None) -> str:
    """Renders ``<add-attr>``; "" for NULL."""
    return "" if new is None else f'<add-attr attr-name="{name}">{new}</add-attr>'


def replace_attr(name: str, _old: str | None, new: str | None) -> str:
    """Renders ``<modify-attr>`` that removes all values and adds the new one."""
    if new is None:
        return f'<modify-attr attr-name="{name}"><remove-all-values/></modify-attr>'
    return (
        f'<modify-attr attr-name="{name}"><remove-all-values/>'
        f"<add-value>{new}</add-value></modify-attr>"
    )


class AttributeText(NamedTuple):
    """The parts of an attribute's element: opening tag, content, closing tag."""

    opening: str
    inside: str
    closing: str


def cut_attribute(element: str) -> AttributeText:
    """Splits the element of an attribute, which must not be empty."""
    start, end = element.index('">') + 2, element.rindex("</")
    return AttributeText(element[:start], element[start:end], element[end:])


def join_attributes(elements: Sequence[str]) -> str:
    """Joins the elements of one operation; elements of one attribute share the tags of the first."""
    if len(elements) < 2:
        return "".join(elements)
    attributes = [cut_attribute(element) for element in elements if element]
    shared: dict[str, list[str]] = {}
    for attribute in attributes:
        shared.setdefault(attribute.opening, []).append(attribute.inside)
    if len(shared) == len(attributes):
        return "".join(elements)
    closings = {attribute.opening: attribute.closing for attribute in attributes}
    return "".join(
        [f"{opening}{''.join(inside)}{closings[opening]}" for opening, inside in shared.items()]
    )
