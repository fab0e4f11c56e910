"""The source tables of operations, and their databases.

TABNUM_SRC is a number within one database (DBNODE).  Two databases must not publish tables under the same
name: their rows would become one object without an order, because log addresses of different databases are
not comparable.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.formats.dispatch_queue.images.by_table import tables_of
from publisher.formats.dispatch_queue.object_names import QueueNames
from publisher.formats.dispatch_queue.operations import Operations, OperationUse, RowKind
from publisher.formats.dispatch_queue.transactions.facts import FactKind, of_kind, other_facts


class SourceTable(NamedTuple):
    """A table of a database, and its names."""

    node: str
    number: int
    owner: str
    """DST_OWNER if the destination names the table, else blank."""
    destination: str
    """DST_TABLE if the destination names the table, else blank."""
    schema: str
    """Schema in documents; blank if there is none."""
    table: str

    @property
    def text(self) -> str:
        """All fields except the number, as a fact stores them: names may hold any character."""
        return json.dumps((self.node, *self[2:]))


def source_tables(operations: Operations, names: QueueNames) -> set[SourceTable]:
    """Finds the tables of counted operations whose columns are known."""
    counted = (operations.use == OperationUse.COUNTED) & (operations.kind == RowKind.OPERATION)
    counted &= ~operations.ignored
    tables = set()
    for _, node, number, where in tables_of(operations, np.flatnonzero(counted), names):
        has_destination_name = names.depends_on_destination(node, number)
        table = names.of(node, number, where) if where.table or not has_destination_name else None
        if table is not None:
            destination = (where.owner, where.table) if has_destination_name else ("", "")
            tables.add(SourceTable(node, number, *destination, table.schema or "", table.table))
    return tables


def tables_as_facts(tables: Iterable[SourceTable]) -> pa.RecordBatch:
    """Converts tables to facts."""
    ordered = sorted(tables)
    texts = [table.text for table in ordered]
    return other_facts(FactKind.TABLE, node=texts, transaction=[table.number for table in ordered])


def tables_of_facts(facts: pa.RecordBatch) -> set[SourceTable]:
    """Restores tables from facts."""
    rows = of_kind(facts, FactKind.TABLE).select(["transaction", "node"]).to_pylist()
    tables = set()
    for row in rows:
        node, owner, destination, schema, table = json.loads(row["node"])
        tables.add(SourceTable(node, row["transaction"], owner, destination, schema, table))
    return tables


def remembered_nodes(facts: pa.RecordBatch) -> list[str]:
    """Returns the databases whose transactions an earlier run has read."""
    nodes: list[str] = pc.unique(of_kind(facts, FactKind.ENDED).column("node")).to_pylist()
    return nodes


def refuse_shared_names(tables: Iterable[SourceTable], nodes: Collection[str]) -> None:
    """Raises ``FatalError`` if two of the databases ``nodes`` (all if empty) have tables of the same name."""
    owners: dict[tuple[str, str], SourceTable] = {}
    for table in sorted(tables):
        if nodes and table.node not in nodes:
            continue
        owner = owners.setdefault((table.schema, table.table), table)
        if owner.node != table.node:
            name = f"{table.schema}.{table.table}" if table.schema else table.table
            raise FatalError(
                f"two databases have operations on {name}: {owner.node} (TABNUM_SRC {owner.number}) and"
                f" {table.node} (TABNUM_SRC {table.number}); rows of both with one key would become one"
                " object: set nodes to the database to publish, or give the table of each its own name"
                " or schema in [[sources.tables]] with node"
            )
