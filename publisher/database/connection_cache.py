"""Connections and catalogues that a process keeps from one run to the next.

A program that polls several times a second would spend most of a poll on connecting and on reading the
catalogue.  Inside ``keep_connections``, the engine of a closed ``Database`` is used again by the next
``Database`` with the same options.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from publisher.database.catalogue import CatalogueEntries

_LONGEST_IDLE = 30.0
"""Seconds after which an idle engine is not used again: servers and firewalls end idle connections."""


@dataclass(frozen=True, slots=True)
class EngineKey:
    """Databases with equal keys may use the same engine, one after the other."""

    url: URL
    options: Hashable
    writing: bool


@dataclass(slots=True)
class ConnectionCache:
    """Idle engines and the entries of catalogues."""

    run: int = 0
    """Number of the current run: catalogues are checked once per run."""
    catalogues: dict[Hashable, CatalogueEntries] = field(default_factory=dict)
    _idle: dict[EngineKey, list[tuple[float, Engine]]] = field(default_factory=dict)
    _is_closed: bool = False

    def take(self, key: EngineKey) -> Engine | None:
        """Returns an idle engine, which then belongs to the caller; ``None`` if there is none."""
        engines = self._idle.get(key, [])
        while engines:
            since, engine = engines.pop()
            if time.monotonic() - since <= _LONGEST_IDLE:
                return engine
            engine.dispose()
        return None

    def give_back(self, key: EngineKey, engine: Engine) -> None:
        """Keeps an engine that is no longer used."""
        if self._is_closed:
            engine.dispose()
            return
        self._idle.setdefault(key, []).append((time.monotonic(), engine))

    def disconnect(self, url: URL) -> None:
        """Closes idle connections to a server that has ended another connection."""
        for key, engines in self._idle.items():
            if key.url == url:
                for _, engine in engines:
                    engine.dispose()

    def close(self) -> None:
        """Closes all idle connections; engines that are given back later are closed, too."""
        self._is_closed = True
        for engines in self._idle.values():
            for _, engine in engines:
                engine.dispose()
        self._idle.clear()


_CURRENT: ContextVar[ConnectionCache | None] = ContextVar("connection cache", default=None)


def current_cache() -> ConnectionCache | None:
    """The cache of this thread; ``None`` outside of ``keep_connections``."""
    return _CURRENT.get()


def use_cache(cache: ConnectionCache) -> None:
    """Lets this thread use a cache until the thread ends."""
    _CURRENT.set(cache)


@contextmanager
def keep_connections() -> Iterator[ConnectionCache]:
    """Keeps the connections of closed databases until the block ends."""
    cache = ConnectionCache()
    before = _CURRENT.set(cache)
    try:
        yield cache
    finally:
        _CURRENT.reset(before)
        cache.close()
