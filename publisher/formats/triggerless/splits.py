"""The splits of compared tables: the differences that a comparison found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from publisher.formats.files.file_splits import Split
from publisher.model.change import Reason


@dataclass(frozen=True, slots=True)
class FoundDifferences:
    """Some of the differences of a table, in files of one folder, which is the path of the split."""

    source_name: str
    """The table's name in the settings, and in positions."""
    schema: str | None
    table: str
    generation: int
    """Number of the comparison in positions."""
    files: tuple[str, ...]
    first: int
    """Number of the first difference."""
    unchanged: int
    baseline: int
    read: int
    """Number of rows that were compared, whatever their outcome."""
    is_view: bool
    """True if the table is a view."""
    children: Mapping[str, str]
    """The child table of each attribute of child tables."""

    @property
    def ignored(self) -> dict[Reason, int]:
        """Number of rows without a difference, by the reason why they are ignored."""
        return {Reason.UNCHANGED: self.unchanged, Reason.BASELINE: self.baseline}


DifferenceSplit = Split[FoundDifferences]
