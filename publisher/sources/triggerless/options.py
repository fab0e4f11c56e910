"""How tables are compared.  Names and meanings are those of the driver's triggerless mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, Len

from publisher.keys import IdentifierCase

Name = Annotated[str, Len(1)]
Keeps = Literal["columns", "row", "values"]
StartupOption = Literal["resynchronise", "future", "all"]


@dataclass(frozen=True, slots=True)
class Options:
    """How tables are compared with what is known of them."""

    tables: tuple[Name, ...] = ()
    """Tables and views to compare, as ``table`` or ``schema.table``.  For a database they are required;
    of files it is by default each table that one is named after, and one table may have any files."""
    key: Mapping[Name, tuple[Name, ...]] = field(default_factory=dict)
    """Primary key columns by table, where neither the database nor ``[tables]`` says them."""
    state: Keeps = "columns"
    """What is kept of a row beside its key: a hash of each column, one hash of all (``row``: a change
    then publishes all columns), or the ``values`` (old values are published, too)."""
    startup_option: StartupOption = "all"
    """What the first comparison of a table gives: all rows as ``<modify>`` that replaces all values
    (``resynchronise``), nothing (``future``: changes from now on), or all rows as ``<add>`` (``all``)."""
    before: tuple[Name, ...] = ()
    """Files and directories of an earlier snapshot, to compare with where nothing is known yet."""
    most_deleted: Annotated[float, Ge(0), Le(1)] = 0.5
    """Share of the known rows of a table that may be gone at once, where they are more than 100: beyond it
    nothing is published, for an export that was cut looks the same."""
    hints: Literal["samples"] | None = None
    """What brings a comparison forward: ``samples`` of LINTER's table queue; by default every run compares
    every table."""
    samples: tuple[Name, ...] = ()
    """Files and directories of these samples."""
    full_interval: Annotated[float, Ge(0)] = 86_400.0
    """Seconds after which a table is compared without a hint, too: a change may leave none."""
    schema: str | None = None
    """Schema of tables that are named without one."""
    binary_text: Literal["hex", "base64"] | None = None
    """How text files write the values of binary columns.  No default: who exported them decides it."""
    identifier_case: IdentifierCase = IdentifierCase.DATABASE
    """Case of table, schema and column names in keys and documents."""
    buckets: Annotated[int, Ge(1), Le(65_536)] | None = None
    """Parts that a table is compared in, a power of two; by default as many as its size asks for."""

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for a number of buckets that halves of halves do not give, and for
        hints without samples."""
        wrong: list[str] = []
        if self.buckets is not None and self.buckets & (self.buckets - 1):
            wrong.append("buckets: write a power of two, as 64")
        if self.hints is not None and not self.samples:
            wrong.append('samples: hints need them; write samples = ["DIRECTORY"]')
        if wrong:
            raise ValueError("\n".join(wrong))


def options_of(**plain: Any) -> Options:
    """The options from their plain values, as a journal keeps them."""
    listed = {name: tuple(plain[name]) for name in ("tables", "before", "samples")}
    keys = {table: tuple(columns) for table, columns in plain["key"].items()}
    case = IdentifierCase(plain["identifier_case"])
    return Options(**plain | listed | {"key": keys, "identifier_case": case})
