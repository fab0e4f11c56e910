"""The tables that operations are of, and the databases that they come from.

TABNUM_SRC is a number of one database (DBNODE).  Rows of two databases that are published under one table
name would be one object, in no order, as log addresses of two databases are not comparable: refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.sources.dispatch_queue.images.by_table import tables_of
from publisher.sources.dispatch_queue.object_names import AllNames
from publisher.sources.dispatch_queue.operations import ALONE, OPERATION, Operations
from publisher.sources.dispatch_queue.transactions.facts import NAMED, SEEN, of_kind, other_facts

_SEPARATOR = "\x1f"


class SourceTable(NamedTuple):
    """A table of a database, and its names."""

    node: str
    number: int
    owner: str
    """DST_OWNER and DST_TABLE, where the settings leave the name to them; else blank."""
    destination: str
    schema: str
    """In documents; blank where there is none."""
    table: str

    @property
    def text(self) -> str:
        """All but the number, as a fact has it."""
        return _SEPARATOR.join((self.node, *self[2:]))


def source_tables(operations: Operations, names: AllNames) -> set[SourceTable]:
    """The tables of the operations that count, as far as their columns are known."""
    counts = (operations.counted == ALONE) & (operations.kind == OPERATION) & ~operations.ignored
    found = set()
    for _, node, number, where in tables_of(operations, np.flatnonzero(counts), names):
        depends = names.depends_on_destination(node, number)
        known = names.of(node, number, where) if where.table or not depends else None
        if known is not None:
            said = (where.owner, where.table) if depends else ("", "")
            found.add(SourceTable(node, number, *said, known.schema or "", known.table))
    return found


def tables_as_facts(tables: Iterable[SourceTable]) -> pa.RecordBatch:
    """Tables as facts of a part."""
    found = sorted(tables)
    texts = [table.text for table in found]
    return other_facts(NAMED, node=texts, transaction=[table.number for table in found])


def tables_of_facts(facts: pa.RecordBatch) -> set[SourceTable]:
    """The inverse of ``tables_as_facts``."""
    rows = of_kind(facts, NAMED).select(["transaction", "node"]).to_pylist()
    found = set()
    for row in rows:
        node, owner, destination, schema, table = row["node"].split(_SEPARATOR)
        found.add(SourceTable(node, row["transaction"], owner, destination, schema, table))
    return found


def remembered_nodes(facts: pa.RecordBatch) -> list[str]:
    """The databases of which an earlier run has read transactions."""
    nodes: list[str] = pc.unique(of_kind(facts, SEEN).column("node")).to_pylist()
    return nodes


def refuse_shared(tables: Iterable[SourceTable], nodes: Collection[str]) -> None:
    """Refuses tables that two databases give under one name; ``nodes`` are those of the settings.

    Raises ``FatalError``, naming both."""
    owners: dict[tuple[str, str], SourceTable] = {}
    for table in sorted(tables):
        if nodes and table.node not in nodes:
            continue
        other = owners.setdefault((table.schema, table.table), table)
        if other.node != table.node:
            name = f"{table.schema}.{table.table}" if table.schema else table.table
            raise FatalError(
                f"two databases have operations on {name}: {other.node} (TABNUM_SRC {other.number}) and"
                f" {table.node} (TABNUM_SRC {table.number}); rows of both with one key would become one"
                " object: set nodes to the database to publish, or give the table of each its own name"
                " or schema in [[sources.tables]] with node"
            )
