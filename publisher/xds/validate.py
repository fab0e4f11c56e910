"""Checks documents against the XDS schema and reports the place of each problem.

libxml2 checks a document against XSD 1.0, and XPath checks the assertions that XSD 1.0 cannot express.
Content that is not a document is a finding, too: no content of a file raises an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lxml import etree

from publisher.xds.escape import LONGEST_TEXT
from publisher.xds.findings import Finding, Profile, json_line, text_line
from publisher.xds.framing import BROKEN_FILE, Framed, documents, refusal
from publisher.xds.json_form import JsonFormProblem, is_json, to_tree
from publisher.xds.schema import Element, Schema, load

__all__ = ["Finding", "Profile", "json_line", "text_line", "validate_files"]

_LAST_SHORT_LINE = 65535
"""Greatest line number that libxml2 stores for a node; for later lines it returns that of a text nearby."""

_PARSER = etree.XMLParser(encoding="utf-8", resolve_entities=False, load_dtd=False, no_network=True)
"""A parser with the limits that readers have by default."""
_RESOURCE_LIMIT = "Resource limit exceeded"
_TOO_LONG = (
    f"a text or tag has more than {LONGEST_TEXT:,} bytes, which parsers of XML refuse by default: shorten the"
    " value, or publish JSON"
)
_NO_MEMORY = "cannot be read: it needs more memory than is available; divide the file"
_SUBJECT = re.compile(r"^Element '[^']*'(, |: )|\[facet '\w+'\] ")
_WRONG_ROOT = "SCHEMAV_CVC_ELT_1"
_HINTS = re.compile(r", use XML_PARSE_HUGE option|, line \d+, column \d+$|( as)? line 1(?!\d)")


def validate_files(
    paths: Iterable[str | Path],
    profile: Profile | str = Profile.STRICT,
    counts: Counter[str] | None = None,
) -> Iterator[Finding]:
    """Yields the findings of all files in the order of files, documents and lines.

    A file contains one document, or one on each line, and may be compressed with gzip.  An unreadable file
    is a finding.  Adds the documents of each file to ``counts``.  Raises ``ValueError`` for an unknown
    profile, ``FatalError`` if the schema is missing.
    """
    schema = load(Profile(profile))
    for path in paths:
        yield from _validate_file(Path(path), schema, Counter() if counts is None else counts)


def _validate_file(path: Path, schema: Schema, counts: Counter[str]) -> Iterator[Finding]:
    last = Framed(0, 1, b"")
    try:
        for last in documents(path):
            counts[str(path)] += 1
            for line, element, reason in _validate_document(last, schema):
                yield Finding(str(path), line, last.number, element, reason)
    except BROKEN_FILE as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        yield Finding(str(path), last.line, last.number, "", f"cannot be read: {reason}")
    except MemoryError:
        yield Finding(str(path), last.line, last.number, "", _NO_MEMORY)


def _validate_document(framed: Framed, schema: Schema) -> Iterator[tuple[int, str, str]]:
    """Yields line, element and reason of each finding in a document."""
    problem = framed.problem or refusal(framed.data)
    if problem is not None:
        yield framed.line, "", problem
        return
    try:
        in_json = is_json(framed.data)
        root: Element = to_tree(framed.data) if in_json else etree.fromstring(framed.data, _PARSER)
    except JsonFormProblem as problem_of_form:
        yield framed.line, "", str(problem_of_form)
        return
    except etree.XMLSyntaxError as error:
        yield framed.line + max(error.lineno or 1, 1) - 1, "", f"not XML: {_parse_reason(error)}"
        return
    if schema.grammar.validate(root) and not schema.suspects(root):
        return
    for line, element, reason in sorted(_problems(root, schema), key=lambda problem: problem[0]):
        yield framed.line + line - 1, element, reason


def _problems(root: Element, schema: Schema) -> Iterator[tuple[int, str, str]]:
    log: Any = schema.grammar.error_log
    for entry in log:
        path = entry.path or ""
        yield _line(root, path, entry.line), path, _schema_reason(entry)
    tree = root.getroottree()
    for element, reason in schema.failed_assertions(root):
        yield max(element.sourceline or 1, 1), tree.getpath(element), reason


def _schema_reason(entry: Any) -> str:
    if entry.type_name == _WRONG_ROOT:
        return (
            "the root of a document is nds, without a namespace: put operations into nds and input"
        )
    return _SUBJECT.sub("", str(entry.message))


def _line(root: Element, path: str, line: int) -> int:
    if line >= _LAST_SHORT_LINE and ":" not in path:
        return max(root.xpath(path)[0].sourceline or line, line)
    return max(line, 1)


def _parse_reason(error: etree.XMLSyntaxError) -> str:
    if (error.msg or "").startswith(_RESOURCE_LIMIT):
        return _TOO_LONG
    column = error.position[1]
    reason = " ".join(_HINTS.sub("", error.msg or "broken").split())
    return f"{reason} (column {column})"
