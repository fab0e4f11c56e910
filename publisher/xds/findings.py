"""Findings of a check of documents, and their text.  Needs neither schema nor parser."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum


class Profile(StrEnum):
    """Tolerance for documents that differ from the documented model."""

    STRICT = "strict"
    """Everything that no reference page documents is a finding."""
    LENIENT = "lenient"
    """Known practice of engine and drivers outside the documented model passes."""


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
    """``file:line: element: reason`` as one printable line, whatever the file contains."""
    element = f"{finding.element}: " if finding.element else ""
    return _printable(f"{finding.file}:{finding.line}: {element}{finding.reason}")


def json_line(finding: Finding) -> str:
    """The finding as one line of JSON, in ASCII."""
    return json.dumps(asdict(finding))


def _printable(text: str) -> str:
    """Escapes other characters, so that no file name or value can control a terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
