"""Release notes: the section of a version in ``CHANGELOG.md``."""

from __future__ import annotations

import re

_HEADING = re.compile(r"^## \[(?P<version>[^]]+)\] - (?P<date>.+)$", re.MULTILINE)


class NotesError(Exception):
    """The changelog has no notes for the version; the message says what to do."""


def release_notes(changelog: str, version: str, *, dated: bool) -> str:
    """Returns the section of the version, without its heading.

    Args:
        dated: Whether the version must have a date: a release without one is not allowed.

    Raises:
        NotesError: There is no such section, it is empty, or it has no date.
    """
    headings = list(_HEADING.finditer(changelog))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading["version"] != version:
            continue
        if dated and not re.fullmatch(r"\d{4}-\d\d-\d\d", heading["date"]):
            raise NotesError(
                f"CHANGELOG.md has no date for {version}: write the day in place of {heading['date']!r}"
            )
        notes = changelog[heading.end() : following and following.start()].strip()
        if not notes:
            raise NotesError(f"CHANGELOG.md says nothing about {version}: list its changes")
        return notes
    raise NotesError(f"CHANGELOG.md has no section for {version}: add ## [{version}] - YYYY-MM-DD")
