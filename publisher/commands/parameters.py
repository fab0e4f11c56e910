"""What options of commands take beside text and numbers."""

# ruff: noqa: PLC0415 - --help answers at once

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click


class Moment(click.ParamType[datetime]):
    """A time in ISO 8601; UTC where it says no zone."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """The time as ``datetime`` with zone."""
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no time; write it as 2026-01-31T12:00:00 (UTC) or with +01:00",
                param,
                ctx,
            )
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Target(click.ParamType[str]):
    """Where documents go: a directory, or topics of Kafka."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The target as it was written."""
        from publisher.dispatch.kafka_topics import SCHEME, KafkaTarget

        if value.startswith(SCHEME):
            KafkaTarget.parse(value)
        elif "://" in value:
            self.fail(f"{value!r} is no directory, and does not begin with {SCHEME}", param, ctx)
        return str(value)
