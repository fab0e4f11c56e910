"""Chooses the sources that a command works on."""

from __future__ import annotations

from collections.abc import Sequence

from publisher.config.settings import Settings, SourceSettings
from publisher.errors import UsageError


def choose_sources(
    settings: Settings, suitable: Sequence[SourceSettings], name: str | None, kind: str
) -> list[SourceSettings]:
    """Chooses the source ``name`` among those that the command can work on, or all of them.

    Raises ``UsageError`` if there is none; ``kind`` says what makes a source suitable.
    """
    if not suitable:
        raise UsageError(
            f"none of the sources of job {settings.name} {kind}: give a job file with such a source"
        )
    chosen = [source for source in suitable if name in (None, source.name)]
    if not chosen:
        names = ", ".join(source.name for source in suitable)
        raise UsageError(
            f"job {settings.name} has no source {name} that {kind}; known sources: {names}"
        )
    return chosen
