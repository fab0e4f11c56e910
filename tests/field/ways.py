"""The ways by which a row of a database table reaches documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


LOGGED = {"sqlite": "{}", "postgresql": "public.{}", "mariadb": "{}"}
"""Names of tables as an event log has them."""


def publish_each_way(
    bench: Workbench,
    place: Place,
    table: str,
    rows: Sequence[str],
    keys: Sequence[str],
    more: str = "",
) -> dict[str, dict[str, dict[str, tuple[str, ...]]]]:
    """Publishes rows by the values of a log, by query-back and by comparison.

    ``rows`` are the statements that write the rows, ``keys`` their keys as ``table_key`` has them.  Returns
    the objects of each way, by their keys.  Each way has a job and an output directory of its own.
    """
    install(bench, place, table)
    place.execute(*rows)
    bench.publish(job=write_log_job(bench, place, more, name="fields"))
    events = (
        "INSERT INTO event_log (table_key, event_type, table_name)"
        f" VALUES ('{key}', 6, '{LOGGED[place.kind].format(table)}')"
        for key in keys
    )
    place.execute(*events)
    bench.publish(job=write_log_job(bench, place, more, name="rows"))
    bench.publish(job=write_comparison(bench, place, [table], more, name="compared"))
    ways = ("fields", "rows", "compared")
    return {
        way: {key.partition(",table=")[0]: v for key, v in bench.objects(f"{way}-out").items()}
        for way in ways
    }


def assert_one_way(found: Mapping[str, object]) -> None:
    """Compares what all ways gave."""
    first, *others = found.items()
    for way, objects in others:
        assert objects == first[1], f"{way} and {first[0]} differ"


def rejected_columns(bench: Workbench, way: str) -> list[tuple[str, str]]:
    """Reason and detail of the rejected records of a way."""
    return [(reject.reason, reject.detail) for reject in bench.rejects(f"{way}-out")]
