"""What is done with the rows of an event log that were read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Len


@dataclass(frozen=True, slots=True)
class AcknowledgeOptions:
    """What happens to the rows of an event log in a database once the sink has their documents."""

    write_status: bool = True
    """Write S, W, E or F into rows that are still N.  If not, the next publish sends them again."""
    delete_processed_rows: bool = False
    """Delete the rows that would get S or W; those with E and F stay."""
    reason_table: Annotated[str, Len(1)] | None = None
    """Table for the reasons of W, E and F in the log's database, as ``table`` or ``schema.table``; made
    where it is missing."""
    post_polling_statements: tuple[Annotated[str, Len(1)], ...] = ()
    """SQL statements for the log's database after a poll that published something, each in a
    transaction of its own.  After a crash they may run once more."""

    @property
    def writes(self) -> bool:
        """Whether anything is written to the log's database."""
        return bool(
            self.write_status or self.reason_table is not None or self.post_polling_statements
        )

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for options that contradict each other."""
        if self.delete_processed_rows and not self.write_status:
            raise ValueError(
                "delete_processed_rows: would delete rows while write_status = false leaves the table "
                "as it is; keep one of the two"
            )
