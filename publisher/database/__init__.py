"""The user's database: connections, what its tables look like, rows by key.

``lookup`` (rows by key) is imported by itself: it stands above ``publisher.planning.query_back``.
"""

from publisher.database.catalogue import DatabaseCatalogue, Relation, catalogue_of
from publisher.database.connection import Database, DatabaseOptions

__all__ = ["Database", "DatabaseCatalogue", "DatabaseOptions", "Relation", "catalogue_of"]
