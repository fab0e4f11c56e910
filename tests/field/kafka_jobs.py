"""Jobs that publish to Kafka, for field cases."""

from __future__ import annotations

from pathlib import Path

from tests.services.databases import Place, sqlite_place
from tests.support.workbench import Workbench

LOG = (
    "CREATE TABLE log (record_id integer PRIMARY KEY, table_key text, status text DEFAULT 'N',"
    " event_type integer, event_time text DEFAULT '2026-05-01 10:00:00', perpetrator text,"
    " table_name text, column_name text, old_value text, new_value text)"
)

USR = "CREATE TABLE usr (idu integer PRIMARY KEY, fname text)"


def make_log(folder: Path) -> Place:
    """Creates an SQLite database with an empty event log and the table that it is of."""
    place = sqlite_place(folder / "app.db")
    place.execute(LOG, USR)
    return place


def log_values(place: Place, values: dict[int, str], first: int = 1) -> None:
    """Logs one new value for each object, with record ids from ``first`` on."""
    rows = ", ".join(
        f"({number}, 'idu={idu}', 3, 'usr', 'fname', '{value}')"
        for number, (idu, value) in enumerate(values.items(), first)
    )
    place.execute(
        "INSERT INTO log (record_id, table_key, event_type, table_name, column_name, new_value)"
        f" VALUES {rows}"
    )


def write_job(
    bench: Workbench, bootstrap: str, topic: str, more: str = "", name: str = "job"
) -> str:
    """Writes a job that publishes the log to a topic; returns the file's name."""
    text = f"""
[[sources]]
name = "{name}"
table = "log"
[database]
url = "sqlite:///{bench.folder}/app.db"
[run]
engine = "local"
lanes = 3
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
{more}"""
    return bench.write(f"{name}.toml", text).name
