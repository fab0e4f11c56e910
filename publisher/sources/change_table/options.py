"""How a change table is to be read.  What the vendor leaves open has no default and fails closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from annotated_types import Ge, Le, Len

from publisher.keys import IdentifierCase

Name = Annotated[str, Len(1)]


@dataclass(frozen=True, slots=True)
class Options:
    """How a change table is to be read."""

    layout: Literal["rows", "messages"] = "rows"
    """``rows``: files or a table with a header and data columns; ``messages``: the JSON messages that
    the same product sends to Kafka, one on a line."""
    source_table: Name | None = None
    """Name of the table that the changes are of, as ``table`` or ``schema.table``; by default from the
    ``.dfm``, else from the name of the folder or file (``schema.table__ct``)."""
    schema: str | None = None
    """Schema of tables that the source names without one."""
    prefix: str = "header__"
    """What the names of the header columns begin with."""
    suffix: str = "__ct"
    """What the name of the change table ends with, after the name of its table."""
    columns: tuple[Name, ...] = ()
    """All columns of the change table in its order, where neither ``.dfm`` nor the file says them."""
    key: tuple[Name, ...] = ()
    """Primary key columns, where neither ``.dfm``, nor the database, nor masks of deletes say them."""
    key_from_deletes: bool = True
    """Whether the masks of DELETE records tell the primary key; not where they show a unique index."""
    mask_order: Literal["auto", "msb", "lsb"] = "auto"
    """Order of the mask's bytes: the most significant first (as hex text was seen), or byte 0 first
    (as the manual says); ``auto`` decides by the records, and refuses where they do not tell."""
    header_columns: Annotated[int, Ge(0), Le(64)] | None = None
    """Header columns that count in the mask; by default calibrated with the order."""
    images: Literal["full", "sparse"] | None = None
    """What NULL means in an image where no mask says so: a value (``full``), or not supplied
    (``sparse``).  No default: the vendor's setting decides it."""
    unmasked_update: Literal["images", "query-back"] = "images"
    """What an UPDATE without mask and without before image gives: event type 3 as ``images`` says, or
    the current row (event type 6)."""
    key_change: Literal["reject", "query-back"] = "reject"
    """What an UPDATE of the key gives without its before image; the old key is not known."""
    key_change_gaps: Literal["absent", "reject", "query-back"] = "absent"
    """What a column of the new key's row gives that neither the UPDATE nor its before image supplies:
    it is left out, or the UPDATE is rejected, or the current row is read (event type 5)."""
    binary_text: Literal["hex", "base64"] | None = None
    """How text writes the values of binary columns.  No default: the target decides it."""
    time_zone: str = "UTC"
    """Zone of header timestamps that are written without one, by its IANA name."""
    identifier_case: IdentifierCase = IdentifierCase.DATABASE
    """Case of table, schema and column names in keys and documents."""
    join_rows: Annotated[int, Ge(1), Le(10_000_000)] = 100_000
    """Records for which an UPDATE and its before image wait for each other in memory, at most."""
    join_strays: Annotated[int, Ge(0), Le(100_000_000)] = 1_000_000
    """Before images whose UPDATE lies further away or in another part of the input, at most."""
    pair_wait: Annotated[float, Ge(0), Le(86_400)] = 60.0
    """Seconds for which a job lets the youngest UPDATE or before image, and what follows it, wait for
    its partner, in the time of change_seq and in that of the job; 0: not at all."""
    late_window: Annotated[int, Ge(0), Le(10_000_000)] = 10_000
    """Rows of a live change table below the mark that are looked at again for rows that came late."""

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for a zone that is not known."""
        try:
            ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(
                f"time_zone: {self.time_zone!r} is not known; write a name such as Europe/Berlin"
            ) from None


def options_of(**plain: Any) -> Options:
    """The options from their plain values, as a journal keeps them."""
    listed = {name: tuple(plain[name]) for name in ("columns", "key")}
    return Options(**plain | listed | {"identifier_case": IdentifierCase(plain["identifier_case"])})
