"""SQL files of named statements.

A statement begins with a line ``-- name: NAME``; other comments are for readers only.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from sqlalchemy import TextClause, text


@cache
def read_statements(package: str, path: str) -> dict[str, TextClause]:
    """Returns the statements of a file in a package by their names."""
    source = files(package).joinpath(path).read_text("utf-8")
    _, *parts = re.split(r"^-- name: (\w+)\n", source, flags=re.MULTILINE)
    statements = (re.sub(r"^--.*\n", "", part, flags=re.MULTILINE) for part in parts[1::2])
    return dict(zip(parts[::2], map(text, statements), strict=True))


def catalogue_query(dialect: str, name: str) -> TextClause | None:
    """Returns a query of the catalogue of a kind of database; ``None`` if there is none for it."""
    kind = "mariadb" if dialect == "mysql" else dialect
    if kind not in ("postgresql", "mariadb", "sqlite"):
        return None
    return read_statements("publisher.database", f"queries/{kind}.sql").get(name)
