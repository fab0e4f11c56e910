"""The identity of a table, to recognise the table that a run has read.

Identities do not depend on the URL, because addresses change when a replica takes over.

* PostgreSQL: system identifier of the cluster, numbers of database and table.  Physical replicas have
  the same identity; a logical copy, a restored dump or a re-created table has another one.
* MySQL and MariaDB: server, table and its creation time; SQLite: the file.  Replicas and copies have
  another identity.
* Other databases, and servers that hide these values: no identity.

``place_of`` is the identity without the table, for tables that may be re-created under their names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from publisher.database.catalogue import Relation
from publisher.database.connection import Database
from publisher.database.failures import is_lost
from publisher.database.named_sql import catalogue_query


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """The table or database from which a source has read."""

    identity: str | None = None
    """The value of ``identity_of`` or ``place_of``."""
    database: str | None = None
    """Name of the database in messages."""

    def is_same(self, other: TableOrigin) -> bool:
        """Compares the identities; without any, the names of the databases."""
        if self.identity is None and other.identity is None:
            return self.database == other.database
        return self.identity == other.identity

    def difference(self, now: TableOrigin) -> str:
        """Describes how another origin differs from this one."""
        identities = [self.identity or "", now.identity or ""]
        kinds = {identity.partition(":")[0] for identity in identities}
        if "" in kinds:
            return "the identity of one of them cannot be read"
        if len(kinds) > 1:
            return "it is in another kind of database"
        if not identities[0].startswith(_POSTGRESQL_KIND):
            return _OTHER_WHY[min(kinds)]
        numbers = [text.removeprefix(_POSTGRESQL_KIND).split(":") for text in identities]
        names = _NUMBERS[: len(numbers[0])]
        return "its " + ", its ".join(
            f"{name} is {new}, not {old}"
            for name, old, new in zip(names, *numbers, strict=True)
            if old != new
        )


_POSTGRESQL_KIND = "postgresql:"
"""Prefix of identities of PostgreSQL, which show their parts."""
_NUMBERS = ("system identifier", "database number", "table number")
"""Parts of an identity of PostgreSQL."""
_OTHER_WHY = {
    "mariadb": "it is on another server or in another database, or was created or altered since then",
    "sqlite": "it is in another file",
}

_KEPT = "identity"
"""Key of identities in the facts that SQLAlchemy keeps with a connection."""


def identity_of(database: Database, relation: Relation, stamp: str | None = None) -> str | None:
    """Reads the identity of a table; ``None`` if it has none.

    A connection that has read it for this ``stamp`` (``DatabaseCatalogue.stamp``) is not asked again.

    Raises ``UnreachableError``.
    """
    if database.engine.dialect.name == "sqlite":
        return _of_file(Path(database.url.database or ""), [relation.table.name])
    names = {"schema": relation.schema, "name": relation.table.name}
    return _of_server(database, "table_identity", names, stamp)


def place_of(database: Database, relation: Relation) -> str | None:
    """Reads the identity of a table's database; ``None`` if it has none.

    Raises ``UnreachableError``.
    """
    dialect = database.engine.dialect.name
    if dialect == "sqlite":
        return _of_file(Path(database.url.database or ""), [])
    names = {} if dialect == "postgresql" else {"schema": relation.schema}
    return _of_server(database, "database_identity", names)


def _of_server(
    database: Database, query: str, names: dict[str, str | None], stamp: str | None = None
) -> str | None:
    """Reads an identity by a query of the catalogue; for ``stamp`` see ``identity_of``."""
    dialect = database.engine.dialect.name
    statement = catalogue_query(dialect, query)
    if statement is None:
        return None

    def ask(connection: Connection) -> str | None:
        try:
            row = connection.execute(statement, names).first()
        except DBAPIError as error:
            if is_lost(error):
                raise
            return None  # another kind of server, or one that hides these values
        if row is None or None in row:
            return None
        parts = [str(part) for part in row]
        return (
            f"{_POSTGRESQL_KIND}{':'.join(parts)}"
            if dialect == "postgresql"
            else f"mariadb:{digest_of(parts)}"
        )

    def ask_once(connection: Connection) -> str | None:
        assert stamp is not None
        return _ask_once(connection, ask, stamp, (_KEPT, *names.values()))

    return database.run(ask if stamp is None else ask_once, is_query=True)


def _ask_once(
    connection: Connection, ask: Callable[[Connection], str | None], stamp: str, key: Hashable
) -> str | None:
    """Asks a connection, unless it has answered with this stamp before."""
    identity: str | None
    last_stamp, identity = connection.info.get(key, (None, None))
    if last_stamp != stamp or identity is None:
        identity = ask(connection)
        connection.info[key] = stamp, identity
    return identity


def _of_file(path: Path, names: list[str]) -> str | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    # not the number of its disk, which may differ after the next start of the machine
    return f"sqlite:{digest_of([str(stat.st_ino), *names])}"


def digest_of(content: object) -> str:
    """Returns the digest of values that JSON can represent."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
