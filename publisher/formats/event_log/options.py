"""The settings of an event log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from publisher.errors import OptionProblem, refuse_options
from publisher.formats.event_log.layout import LAYOUT, OPTIONAL, Layout
from publisher.formats.files.options import ExpectedColumns
from publisher.model.keys import IdentifierCase
from publisher.xds.times import zone_problems

KeyChangePolicy = Literal["reject", "modify-association", "attribute"]
"""Handling of updates of key columns."""


@dataclass(frozen=True, slots=True)
class EventLogOptions:
    """Options of an event log."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Custom column names, as ``NAME_IN_THE_LOG = "documented_name"``."""
    layout: Layout = "3.5"
    """Order of columns in files without column names: that of driver 3.5 and later (key second), or
    of 2.x (status second)."""
    status: Literal["N", "any"] = "N"
    """Rows to read: new rows (``N``), or all (``any``), to replay a processed log. With ``any`` each
    ``publish`` of a live table publishes all rows again, and ``--follow`` is refused."""
    time_zone: str = "UTC"
    """IANA name of the time zone of event times without one."""
    schema: str | None = None
    """Schema of tables that the log names without one."""
    identifier_case: IdentifierCase = IdentifierCase.DATABASE
    """Case of schema, table and column names in keys and documents. ``database`` takes it from the
    database, ``[tables]`` or ``schema``; a name that is in none of these stays as written."""
    key_change: KeyChangePolicy = "reject"
    """Handling of types 2 and 3 of a key column: reject the record, publish a
    ``<modify-association>`` with the old and the new key (the log is then read twice), or publish the
    column as an attribute under the old key."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for an unknown zone or a wrong mapping of columns."""
        problems = list(zone_problems(self.time_zone))
        known = LAYOUT[self.layout]
        unknown = sorted(set(self.columns.values()) - set(known))
        if unknown or len(set(self.columns.values())) < len(self.columns):
            text = (
                f"{', '.join(unknown) or 'a name'} is not one of {', '.join(known)}, or appears "
                "twice; map each custom name to one of these"
            )
            problems.append(OptionProblem("columns", text))
        refuse_options(problems)

    @property
    def joins_keys(self) -> bool:
        """True if changes of keys are published, so that the keys of an object must share a lane."""
        return self.key_change == "modify-association"

    def expected_columns(self) -> ExpectedColumns:
        """Returns the documented columns under their names in the input."""
        written = {ours: theirs for theirs, ours in self.columns.items()}
        return ExpectedColumns(LAYOUT[self.layout], written, OPTIONAL)
