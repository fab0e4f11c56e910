"""A directory in which a test uses the program as its users do: by commands, files and documents.

Nothing here knows how the program works inside.  ``XDS_PROGRAM`` names another program to test, with the
words that start it (``/opt/xds/bin/xds-publisher``), so that two versions can do the same.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from publisher.consumer import (
    AddValue,
    Delivery,
    ModifyAssociation,
    Objects,
    Operation,
    RemoveValue,
    part_files,
    read_files,
)
from tests.support.programs import start_program

JOB = "job.toml"
OUT = "out"
EXPECTED = (0,)
REJECTS = 4
"""Exit code of a run that rejected records."""


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Everything that it printed."""
        return self.out + self.err

    @property
    def report(self) -> dict[str, Any]:
        """What it printed, of a command with ``--json``."""
        report: dict[str, Any] = json.loads(self.out)
        return report


@dataclass(frozen=True)
class Reject:
    """A rejected record, as ``rejects.jsonl`` shows it."""

    position: str
    reason: str
    detail: str


@dataclass
class Workbench:
    """The directory ``folder``, in which all commands run and all relative paths are."""

    folder: Path

    def write(self, name: str, content: str | bytes) -> Path:
        """Writes a file, with the directories above it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def start(
        self,
        *words: str,
        environment: Mapping[str, str] = {},
        prefix: Sequence[str] = (),
        **files: Any,
    ) -> subprocess.Popen[str]:
        """Starts a command; ``prefix`` are the words of another program that starts it."""
        program = shlex.split(os.environ.get("XDS_PROGRAM", ""))
        if not program and not prefix:
            return start_program(words, environment=environment, directory=self.folder, **files)
        program = program or [sys.executable, "-m", "publisher.cli"]
        return subprocess.Popen(
            [*prefix, *program, *words],
            cwd=self.folder,
            env={**os.environ, **environment},
            text=True,
            **{"stdin": subprocess.DEVNULL, **files},
        )

    def run(
        self,
        *words: str,
        codes: Sequence[int] | None = EXPECTED,
        environment: Mapping[str, str] = {},
        prefix: Sequence[str] = (),
        seconds: float = 120,
    ) -> Done:
        """Runs a command to its end; another exit code than ``codes`` fails the test."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.start(*words, environment=environment, prefix=prefix, **pipes) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        done = Done(process.returncode, out, err)
        assert codes is None or done.code in codes, f"{words}: exit code {done.code}\n{done.text}"
        return done

    def replay(self, *words: str, to: str = OUT, codes: Sequence[int] = (0, REJECTS)) -> Done:
        """Replays snapshots to files."""
        return self.run("replay", *words, "--to", to, codes=codes)

    def publish(
        self, *words: str, job: str = JOB, codes: Sequence[int] | None = (0, REJECTS)
    ) -> dict[str, Any]:
        """Runs a job once; returns the report."""
        return self.run("publish", "-c", job, "--json", *words, codes=codes).report

    def verify(self, *words: str, job: str = JOB, codes: Sequence[int] = (0, 3)) -> Done:
        """Compares what was published with the tables."""
        return self.run("verify", "-c", job, *words, codes=codes)

    def deliveries(self, place: str = OUT) -> list[Delivery]:
        """The documents of a replay, or of all runs of a job."""
        return list(read_files(part_files(self.folder / place)))

    def operations(self, place: str = OUT) -> list[Operation]:
        """The operations of all documents."""
        return [op for delivery in self.deliveries(place) for op in delivery.operations]

    def objects(self, place: str = OUT) -> dict[str, dict[str, tuple[str, ...]]]:
        """The objects that the documents lead to: association, attribute, texts of its values."""
        known = Objects()
        known.apply_all(self.deliveries(place))
        return {
            association: {
                name: tuple(value.text for value in values)
                for name, values in known[association].attributes.items()
            }
            for association in known
        }

    def lines(self, place: str = OUT) -> list[bytes]:
        """The documents of a place as they are written, one a line."""
        parts = part_files(self.folder / place)
        return [line for part in parts for line in part.read_bytes().split(b"\n")[:-1]]

    def rejects(self, place: str = OUT) -> list[Reject]:
        """The rejected records of a replay, or of all runs of a job."""
        files = sorted((self.folder / place).rglob("rejects.jsonl"))
        entries = [
            json.loads(line)
            for file in files
            for line in file.read_text("utf-8").split("\n")
            if line
        ]
        return [Reject(e["position"], e["reason"], e["detail"]) for e in entries]


def texts(operation: Operation, attribute: str) -> list[str]:
    """The texts that an operation adds to an attribute."""
    assert not isinstance(operation, ModifyAssociation)
    return [
        change.value.text
        for change in getattr(operation, "changes", ())
        if isinstance(change, AddValue) and change.attribute == attribute
    ]


def removed(operation: Operation, attribute: str) -> list[str]:
    """The texts that an operation removes from an attribute by their value."""
    return [
        change.value.text
        for change in getattr(operation, "changes", ())
        if isinstance(change, RemoveValue) and change.attribute == attribute
    ]


COLUMNS = (
    *("record_id", "table_key", "status", "event_type", "event_time", "perpetrator"),
    *("table_name", "column_name", "old_value", "new_value"),
)
"""The columns of an event log."""


def log_file(events: Iterable[Mapping[str, object]]) -> str:
    """An event log as CSV; a column that an event lacks is NULL, and every other value is quoted."""
    lines = [",".join(COLUMNS)]
    for number, event in enumerate(events, 1):
        row = {"record_id": number, "status": "N", "event_time": "2026-05-01 10:00:00", **event}
        lines.append(",".join(_quote(row.get(name)) for name in COLUMNS))
    return "\n".join(lines) + "\n"


def event(key: str, kind: int, column: str | None = None, **more: object) -> dict[str, object]:
    """An event of the table ``usr``; ``old`` and ``new`` are its values."""
    values = {"old_value": more.pop("old", None), "new_value": more.pop("new", None)}
    names = {"table_name": "usr", "column_name": column}
    return {"table_key": key, "event_type": kind, **names, **values, **more}


def _quote(cell: object) -> str:
    return "" if cell is None else '"' + str(cell).replace('"', '""') + '"'
