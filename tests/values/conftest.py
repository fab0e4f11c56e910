"""The servers of the table of values."""

from tests.services.conftest import mariadb_url, postgres_url

__all__ = ["mariadb_url", "postgres_url"]
