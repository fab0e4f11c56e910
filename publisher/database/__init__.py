"""The user's database: connections, catalogue, look-ups by key and statuses.

Import the module ``lookup`` itself, because it depends on ``publisher.planning.query_back``.
"""

from publisher.database.catalogue import DatabaseCatalogue, Relation, catalogue_of
from publisher.database.connection import Database, DatabaseOptions

__all__ = ["Database", "DatabaseCatalogue", "DatabaseOptions", "Relation", "catalogue_of"]
