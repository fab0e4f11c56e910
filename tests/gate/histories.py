"""Cuts recorded event logs into successive polls, one of which is killed: further cases of the gate."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

CUTS = 3
_GROUPS = frozenset({"golden", "field", "values", "hostile", "unit"})
Case = dict[str, Any]


def write_histories(corpus: Path) -> None:
    """Adds a history of each recorded case that reads an event log of some events."""
    for path in sorted(corpus.glob("cases/*.json")):
        case = json.loads(path.read_text("utf-8"))
        if case["group"] not in _GROUPS:
            continue
        for history in (_of_file(case, corpus), _of_database(case, corpus)):
            if history is not None:
                digest = hashlib.sha256(history["name"].encode()).hexdigest()[:16]
                target = corpus / "cases" / f"{history['group']}-{digest}.json"
                target.write_text(json.dumps(history, ensure_ascii=False, indent=1), "utf-8")


def _of_file(case: Case, corpus: Path) -> Case | None:
    """A replay of one CSV file as a job that reads a directory."""
    step = case["steps"][0]
    logs = [name for name in step["write"] if name.endswith(".csv")]
    jobs = [name for name in step["write"] if name.endswith(".toml")]
    if step["words"][0] != "replay" or len(logs) != 1 or len(jobs) != 1:
        return None
    job, log = (_content(corpus, step["write"][name]) for name in (jobs[0], logs[0]))
    parts = _parts_of_csv(log, random.Random(case["name"]))
    text = _job_of_directory(job.decode().replace(case["root"], "."))
    if case["formats"] != ["event-log"] or parts is None or text is None:
        return None
    others = {n: d for n, d in step["write"].items() if n not in (logs[0], jobs[0])}
    polls = [{f"in/{number}.csv": _keep(corpus, part)} for number, part in enumerate(parts)]
    polls[0] |= {**others, "job.toml": _keep(corpus, text.encode())}
    steps = [
        {**step, "words": ["publish", "-c", "job.toml"], "folder": ".", "write": poll}
        for poll in polls
    ]
    return _history(case, steps)


def _parts_of_csv(log: bytes, chance: random.Random) -> list[bytes] | None:
    head, *lines = log.splitlines(keepends=True) or [b""]
    is_whole = all(line.endswith(b"\n") and line.count(b'"') % 2 == 0 for line in lines)
    if not is_whole or len(lines) <= CUTS or b"record_id" not in head:
        return None
    return [head + b"".join(part) for part in _cut(lines, chance)]


def _job_of_directory(job: str) -> str | None:
    """The job with files to read and a directory to write; nothing if it has either."""
    if "snapshots" in job or "[dispatch]" in job or job.count("[[sources]]") > 1:
        return None
    header = re.search(r"^\[\[?sources?\]\]?\n", job, re.MULTILINE)
    at, first = (header.end(), "") if header else (0, "[[sources]]\n")
    rest = job[at:] if header else f"\n{job}"
    more = '\n[dispatch]\npath = "out"\n'
    return f'{job[:at]}{first}snapshots = ["in"]\n{rest}{more}'


def _of_database(case: Case, corpus: Path) -> Case | None:
    """A live log in SQLite whose rows come one poll after the other."""
    first = next((s for s in case["steps"] if s["words"][0] == "publish"), None)
    if first is None or "--follow" in first["words"]:
        return None
    at = case["steps"].index(first)
    for name, digest in reversed(first["write"].items()):
        content = _content(corpus, digest)
        if content.startswith(b"SQLite format 3\0"):
            statements = _statements(content, random.Random(case["name"]))
            if statements is not None:
                more = [
                    {**first, "write": {}, "remove": [], "statements": {name: s}}
                    for s in statements[1:]
                ]
                start = {**first, "statements": {name: statements[0]}}
                return _history(case, [*case["steps"][:at], start, *more], len(statements))
    return None


def _statements(database: bytes, chance: random.Random) -> list[list[str]] | None:
    """What empties the log but for its first rows, and what adds the others in turn."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(database)
        with closing(sqlite3.connect(file.name)) as connection:
            names = [row[1] for row in connection.execute("PRAGMA table_info(event_log)")]
            if "record_id" not in names:
                return None
            quoted = ", ".join(f'quote("{name}")' for name in names)
            rows = connection.execute(
                f"SELECT record_id, {quoted} FROM event_log ORDER BY record_id"
            ).fetchall()
    if len(rows) <= CUTS or len(rows) > 5_000 or not all(isinstance(row[0], int) for row in rows):
        return None
    columns = ", ".join(f'"{name}"' for name in names)
    begin, *parts = _cut(rows, chance)
    into = f"INSERT INTO event_log ({columns}) VALUES"
    first = [f"DELETE FROM event_log WHERE record_id > {begin[-1][0]}"]
    return [first, *([f"{into} ({', '.join(row[1:])})" for row in part] for part in parts)]


def _history(case: Case, steps: list[Case], count: int | None = None) -> Case:
    """The case with one of its last ``count`` commands killed, and given again."""
    chance = random.Random(f"kill {case['name']}")
    at = len(steps) - 1 - chance.randrange(count or len(steps))
    again = {**steps[at], "write": {}, "remove": [], "statements": {}}
    killed = {**steps[at], "kill_after": chance.uniform(0.05, 0.6)}
    return {
        **case,
        "name": f"{case['name']} in polls",
        "group": f"{case['group']}-history",
        "steps": [*steps[:at], killed, again, *steps[at + 1 :]],
    }


def _cut(records: Sequence[Any], chance: random.Random) -> Iterator[Sequence[Any]]:
    places = [0, *sorted(chance.sample(range(1, len(records)), CUTS)), len(records)]
    return (records[a:b] for a, b in itertools.pairwise(places))


def _content(corpus: Path, digest: str) -> bytes:
    return (corpus / "blobs" / digest).read_bytes()


def _keep(corpus: Path, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()[:32]
    (corpus / "blobs" / digest).write_bytes(content)
    return digest
