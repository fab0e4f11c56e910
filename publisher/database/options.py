"""The settings of the user's database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Le


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """``[database]``: the database of the published tables.  Set ``url`` or ``url_env``."""

    url: str | None = field(default=None, repr=False)
    """SQLAlchemy URL, as ``postgresql://user:password@host/name``. It is never printed."""
    url_env: str | None = None
    """Name of an environment variable that holds the URL."""
    schema: str | None = None
    """Schema of tables that the source names without one; by default the database's default
    schema."""
    retries: Annotated[int, Ge(0), Le(100)] = 3
    """Number of attempts to repeat a statement after a lost connection."""
    backoff: Annotated[float, Ge(0), Le(600)] = 0.5
    """Seconds before the first of these attempts; doubled for each further one."""
    connect_timeout: Annotated[int, Ge(1), Le(600)] = 10
    """Seconds to wait for a connection."""
