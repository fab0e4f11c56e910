"""Opens the engine of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from publisher.config.settings import Settings
from publisher.database.connection_cache import keep_connections
from publisher.engine.contract import Engine
from publisher.engine.start import start_engine


@contextmanager
def open_engine(settings: Settings, engine: Engine | None = None) -> Iterator[Engine]:
    """Starts the engine of the settings, and keeps the connections to databases until the block ends.

    ``engine`` is used instead if it is given, and ended, too.
    """
    with keep_connections(), engine or start_engine(settings.run.engine, settings.spark) as started:
        yield started
