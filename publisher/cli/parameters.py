"""Options that several commands share, and their parameter types."""

# ruff: noqa: PLC0415 - --help answers at once

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click


class Moment(click.ParamType[datetime]):
    """A time in ISO 8601; UTC if it has no zone."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Parses a time into a ``datetime`` with zone."""
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no time: write it as 2026-01-31T12:00:00 (UTC) or with +01:00",
                param,
                ctx,
            )
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Target(click.ParamType[str]):
    """Target of documents: a directory, or topics of Kafka."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Checks a target and returns it unchanged."""
        from publisher.dispatch.kafka.topic_template import SCHEME, KafkaTarget

        if value.startswith(SCHEME):
            KafkaTarget.parse(value)
        elif "://" in value:
            self.fail(
                f"{value!r} is no directory, and does not start with {SCHEME}: correct it",
                param,
                ctx,
            )
        return str(value)


class TextPath(click.Path):
    """A path whose name is text, because reports and journals contain it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Checks that the name of a path is UTF-8."""
        try:
            os.fspath(value).encode()
        except UnicodeEncodeError:
            self.fail(f"{os.fspath(value)!r} has bytes that are not UTF-8: rename it", param, ctx)
        return super().convert(value, param, ctx)


PATH = TextPath(path_type=Path)
config = click.option("-c", "--config", metavar="JOB.toml", type=PATH, help="Job file.")
config_required = click.option(
    "-c", "--config", metavar="JOB.toml", type=PATH, required=True, help="Job file."
)
journal_of_job = click.option(
    "--journal", metavar="DIR", type=PATH, help="Directory of the job's journals."
)
report_as_json = click.option("--json", "json_", is_flag=True, help="Print the report as JSON.")
