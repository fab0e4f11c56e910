"""Makes the inputs of the gate: ``python -m tests.gate.inputs DIR``.

They are those that tests record (``tests.gate.record``), files of random seeds in all forms, logs with
classes and changes of keys, the company's recordings, and histories: the same records in successive polls,
one of which is killed.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.files.options import SnapshotOptions
from tests.fuzz import binaries, texts
from tests.fuzz.form import Form, MadeFile
from tests.fuzz.trial import case_of
from tests.gate.corpus import Case, CorpusWriter, Step
from tests.golden import test_dispatch_queue as queue_story
from tests.golden import test_linkexpress as extract_story
from tests.golden.stories import typed_bytes
from tests.support import child_rows, mixed_sources, renamed_rows
from tests.support.class_cases import CaseMaker, ClassCase, write_database
from tests.support.company import job as company
from tests.support.company.story import NOW, write_story
from tests.support.dispatch_queue_files import OPTIONS as QUEUE_OPTIONS
from tests.support.event_log_files import csv_text
from tests.support.linkexpress_files import GROUP, JNL, OPEN, little

RECORDED = ("tests/golden", "tests/field", "tests/hostile", "tests/values", "tests/unit/runs")
SEEDS = 10
"""Seeds of each form of file: a half of the files is damaged."""
CLASS_SEEDS = 60
CUTS = 3
Files = dict[str, bytes | str]
PUBLISH = ("publish", "-c", "job.toml")
FORMS: dict[str, tuple[Any, SnapshotOptions | None]] = {
    "linkexpress all items": (binaries._EVERY, None),
    "linkexpress all items little": (little(binaries._EVERY), None),
    "linkexpress open": (OPEN, None),
    "linkexpress open all": (
        replace(OPEN, extract="all", nulls=False, byte_order="big"),
        None,
    ),
    "linkexpress open little": (little(OPEN), None),
    "linkexpress jnl": (JNL, None),
    "linkexpress jnl little": (little(JNL), None),
    "linkexpress group": (GROUP, None),
    "linkexpress group little": (little(replace(GROUP, nulls=False)), None),
    "dispatch-queue all columns": (
        replace(binaries.QUEUE_OF_ALL, parts="totals", row_stride=3596),
        None,
    ),
    "dispatch-queue rows": (replace(QUEUE_OPTIONS, parts="totals", row_stride=3596), None),
    "dispatch-queue padded rows": (
        replace(QUEUE_OPTIONS, parts="totals", row_stride=3600),
        None,
    ),
    "dispatch-queue text": (replace(QUEUE_OPTIONS, parts="totals"), None),
}
"""Options of the binary forms; those of texts follow from their names."""


def toml_value(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return json.dumps(value.value)
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        items = ", ".join(f"{json.dumps(k)} = {toml_value(v)}" for k, v in value.items())
        return f"{{ {items} }}"
    if is_dataclass(value):
        return toml_value(changed_options(value))
    return f"[{', '.join(map(toml_value, value))}]"


def changed_options(options: Any) -> dict[str, Any]:
    """The options that have not their defaults."""
    return {
        item.name: getattr(options, item.name)
        for item in fields(options)
        if getattr(options, item.name) != item.default and getattr(options, item.name) is not None
    }


def job_of(format_: str, options: Any, more: str = "", lanes: int = 3) -> str:
    """A job file of one source that reads the directory ``in``."""
    lines = [f"{name} = {toml_value(value)}" for name, value in changed_options(options).items()]
    return "\n".join(
        [
            *("[[sources]]", f'format = "{format_}"', 'snapshots = ["in"]', *lines, more),
            *("[dispatch]", 'path = "out"', "[run]", f"lanes = {lanes}", 'engine = "local"', ""),
        ]
    )


DATABASE = '[database]\nurl = "sqlite:///hr.db"\nschema = "main"\n'
PEOPLE = """
CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, lname TEXT, photo BLOB);
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
INSERT INTO usr SELECT i, 'first ' || i, CASE WHEN i % 7 THEN 'last ' || i END, x'00ff' FROM n WHERE i % 5;
"""
USR = """
[tables.usr]
key = ["idu"]
columns = { idu = "int", fname = "string", lname = "string", photo = "octet" }
"""


def job_of_form(form: Form) -> str:
    """The job file of a form of files."""
    if form.name in FORMS:
        return job_of(form.format, FORMS[form.name][0])
    changes = replace(texts._CHANGES, pair_wait=0)
    if form.name == "change-table messages":
        return job_of(
            form.format, replace(changes, layout="messages", header_columns=0, source_table=None)
        )
    lines = "line_breaks = false\n" if " lines" in form.name or form.name.endswith("gz") else ""
    if form.format == "event-log":
        return job_of(form.format, SnapshotOptions(), lines + 'schema = "main"\n') + DATABASE
    if form.format == "change-table":
        return job_of(form.format, changes, lines)
    return job_of(form.format, texts._PEOPLE, lines) + USR


class Maker:
    """Makes cases and stores them."""

    def __init__(self, writer: CorpusWriter) -> None:
        self._writer = writer
        self._database = database_of(PEOPLE)

    def files(self, content: Files) -> dict[str, str]:
        """Stores files; returns their digests by name."""
        return {
            name: self._writer.keep(data.encode() if isinstance(data, str) else data)
            for name, data in content.items()
        }

    def one(
        self,
        group: str,
        name: str,
        format_: str | Sequence[str],
        content: Files,
        words: Sequence[str] = PUBLISH,
    ) -> None:
        """Adds a case of one command."""
        formats = [format_] if isinstance(format_, str) else list(format_)
        self._writer.add(Case(name, group, formats, [Step(list(words), self.files(content))]))

    def history(
        self,
        group: str,
        name: str,
        formats: Sequence[str],
        first: Files,
        polls: Sequence[Files],
        words: Sequence[str] = PUBLISH,
    ) -> None:
        """Adds a case of successive polls, one of which is killed and begun again."""
        chance = random.Random(f"{group} {name}")
        killed = chance.randrange(len(polls))
        steps = []
        for number, content in enumerate(polls):
            step = Step(list(words), self.files({**(first if number == 0 else {}), **content}))
            if number == killed:
                steps.append(replace(step, kill_after=chance.uniform(0.05, 0.6)))
                step = Step(list(words))
            steps.append(step)
        self._writer.add(
            Case(f"{name} in {len(polls)} polls", f"{group}-history", list(formats), steps)
        )

    def forms(self, folder: Path) -> None:
        """Adds random files of all forms, every second one damaged, and their histories."""
        for form in (*texts.FORMS, *binaries.FORMS):
            for seed in range(SEEDS):
                name = f"{form.name}, seed {seed}"
                if seed % 2:
                    data = case_of(form, f"gate-{seed}", folder).data()
                    self.one("damaged", name, form.format, self._form_files(form, data))
                    continue
                chance = random.Random(f"gate {form.name} {seed}")
                made = form.make(chance, chance.choice((5, 40, 200)))
                self.one("fuzz", name, form.format, self._form_files(form, whole(form, made)))
                polls = form_polls(form, made, chance)
                self.history("fuzz", name, [form.format], self._job_files(form), polls)

    def _form_files(self, form: Form, data: bytes) -> Files:
        return {**self._job_files(form), f"in/{form.file}": data}

    def _job_files(self, form: Form) -> Files:
        files: Files = {"job.toml": job_of_form(form)}
        return {**files, "hr.db": self._database} if form.format == "event-log" else files

    def classes(self) -> None:
        """Adds logs on random classes."""
        for seed in range(CLASS_SEEDS):
            case = CaseMaker(seed).case()
            with tempfile.TemporaryDirectory() as folder:
                write_database(case, Path(folder) / "hr.db")
                database = (Path(folder) / "hr.db").read_bytes()
            job = class_job(case, 1 + seed % 3)
            first: Files = {"job.toml": job, "hr.db": database}
            self.one(
                "classes", f"seed {seed}", "event-log", {**first, "in/1.csv": csv_text(case.rows)}
            )
            if seed % 4 == 0 and len(case.rows) > CUTS:
                polls: list[Files] = [
                    {f"in/{n}.csv": csv_text(rows)}
                    for n, rows in enumerate(cut(case.rows, random.Random(seed)))
                ]
                self.history("classes", f"seed {seed}", ["event-log"], first, polls)

    def keys(self) -> None:
        """Adds histories of rows whose keys change."""
        for seed in range(4):
            for format_, settings in renamed_rows.SETTINGS.items():
                for change in ("", 'key_change = "modify-association"\n'):
                    table = renamed_rows.renamed_rows(seed, 60)
                    with tempfile.TemporaryDirectory() as folder:
                        path = renamed_rows.write_rows(table, format_, Path(folder))
                        data = path.read_bytes()
                    job = f'[[sources]]\nsnapshots = ["in"]\n{settings}{change}' + KEYED
                    name = f"{format_} {change or 'delete and add'}, seed {seed}"
                    self.one("keys", name, format_, {"job.toml": job, f"in/{path.name}": data})
                    if format_ == "event-log":
                        rows = list(table.event_log())
                        polls: list[Files] = [
                            {f"in/{n}.csv": csv_text(part)}
                            for n, part in enumerate(cut(rows, random.Random(seed)))
                        ]
                        self.history("keys", name, [format_], {"job.toml": job}, polls)

    def children(self) -> None:
        """Adds the story of a parent and a child table as each format records it."""
        for format_, recorder in child_rows.RECORDERS.items():
            with tempfile.TemporaryDirectory() as folder:
                paths = recorder.write(Path(folder), child_rows.story())
                content: Files = {
                    f"in/{path.relative_to(folder)}": path.read_bytes() for path in paths
                }
            source = recorder.settings.replace(
                "[[sources]]\n", '[[sources]]\nsnapshots = ["in"]\n', 1
            )
            if format_ == "change-table":
                names = sorted({str(Path(name).parent) for name in content})
                source = recorder.settings.replace(
                    "[[sources]]\n", f"[[sources]]\nsnapshots = {toml_value(names)}\n", 1
                )
            job = f'{source}{child_rows.CLASSES}\n[dispatch]\npath = "out"\n[run]\nlanes = 2\n'
            self.one("children", format_, format_, {"job.toml": job, **content})

    def mixed(self) -> None:
        """Adds sources of several formats in one job, and the company's recordings."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            mixed_sources.write_inputs(folder)
            self.one("mixed", "four sources", list(MIXED), tree(folder))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            company.prepare(folder, write_story())
            words = ("publish", "-c", company.JOB, "--now", NOW, "--engine", "local")
            self.one("mixed", "company", list(MIXED), tree(folder), words)

    def golden(self) -> None:
        """Adds the stories that are typed by hand."""
        here = Path(extract_story.HERE).parent
        extract = typed_bytes(here / "linkexpress" / "story.hex")
        job = job_of("linkexpress", extract_story.SOURCE.options)
        self.one("golden", "linkexpress", "linkexpress", {"job.toml": job, "in/story.dat": extract})
        job = job_of("dispatch-queue", queue_story.SOURCE.options)
        database = database_of(
            "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname, pay, photo BLOB);"
            "INSERT INTO usr VALUES (3, 'Joe', NULL, X'FFD8');"
        )
        job += '\n[database]\nurl = "sqlite:///hr.db"\n'
        first: Files = {"job.toml": job, "hr.db": database}
        queue = queue_story.typed_queue()
        self.one("golden", "dispatch-queue", "dispatch-queue", {**first, "in/queue.dat": queue})
        rows = [queue[at : at + 3596] for at in range(0, len(queue), 3596)]
        polls: list[Files] = [
            {f"in/{n}.dat": b"".join(part)} for n, part in enumerate(cut(rows, random.Random(1)))
        ]
        self.history("golden", "dispatch-queue", ["dispatch-queue"], first, polls)
        story = here / "change_table"
        content = {f"in/{name}": (story / name).read_bytes() for name in ("story.csv", "story.dfm")}
        job = job_of("change-table", ChangeTableOptions(pair_wait=0))
        self.one("golden", "change-table", "change-table", {"job.toml": job, **content})

    def logs_in_files(self, folder: Path) -> None:
        """Adds histories of the recorded replays of event logs, and of event logs in SQLite."""
        for path in sorted(folder.glob("cases/*.json")):
            case = json.loads(path.read_text("utf-8"))
            if case["group"] not in ("golden", "field") or len(case["steps"]) > 2:
                continue
            blobs = {
                name: (folder / "blobs" / digest).read_bytes()
                for name, digest in case["steps"][0]["write"].items()
            }
            self._history_of_replay(case, blobs)

    def _history_of_replay(self, case: dict[str, Any], blobs: dict[str, bytes]) -> None:
        step = case["steps"][0]
        logs = [name for name in blobs if name.endswith(".csv")]
        jobs = [name for name in blobs if name.endswith(".toml")]
        if step["words"][0] != "replay" or len(logs) != 1 or len(jobs) != 1:
            return
        job = blobs[jobs[0]].decode().replace(case["root"], ".")
        if case["formats"] != ["event-log"] or "snapshots" in job or "[dispatch]" in job:
            return
        line = 'snapshots = ["in"]\n'
        header = re.search(r"^\[\[?sources?\]\]?\n", job, re.MULTILINE)
        at = header.end() if header else 0
        job = f"{job[:at]}{line}{job[at:]}" if header else f"[[sources]]\n{line}{job}"
        head, *lines = blobs[logs[0]].splitlines(keepends=True)
        if len(lines) <= CUTS or any(not line[:1].isdigit() for line in lines):
            return
        first: Files = {name: data for name, data in blobs.items() if name not in (*logs, *jobs)}
        first["job.toml"] = job + '\n[dispatch]\npath = "out"\n'
        polls: list[Files] = [
            {f"in/{n}.csv": head + b"".join(part)}
            for n, part in enumerate(cut(lines, random.Random(case["name"])))
        ]
        self.history("replayed", case["name"], ["event-log"], first, polls)


MIXED = ("event-log", "change-table", "dispatch-queue", "linkexpress")
KEYED = """
[tables.usr]
schema = "hr"
key = ["idu"]
columns = { idu = "int", lname = "string" }
[dispatch]
path = "out"
[run]
lanes = 3
engine = "local"
"""


def class_job(case: ClassCase, lanes: int) -> str:
    """The job file of a case of classes."""
    rules, classes = case.rules, case.classes.rules
    source: dict[str, Any] = {
        "snapshots": ["in"],
        "schema": "main",
        "identifier_case": "database",
        "poll_size": rules.poll_size,
        "poll_slack": rules.poll_slack,
        "exclude": list(classes.excluded_tables),
        "exclude_columns": list(classes.excluded_columns),
    }
    options: dict[str, Any] = {
        "sync_filter": "schema" if classes.listed is None else "list",
        "sync_tables": list(classes.listed or ()),
        "child_columns": classes.child_columns,
        "child_row_events": classes.child_row_events,
        "child_after_delete": rules.child_after_delete,
        "enable_refs": classes.enable_refs,
    }
    documents: dict[str, Any] = {
        "batch_size": rules.batch_size,
        "insert_query_back": rules.insert_query_back,
        "reference_text": classes.reference_text,
    }
    sections: dict[str, dict[str, Any]] = {
        "[[sources]]": source,
        "[classes]": options,
        "[documents]": documents,
        "[database]": {"url": "sqlite:///hr.db", "schema": "main"},
        "[dispatch]": {"path": "out"},
        "[run]": {"lanes": lanes, "engine": "local"},
    }
    lines = [
        f"{header}\n"
        + "".join(
            f"{name} = {toml_value(v)}\n" for name, v in section.items() if v not in (None, [])
        )
        for header, section in sections.items()
    ]
    declared: dict[str, list[str]] = {}
    for name in classes.declared:
        owner = case.classes.tables[name].owner
        if owner is not None:
            declared.setdefault(owner.table, []).append(name)
    for parent, children in declared.items():
        lines.append(f"[tables.{json.dumps(parent, ensure_ascii=False)}.children]\n")
        lines += [f"{json.dumps(child, ensure_ascii=False)} = {{}}\n" for child in children]
    return "".join(lines)


def database_of(script: str) -> bytes:
    """The file of an SQLite database."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hr.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(script)
        return path.read_bytes()


def whole(form: Form, made: MadeFile) -> bytes:
    """The file with all records."""
    text = made.head + b"".join(piece.data for piece in made.pieces)
    return form.pack(text) if form.pack else text


def form_polls(form: Form, made: MadeFile, chance: random.Random) -> list[Files]:
    """The records in successive files; a table that is compared grows instead."""
    polls: list[Files] = []
    grown: list[Any] = []
    for number, pieces in enumerate(cut(made.pieces, chance)):
        grown = [*grown, *pieces] if form.format == "triggerless" else list(pieces)
        name = form.file if form.format == "triggerless" else f"{number}-{form.file}"
        polls.append({f"in/{name}": whole(form, MadeFile(made.head, grown))})
    return polls


def cut(records: Sequence[Any], chance: random.Random) -> Iterator[Sequence[Any]]:
    """Cuts records at random places; each part has one at least."""
    count = min(CUTS, len(records) - 1)
    places = [0, *sorted(chance.sample(range(1, len(records)), count)), len(records)]
    return (records[a:b] for a, b in itertools.pairwise(places))


def tree(folder: Path) -> Files:
    """All files below a directory."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def record_tests(folder: Path) -> None:
    """Records the commands of tests; a test that fails records nothing worse than its commands."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.gate.record",
        "-p",
        "no:cacheprovider",
    ]
    command += ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-n", "2", "--dist", "loadgroup"]
    environment = {**os.environ, "GATE_CORPUS": str(folder)}
    subprocess.run([*command, *RECORDED], env=environment, check=False)


def main(folder: Path) -> None:
    """Makes all inputs."""
    maker = Maker(CorpusWriter(folder))
    maker.golden()
    maker.children()
    maker.mixed()
    maker.keys()
    maker.classes()
    with tempfile.TemporaryDirectory() as name:
        maker.forms(Path(name))
    if "--no-tests" not in sys.argv:
        record_tests(folder)
    maker.logs_in_files(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
