"""Options of change tables.  Points that the vendor leaves open have no default and fail closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le, Len

from publisher.errors import refuse_options
from publisher.model.keys import IdentifierCase
from publisher.xds.times import zone_problems

Name = Annotated[str, Len(1)]


@dataclass(frozen=True, slots=True)
class ChangeTableOptions:
    """Options for reading change tables."""

    layout: Literal["rows", "messages"] = "rows"
    """``rows`` reads files or a table with header and data columns; ``messages`` reads the JSON
    messages that the same product sends to Kafka, one per line."""
    source_table: Name | None = None
    """Name of the table that was changed, as ``table`` or ``schema.table``; by default taken from
    the ``.dfm`` file, or else from the name of the folder or file (``schema.table__ct``)."""
    schema: str | None = None
    """Schema of tables that the source names without one."""
    prefix: str = "header__"
    """Prefix of the header columns' names."""
    suffix: str = "__ct"
    """Suffix that the change table's name adds to the name of its table."""
    columns: tuple[Name, ...] = ()
    """All columns of the change table in order, if neither a ``.dfm`` file nor the file itself
    names them."""
    key: tuple[Name, ...] = ()
    """Primary key columns, if neither the ``.dfm`` file, the database, nor the masks of DELETE
    records show them."""
    key_from_deletes: bool = True
    """Infer the primary key from the masks of DELETE records. Set it to false if they show a unique
    index instead."""
    mask_order: Literal["auto", "msb", "lsb"] = "auto"
    """Byte order of ``change_mask``: most significant byte first (``msb``, as in real exports) or
    byte 0 first (``lsb``, as in the manual). ``auto`` infers it from the records and refuses the
    input if they are ambiguous."""
    header_columns: Annotated[int, Ge(0), Le(64)] | None = None
    """Number of header columns that count in the mask; by default inferred together with the byte
    order."""
    images: Literal["full", "sparse"] | None = None
    """Meaning of NULL in an image that no mask describes: a value (``full``), or a column that was
    not supplied (``sparse``). Look it up in the vendor's settings; there is no default."""
    key_change: Literal["reject", "query-back", "modify-association"] = "reject"
    """Result of an UPDATE of the key. With its before image it is a delete and an add, or with
    ``modify-association`` a ``<modify-association>`` and a modify of the other columns (the input is
    then read twice). Without its before image, the old key is unknown: a reject, or with ``query-back``
    the current row (event type 6)."""
    binary_text: Literal["hex", "base64"] | None = None
    """Encoding of binary values in text. The target of the task decides it; there is no default."""
    time_zone: str = "UTC"
    """IANA name of the time zone of header timestamps without one."""
    identifier_case: IdentifierCase = IdentifierCase.DATABASE
    """Case of table, schema and column names in keys and documents."""
    pair_wait: Annotated[float, Ge(0), Le(86_400)] = 60.0
    """Seconds for which a job delays the youngest UPDATE or before image, and all later rows,
    until its partner arrives; 0 disables the delay. The time is measured both in ``change_seq`` and
    in the job."""

    @property
    def joins_keys(self) -> bool:
        """True if changes of keys are published, so that the keys of an object must share a lane."""
        return self.key_change == "modify-association"

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for an unknown zone."""
        refuse_options(zone_problems(self.time_zone))
