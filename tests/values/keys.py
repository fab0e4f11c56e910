"""Publishes objects whose keys have many types, by every way that reads keys."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from publisher.consumer import Add, AddValue, Modify, part_files, read_files
from tests.values.servers import SETUP, Server
from tests.values.ways import run

STYLES = {"field": "per-field", "row": "per-row"}
WAYS = (*STYLES, "compare")


KNOWN = {
    "sqlite": {
        "BLOB 'text'": "SQLite compares a text with no binary value",
        " x'00ff'": "SQLite compares a binary value with no text",
    },
    "mariadb": {
        "date '0000-00-00'": "look-ups refuse dates that no calendar has",
        "datetime(3) '0000-00-00'": "look-ups refuse dates that no calendar has",
        "timestamp(6) 0": "look-ups refuse dates that no calendar has",
        "timestamp 0": "look-ups refuse dates that no calendar has",
        "time(3) '-01:00:00'": "look-ups refuse times that no day has",
        "time(3) '838:59:59'": "look-ups refuse times that no day has",
    },
    "postgresql": {
        "integer[] '{1,2}'": "arrays of keys join arrays",
        "integer[] '{}'": "arrays of keys join arrays",
    },
}
"""Keys whose rows are not looked up; their events are rejected or ignored."""


def key_differences(server: Server, directory: Path) -> dict[str, object]:
    """Returns rows whose object is not the same by all ways, and what ``verify`` finds."""
    path = Path(__file__).with_name("types.toml")
    types = list(tomllib.loads(path.read_text())["keys"][server.kind].items())
    tables = {way: [f"{way}_{place}" for place in range(len(types))] for way in WAYS}
    server.execute(
        [
            *SETUP.get(server.kind, ()),
            *(
                f"CREATE TABLE {name} (k {type_} PRIMARY KEY, v integer)"
                for names in tables.values()
                for name, (type_, _) in zip(names, types, strict=True)
            ),
        ]
    )
    for way, style in STYLES.items():
        words = [word for name in tables[way] for word in ("--table", name)]
        log = ["--style", style, "--log-table", f"log_{way}", "--apply"]
        run("ddl", "--database", server.url, *words, *log)
    rows = [(place, value) for place, (_, values) in enumerate(types) for value in values]
    server.execute(
        f"INSERT INTO {way}_{place} (k, v) VALUES ({value}, {number})"
        for way in WAYS
        for number, (place, value) in enumerate(rows)
    )
    job = directory / "job.toml"
    job.write_text(_job(directory, server.hostile_url(), tables["compare"]))
    run("publish", "-c", str(job))
    ends = dict(_published(directory / "out"))
    found: dict[str, object] = {}
    for number, (place, value) in enumerate(rows):
        keys = {way: ends.get((way, number)) for way in WAYS}
        if len({*keys.values()}) > 1:
            found[f"{types[place][0]} {value}"] = keys
    verified = json.loads(run("verify", "-c", str(job), "--json"))["outcome"]["tables"]
    wrong = {"missing", "surplus", "different"}
    return found | {f"verify {t['table']}": t for t in verified if wrong & {*t["counts"]}}


def _job(directory: Path, url: str, compared: list[str]) -> str:
    lines = []
    for way in STYLES:
        lines += ["[[sources]]", f'name = "{way}"', f'table = "log_{way}"']
    lines += ["[[sources]]", 'name = "compare"', 'format = "triggerless"', f"tables = {compared}"]
    lines += ["[database]", f"url = {json.dumps(url)}", "[run]", 'engine = "local"']
    lines += ["[dispatch]", f"path = {json.dumps(str(directory / 'out'))}"]
    lines += ["[ledger]", f"path = {json.dumps(str(directory / 'ledger_run'))}"]
    return "\n".join(lines)


def _published(directory: Path) -> Iterator[tuple[tuple[str, int], str]]:
    """Yields the key of the object that has each row's number."""
    keys: dict[tuple[str, int], list[str]] = defaultdict(list)
    for delivery in read_files(part_files(directory)):
        for operation in delivery.operations:
            assert isinstance(operation, (Add, Modify))
            key, _, rest = operation.association.partition(",table=")
            (number,) = [
                int(change.value.text)
                for change in operation.changes
                if isinstance(change, AddValue)
            ]
            keys[rest.partition("_")[0], number].append(key)
    yield from ((row, " and ".join(texts)) for row, texts in keys.items())
