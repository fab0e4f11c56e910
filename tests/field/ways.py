"""The ways by which a row of a database table reaches documents."""

from __future__ import annotations

from collections.abc import Sequence

from tests.services.databases import Place
from tests.support.workbench import Workbench

STYLES = ("per-field", "per-row", "query-back")
"""Styles of triggers that log changes."""


def install(bench: Workbench, place: Place, *tables: str, style: str = "per-field") -> None:
    """Creates the event log and the triggers of tables."""
    named = [word for table in tables for word in ("--table", table)]
    bench.run("ddl", "--database", place.url, *named, "--style", style, "--apply")


def write_log_job(
    bench: Workbench, place: Place, more: str = "", *, name: str = "job", source: str = ""
) -> str:
    """Writes a job that publishes the event log of a database; returns the file's name."""
    text = f"""
[[sources]]
name = "{name}"
table = "event_log"
{source}
[database]
url = "{place.url}"
[dispatch]
path = "{name}-out"
[run]
engine = "local"
{more}"""
    return bench.write(f"{name}.toml", text).name


def write_comparison(
    bench: Workbench,
    place: Place,
    tables: Sequence[str],
    more: str = "",
    *,
    name: str = "compared",
    source: str = "",
) -> str:
    """Writes a job that compares tables with their last known state; returns the file's name."""
    text = f"""
[[sources]]
name = "{name}"
format = "triggerless"
tables = {list(tables)!r}
{source}
[database]
url = "{place.url}"
[dispatch]
path = "{name}-out"
[run]
engine = "local"
{more}"""
    return bench.write(f"{name}.toml", text).name
