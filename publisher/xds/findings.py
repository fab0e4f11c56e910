"""Findings of a check of documents, and their text.  Needs neither schema nor parser."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum


class Profile(StrEnum):
    """Tolerance for documents that differ from the documented model."""

    STRICT = "strict"
    """Accepts only what reference pages document."""
    LENIENT = "lenient"
    """Also accepts elements that engine and drivers are known to use."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a document: line and document number count from 1.

    ``element`` is the path of the element; empty if the problem has none."""

    file: str
    line: int
    document: int
    element: str
    reason: str


def text_line(finding: Finding) -> str:
    """Formats a finding as one printable line: ``file:line: element: reason``."""
    element = f"{finding.element}: " if finding.element else ""
    return _printable(f"{finding.file}:{finding.line}: {element}{finding.reason}")


def json_line(finding: Finding) -> str:
    """Formats a finding as one line of JSON, in ASCII."""
    return json.dumps(asdict(finding))


def _printable(text: str) -> str:
    """Escapes unprintable characters, so that no file name or value can control a terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
