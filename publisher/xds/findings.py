"""What a check of documents finds, and how it is shown.  Knows neither schema nor parser."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum


class Profile(StrEnum):
    """How much a document may differ from the documented model."""

    STRICT = "strict"
    """What no reference page documents is a finding."""
    LENIENT = "lenient"
    """Known practice of engine and drivers outside the documented model passes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong: in which file and line, in which document of the file (both from 1), at
    which element (its path; empty where there is no element to name), and what."""

    file: str
    line: int
    document: int
    element: str
    reason: str


def text_line(finding: Finding) -> str:
    """``file:line: element: reason``, one printable line whatever the file holds."""
    element = f"{finding.element}: " if finding.element else ""
    return _printable(f"{finding.file}:{finding.line}: {element}{finding.reason}")


def json_line(finding: Finding) -> str:
    """The finding as one line of JSON, in ASCII."""
    return json.dumps(asdict(finding))


def _printable(text: str) -> str:
    """Other characters as escapes, so that no file name or value can drive a terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
