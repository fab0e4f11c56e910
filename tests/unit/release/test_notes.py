"""Release notes from the changelog."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher import __version__
from tests.release.notes import NotesError, release_notes
from tests.release.packages import supported_versions

CHANGELOG = """\
# Changelog

## [0.3.0] - unreleased

- A third.

## [0.2.0] - 2026-02-03

### Added

- A second.

## [0.1.0] - 2026-01-01
"""


def test_notes_are_the_section_of_the_version() -> None:
    assert release_notes(CHANGELOG, "0.2.0", dated=True) == "### Added\n\n- A second."


def test_only_a_check_needs_no_date() -> None:
    assert release_notes(CHANGELOG, "0.3.0", dated=False) == "- A third."
    with pytest.raises(NotesError, match=r"no date for 0\.3\.0: write the day in place of"):
        release_notes(CHANGELOG, "0.3.0", dated=True)


@pytest.mark.parametrize(
    ("version", "message"), [("0.1.0", "says nothing about"), ("0.4.0", "has no section for")]
)
def test_missing_notes_are_refused(version: str, message: str) -> None:
    with pytest.raises(NotesError, match=message):
        release_notes(CHANGELOG, version, dated=True)


def test_changelog_of_this_version_has_notes() -> None:
    changelog = (Path(__file__).parents[3] / "CHANGELOG.md").read_text("utf-8")
    assert "### Added" in release_notes(changelog, __version__, dated=False)


def test_supported_versions_are_minor_versions() -> None:
    assert supported_versions()[:3] == ["3.11", "3.12", "3.13"]
