"""Runs cases of the gate with the program of the environment that runs it, and prints what came of each.

``python worker.py CORPUS SCRATCH local|spark|BOOTSTRAP [SETTING…]`` reads names of cases, one a line, and
writes one JSON object a line; the settings are left out of job files, and
names of today replace those of the tag.  It needs nothing but the program and
the standard library, so that any version of the program can run it.  A command runs in a process that is
forked from this one, which has imported the program already; on Spark all run in this process.  With an
address of brokers, files are replayed to topics of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import pkgutil
import re
import shutil
import signal
import sqlite3
import sys
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATIENCE = 120.0
"""Seconds that a command may take."""
_OBJECT = re.compile(
    rb"<association>(.*?)</association>|<modify-association .*?</modify-association>", re.DOTALL
)
_IDENTITY = re.compile(rb"(?<![0-9a-f])[0-9a-f]{16}(?=[.:])")


def main() -> None:
    """Runs all cases that are named on standard input."""
    corpus, scratch, way, results = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.stdout
    if way != "spark":
        import_program()
    for line in sys.stdin:
        case = json.loads((corpus / "cases" / line.strip()).read_text("utf-8"))
        place = scratch / f"case-{os.getpid()}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        result = run_case(case, corpus, place, way)
        results.write(json.dumps({"case": line.strip(), **result}) + "\n")
        results.flush()
        shutil.rmtree(place, ignore_errors=True)


def import_program() -> None:
    """Imports all modules that run without Spark."""
    package = importlib.import_module("publisher")
    for module in pkgutil.walk_packages(package.__path__, "publisher."):
        if not re.search(r"spark|dataframes|__main__", module.name):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def run_case(case: dict[str, Any], corpus: Path, place: Path, way: str) -> dict[str, Any]:
    """Runs the commands of a case; returns exit codes, last lines, documents, rejects and outcomes."""
    codes: list[int | str | None] = []
    messages: list[str] = []
    begun = time.monotonic()
    for step in case["steps"]:
        prepare(step, case["root"], corpus, place, sys.argv[4:])
        words = [word.replace("{root}", str(place)) for word in step["words"]]
        if sys.argv[4:]:
            words = ["--ledger" if word == "--journal" else word for word in words]
        if way == "spark" and words[0] in ("publish", "replay"):
            words += ["--engine", "spark"]
        topic = f"gate-{uuid.uuid4().hex[:12]}"
        if way not in ("local", "spark"):
            words = to_kafka(words, place / step["folder"], f"kafka://{way}/{topic}")
        run = run_here if way == "spark" else run_forked
        code, text = run(words, place / step["folder"], step["environment"], step["kill_after"])
        codes.append(code)
        messages.append(text.replace(str(place), "{root}")[-1500:])
    return {
        "codes": codes,
        "messages": messages,
        "documents": documents_in(place),
        "rejects": rejects_in(place),
        "outcomes": outcomes_in(place),
        "headers": {} if way in ("local", "spark") else records_of(way, topic),
        "seconds": round(time.monotonic() - begun, 2),
    }


def to_kafka(words: list[str], folder: Path, target: str) -> list[str]:
    """Turns a command into one that replays the same files to a topic, which it creates."""
    if "-c" in words:
        job = folder / words[words.index("-c") + 1]
        text = job.read_text("utf-8")
        text = re.sub(
            r"^\[dispatch\]\n", "[dispatch]\ncreate_topics = true\n", text, flags=re.MULTILINE
        )
        text = re.sub(r"^path = .*\n", "", text, flags=re.MULTILINE)
        job.write_text(
            text if "[dispatch]" in text else f"{text}\n[dispatch]\ncreate_topics = true\n"
        )
    if words[0] == "publish":
        return ["replay", *words[1:], "in", "--to", target]
    at = words.index("--to") + 1
    return [*words[:at], target, *words[at + 1 :]]


def records_of(bootstrap: str, topic: str) -> dict[str, int]:
    """The records of a topic: key, headers without what differs between runs, and digest of the value."""
    kafka = importlib.import_module("confluent_kafka")
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: Counter[str] = Counter()
    topics = consumer.list_topics(topic, timeout=20).topics[topic]
    ends = {number for number in topics.partitions if not topics.error}
    consumer.assign([kafka.TopicPartition(topic, number, 0) for number in sorted(ends)])
    while ends:
        message = consumer.poll(20)
        if message is None:
            break
        if message.error():
            ends.discard(message.partition())
            continue
        headers = sorted((name, value or b"") for name, value in message.headers() or ())
        value = hashlib.sha256(_IDENTITY.sub(b"ID", message.value() or b"")).hexdigest()[:16]
        text = " ".join(
            f"{n}={_IDENTITY.sub(b'ID', v).decode('utf-8', 'replace')}" for n, v in headers
        )
        found[f"{(message.key() or b'').decode('utf-8', 'replace')}: {text} value {value}"] += 1
    consumer.close()
    return dict(found)


def prepare(step: dict[str, Any], root: str, corpus: Path, place: Path, dropped: list[str]) -> None:
    """Changes the files of a case as a step says."""
    for name in step["remove"]:
        (place / name).unlink(missing_ok=True)
    for name, digest in step["write"].items():
        content = (corpus / "blobs" / digest).read_bytes()
        if name.endswith(".toml"):
            text = content.decode("utf-8")
            for setting in dropped:
                text = re.sub(rf"^{setting} = .*\n", "", text, flags=re.MULTILINE)
            if dropped:
                text = text.replace("[journal]", "[ledger]")
            content = (text.replace(root, str(place)) if root else text).encode()
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    for name, statements in step["statements"].items():
        with contextlib.closing(sqlite3.connect(place / name)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()


def run_forked(
    words: list[str], folder: Path, environment: dict[str, str], kill_after: float | None
) -> tuple[int | str | None, str]:
    """Runs a command in a process of its own."""
    output = folder / f".gate-{os.getpid()}"
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        _become(words, folder, environment, output)
    code = _wait(pid, PATIENCE if kill_after is None else kill_after)
    text = output.read_text("utf-8", "replace") if output.exists() else ""
    output.unlink(missing_ok=True)
    if code is None and kill_after is None:
        return "timeout", text
    return (None if kill_after is not None else code), text


def _become(words: list[str], folder: Path, environment: dict[str, str], output: Path) -> None:
    code = 99
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.update(environment)
        file = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        for number, target in ((os.open(os.devnull, os.O_RDONLY), 0), (file, 1), (file, 2)):
            os.dup2(number, target)
        code = call_program(words)
    except BaseException:  # noqa: BLE001 - the last frame of a process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, seconds: float) -> int | None:
    """Waits for a process; kills it with all its children after so many seconds, and then returns nothing."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def run_here(
    words: list[str], folder: Path, environment: dict[str, str], kill_after: float | None
) -> tuple[int | str | None, str]:
    """Runs a command in this process."""
    text = io.StringIO()
    os.environ.update(environment)
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(text),
    ):
        code = call_program(words)
    return code, text.getvalue()


def call_program(words: list[str]) -> int:
    """Calls the command line as a start of the program does; returns the exit code."""
    cli = importlib.import_module("publisher.cli.main").cli
    sys.argv = ["xds-publisher", *words]
    try:
        cli.main(words, prog_name="xds-publisher")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def outputs(place: Path, pattern: str) -> Iterator[Path]:
    """The files of sinks below a directory, in the order of runs."""
    for path in sorted(place.rglob(pattern)):
        if not re.search(r"/(\.xds-publisher|_journal|_ledger|staging[^/]*)/", str(path)):
            yield path


def documents_in(place: Path) -> dict[str, list[str]]:
    """The documents of each object in their order; identities in event ids are left out."""
    found: dict[str, list[str]] = {}
    for part in outputs(place, "part-*"):
        for line in part.read_bytes().split(b"\n")[:-1]:
            text = _IDENTITY.sub(b"ID", line.replace(str(place).encode(), b"{root}"))
            match = _OBJECT.search(text)
            name = match.group(1) or match.group() if match else b"?"
            found.setdefault(name.decode("utf-8", "replace"), []).append(
                text.decode("utf-8", "replace")
            )
    return found


def rejects_in(place: Path) -> dict[str, int]:
    """The rejected records, by source, position and reason."""
    found: Counter[str] = Counter()
    for path in outputs(place, "rejects.jsonl"):
        for line in path.read_bytes().split(b"\n")[:-1]:
            entry = json.loads(line)
            found[f"{entry['source']} {entry['position']} {entry['reason']}"] += 1
    return dict(found)


def outcomes_in(place: Path) -> dict[str, int]:
    """Records by outcome and reason in all runs; of those held, only those of the last run."""
    found: Counter[str] = Counter()
    held: dict[str, int] = {}
    for path in outputs(place, "run.json"):
        report = json.loads(path.read_bytes())
        counts = {name: n for name, n in report["outcomes"].items() if n}
        for outcome, reasons in report["reasons"].items():
            counts |= {f"{outcome} {reason}": n for reason, n in reasons.items()}
        held = {name: n for name, n in counts.items() if name.startswith("held")}
        found.update({name: n for name, n in counts.items() if name not in held})
    return {**found, **held}


if __name__ == "__main__":
    main()
