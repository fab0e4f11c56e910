"""Reads documents of one operation as this program writes them, without building a tree.

Documents in any other form, right or wrong, are left to the parser of consumers, which takes several times
as long.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from xml.sax.saxutils import unescape

from publisher.consumer.errors import DocumentError
from publisher.consumer.parse import parse_document

_FORBIDDEN = r"\x00-\x08\x0a-\x1f\ufffe\uffff"
_CHARACTER = rf"[^<>&{_FORBIDDEN}]"
_TEXT = rf"{_CHARACTER}*(?:&(?:amp|lt|gt|#10|#13);{_CHARACTER}*)*"
_QUOTED = rf'[^"<>&\t{_FORBIDDEN}]'
_NAME = rf"{_QUOTED}+"
_OF = rf'(?: association-ref="{_QUOTED}*(?:&(?:amp|lt|gt|quot|#9|#10|#13);{_QUOTED}*)*")?'
_NUMBER = "-?[0-9]{1,20}"
VALUE_PATTERNS = {
    "int": _NUMBER,
    "counter": _NUMBER,
    "interval": _NUMBER,
    "time": "-?[0-9]{1,10}",
    "state": "true|false",
    "octet": "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
}
"""The texts of values by type; values of other types have any text."""
_TYPED = "|".join(f'{type_}"{_OF}>(?:{text})' for type_, text in VALUE_PATTERNS.items())
_VALUE = (
    rf'<value(?: type="string">{_CHARACTER}*(?=</value>)'  # most values
    rf'|(?: type="(?:string|teleNumber|dn)")?{_OF}>{_TEXT}'
    rf'| type="(?:{_TYPED}))</value>'
)
_VALUES = f"{_VALUE}(?:{_VALUE})*"
_OPERATION = re.compile(
    rf'<(add|modify|delete) class-name="{_NAME}"(?: event-id="{_NAME}")?>'
    rf"<association>((?!</){_TEXT})</association>"
).match
_ADD_ATTR = re.compile(f'<add-attr attr-name="({_NAME})">({_VALUES})</add-attr>').split
_MODIFY_ATTR = re.compile(
    f'<modify-attr attr-name="({_NAME})">(<remove-all-values/>)?'
    f"(?:<remove-value>({_VALUES})</remove-value>)?(?:<add-value>({_VALUES})</add-value>)?</modify-attr>"
).split
_INPUT = "<input>"
_NEXT_VALUE = "</value><value"
MAX_BYTES = 1 << 20
"""Maximum bytes of a document; parsers refuse some larger values."""


class PlainOperation(NamedTuple):
    """The operation of a document."""

    kind: str
    association: str
    attributes: list[str]
    parts: tuple[list[str | None], ...]
    """For each attribute its part of several: the elements to add; for ``<modify>`` before these a mark that
    removes all values, and the elements to remove."""
    has_several: bool
    """True if some parts have several elements."""


def read_plain(data: bytes) -> PlainOperation | None:
    """Reads a document; ``None`` if it has another form."""
    if len(data) > MAX_BYTES:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    start = text.find(_INPUT) + len(_INPUT)
    operation = _OPERATION(text, start)
    if operation is None or not _is_head(text[:start]):
        return None
    kind, association = operation.groups()
    end = f"</{kind}></input></nds>"
    if not text.endswith(end):
        return None
    split, width = (_MODIFY_ATTR, 5) if kind == "modify" else (_ADD_ATTR, 3)
    content = text[operation.end() : -len(end)]
    pieces = split(content)
    if any(pieces[::width]) or (kind == "delete" and len(pieces) > 1):
        return None
    if "&" in association:
        association = unescape(association, {"&#10;": "\n", "&#13;": "\r"})
    parts = (pieces[2::3],) if width == 3 else (pieces[2::5], pieces[3::5], pieces[4::5])
    return PlainOperation(kind, association, pieces[1::width], parts, _NEXT_VALUE in content)


@lru_cache(maxsize=256)
def _is_head(text: str) -> bool:
    """Tests whether a text may stand before the operation of a document."""
    try:
        return not parse_document(f"{text}</input></nds>")
    except DocumentError:
        return False
