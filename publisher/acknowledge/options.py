"""Options for the rows of an event log once their documents are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Len

from publisher.errors import OptionProblem, OptionsError


@dataclass(frozen=True, slots=True)
class AcknowledgeOptions:
    """``[acknowledge]``: handling of the rows of an event log in a database after publishing."""

    write_status: bool = True
    """Write S, W, E or F into rows that are still N once the sink has committed their documents. If
    false, the next ``publish`` sends the same rows again."""
    delete_processed_rows: bool = False
    """Delete the rows that would get S or W; rows with E and F stay."""
    reason_table: Annotated[str, Len(1)] | None = None
    """Table in the log's database for the reasons of W, E and F, as ``table`` or ``schema.table``;
    created if it is missing, with the columns ``source``, ``record_id``, ``status``, ``reason``,
    ``detail``, ``run`` and ``time`` (UTC)."""
    post_polling_statements: tuple[Annotated[str, Len(1)], ...] = ()
    """SQL statements to run in the log's database after each poll that published something, each in
    its own transaction. After a crash they may run a second time."""

    @property
    def writes(self) -> bool:
        """Returns whether acknowledging writes to the log's database."""
        return bool(
            self.write_status or self.reason_table is not None or self.post_polling_statements
        )

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for options that contradict each other."""
        if self.delete_processed_rows and not self.write_status:
            raise OptionsError(
                OptionProblem(
                    "delete_processed_rows",
                    "would delete rows while write_status = false leaves the table as it is; keep one "
                    "of the two",
                )
            )
