"""Settings for comparing tables, with the names and meanings of the driver's triggerless mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le, Len

from publisher.errors import OptionProblem, refuse_options
from publisher.model.keys import IdentifierCase

Name = Annotated[str, Len(1)]
Keeps = Literal["columns", "values"]
StartupOption = Literal["resynchronise", "future", "all"]


@dataclass(frozen=True, slots=True)
class TriggerlessOptions:
    """``[[sources]]`` with the format ``triggerless``: how tables are compared with their state."""

    tables: tuple[Name, ...] = ()
    """Tables and views to compare, as ``table`` or ``schema.table``; required for a database. For
    files the default is every table that a file is named after, and a single name applies to all
    files."""
    key: Mapping[Name, tuple[Name, ...]] = field(default_factory=dict)
    """Primary key columns by table, if neither the database nor ``[tables]`` names them."""
    state: Keeps = "columns"
    """State kept per row beside its key: a hash of each column (``columns``), or the ``values`` (so that
    old values are published, too)."""
    startup_option: StartupOption = "all"
    """Result of the first comparison of a table: all rows as ``<add>`` (``all``), nothing
    (``future``, changes from now on), or all rows as a ``<modify>`` that replaces all values
    (``resynchronise``)."""
    before: tuple[Name, ...] = ()
    """Files and directories of an earlier snapshot to compare with while no state is known."""
    key_change: Literal["delete-and-add", "modify-association"] = "delete-and-add"
    """Result of a changed key: the old object is deleted and a new one added, or with
    ``modify-association`` it stays one object, found by ``key_change_by``; this needs ``state =
    "values"``."""
    key_change_by: Mapping[Name, tuple[Name, ...]] = field(default_factory=dict)
    """Columns by table whose values identify an object whatever its key is, for ``key_change``."""
    most_deleted: Annotated[float, Ge(0), Le(1)] = 0.5
    """Maximum share of a table's known rows that may be missing at once, and of its objects that may lose
    all values of a multi-valued attribute. Above it nothing is published, because a truncated export
    looks the same. Up to 100 of them are always accepted."""
    samples: tuple[Name, ...] = ()
    """Files and directories with samples of LINTER's table queue. A run then compares only tables that they
    show as touched, and tables whose ``full_interval`` is over; without samples it compares every table."""
    full_interval: Annotated[float, Ge(0)] = 86_400.0
    """Seconds after which a table is compared even without a hint, because samples may miss
    changes."""
    schema: str | None = None
    """Schema of tables that are named without one."""
    binary_text: Literal["hex", "base64"] | None = None
    """Encoding of binary values in text files. The exporting program decides it; there is no
    default."""
    identifier_case: IdentifierCase = IdentifierCase.DATABASE
    """Case of table, schema and column names in keys and documents."""
    buckets: Annotated[int, Ge(1), Le(65_536)] | None = None
    """Number of parts that a table is compared in, a power of two; by default derived from its
    size."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` if settings do not fit together, or ``buckets`` is not a power of two."""
        problems: list[OptionProblem] = []
        if self.buckets is not None and self.buckets & (self.buckets - 1):
            problems.append(OptionProblem("buckets", "write a power of two, for example 64"))
        problems += self._find_key_change_problems()
        refuse_options(problems)

    @property
    def joins_keys(self) -> bool:
        """True if changes of keys are published as ``<modify-association>``."""
        return self.key_change == "modify-association"

    def _find_key_change_problems(self) -> Iterator[OptionProblem]:
        if not self.joins_keys:
            if self.key_change_by:
                text = 'has no effect; set key_change = "modify-association", or leave it out'
                yield OptionProblem("key_change_by", text)
            return
        if self.state != "values":
            text = 'old and new rows are joined by their values; set state = "values"'
            yield OptionProblem("key_change", text)
        if not self.key_change_by or not all(self.key_change_by.values()):
            text = (
                "name the columns that identify an object whatever its key is, for example"
                ' key_change_by = { usr = ["guid"] }'
            )
            yield OptionProblem("key_change_by", text)
