"""Lays documents out for terminals: values bold and tags dim, which light and dark backgrounds show alike."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from lxml import etree

from publisher.console import Styled, printable, shorten, style

_WIDTH = 80
_LONE_VALUE = re.compile(
    r"(<(?:add-attr|add-value|remove-value)[^<>]*>)\n\s+(<value type=\"(?!dn)[^<>]*>[^<>]*</value>)"
    r"\n\s+(</)([^<>]*>)"
)
_REFERENCE = re.compile(r"<value type=(\S+) association-ref=(\"[^\"]*\")>")
_TAG = re.compile(r"(<[^<>]*>)")
_NAME = re.compile(r'(?<=attr-name=)("[^"]*")|(?<=class-name=)("[^"]*")|(?<=-ref=)("[^"]*")')
_SYNTAX = re.compile(r'("(?:[^"\\]|\\.)*":|[][{},])')
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)


def document_lines(text: str, width: int = _WIDTH) -> Iterator[Styled]:
    """Yields the lines of a document in XML or JSON.

    Long values are truncated.  Text that is no document stays one line."""
    try:
        if text.startswith("{"):
            parts = _SYNTAX.split(
                _escape(json.dumps(json.loads(text), indent=2, ensure_ascii=False))
            )
        else:
            root = etree.fromstring(text.encode(), _PARSER)
            for element in root.iter():
                element.text = shorten(element.text) if element.text else None
            parts = _TAG.split(_escape(layout(root, width)))
    except (ValueError, etree.XMLSyntaxError):
        parts = [printable(text)]
    styled = (
        _style_syntax(part) if number % 2 else style(part, bold=True)
        for number, part in enumerate(parts)
    )
    yield from map(Styled, "".join(styled).split("\n"))


def _escape(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _style_syntax(text: str) -> str:
    """Dims a tag of XML, but for the names and references in it, or a name or a bracket of JSON."""
    parts = filter(None, _NAME.split(text))
    return "".join(
        part if part.startswith('"') and text[0] == "<" else style(part, dim=True) for part in parts
    )


def layout(element: etree._Element, width: int = _WIDTH) -> str:
    """Formats a document for terminals: short values beside their parent, long tags over several lines."""
    etree.indent(element)
    text = etree.tostring(element, encoding="unicode").rstrip()
    text = _LONE_VALUE.sub(lambda match: _join(match, width), text)
    return "\n".join(_break(line, width) for line in text.split("\n"))


def _join(match: re.Match[str], width: int) -> str:
    """Puts a value beside its parent if both fit into a line."""
    line = match.expand(r"\1\2\3\4")
    margin = match.start() - match.string.rfind("\n", 0, match.start()) - 1
    return line if margin + len(line) <= width else match.group()


def _break(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    margin = " " * (len(line) - len(line.lstrip()) + 2)
    return _REFERENCE.sub(rf"<value type=\1\n{margin}association-ref=\2\n{margin}>", line)
