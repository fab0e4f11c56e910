"""Changes of keys in real topics: old and new keys in different partitions, and kills between the copies."""

from __future__ import annotations

import signal
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.consumer import Delivery, Inbox, Objects
from publisher.consumer.topics import TopicReader
from publisher.runs.replay import replay
from tests.services.topics import Topics
from tests.support.programs import start_program
from tests.support.renamed_rows import SETTINGS, RenamedRows, renamed_rows, write_rows


def write_job(folder: Path, format_: str, lanes: int) -> Path:
    job = folder / "job.toml"
    change = 'key_change = "modify-association"\n'
    job.write_text(
        f'[source]\n{SETTINGS[format_]}{change}[run]\nlanes = {lanes}\nengine = "local"\n',
        "utf-8",
    )
    return job


def read(kafka: Topics, topic: str) -> list[Delivery]:
    with TopicReader({"bootstrap.servers": kafka.bootstrap}, topic) as opened:
        return list(opened.deliveries(follow=False))


def mirror(deliveries: list[Delivery], *, backwards: bool = False) -> dict[str, str | None]:
    """The last names of the objects, with one partition read after the other."""
    objects, inbox = Objects(strict=not backwards), Inbox()
    for part in sorted({d.origin.part for d in deliveries}, reverse=backwards):
        objects.apply_all(inbox.in_order(d for d in deliveries if d.origin.part == part))
    assert inbox.held == 0
    return {name: objects[name].text("lname") for name in objects}


def expected(table: RenamedRows) -> dict[str, str]:
    return {f"idu={key},table=usr,schema=hr": text for key, text in table.rows.items()}


@pytest.mark.parametrize("format_", SETTINGS)
def test_keys_in_different_partitions_lead_to_the_rows(
    kafka: Topics, tmp_path: Path, format_: str
) -> None:
    table = renamed_rows(3)
    topic = kafka.make(partitions=5)
    path = write_rows(table, format_, tmp_path)
    job = load(write_job(tmp_path, format_, 3))
    report = replay(job, [path], f"kafka://{kafka.bootstrap}/{topic}")
    deliveries = read(kafka, topic)
    parts = defaultdict[str | None, set[str]](set)
    for delivery in deliveries:
        if delivery.key_change is not None:
            parts[delivery.event_id].add(delivery.origin.part)
    moves = sum(1 for before, after in table.changes if before and after and before[0] != after[0])
    assert len(parts) == moves == report.operations["modify-association"]
    assert sum(len(places) == 2 for places in parts.values()) > moves / 2
    for backwards in (False, True):
        assert mirror(deliveries, backwards=backwards) == expected(table)


def test_a_kill_between_the_copies_of_a_change_of_a_key(kafka: Topics, tmp_path: Path) -> None:
    table = renamed_rows(5, 40)
    topic = kafka.make(partitions=3)
    path = write_rows(table, "event-log", tmp_path)
    job = write_job(tmp_path, "event-log", 1)
    target = f"kafka://{kafka.bootstrap}/{topic}"
    words = ["replay", str(path), "--to", target, "-c", str(job)]
    pipe = subprocess.PIPE
    killed = start_program(words, module="tests.services.half_key_change", stderr=pipe)
    _, message = killed.communicate()
    assert killed.returncode == -signal.SIGKILL, message
    again = start_program(words, stdout=pipe, stderr=pipe)
    _, message = again.communicate()
    assert again.returncode == 0, message
    deliveries = read(kafka, topic)
    copies = [(d.event_id, d.key) for d in deliveries if d.key_change is not None]
    moves = sum(1 for before, after in table.changes if before and after and before[0] != after[0])
    assert len(set(copies)) == 2 * moves
    assert len(copies) == 2 * moves
    assert mirror(deliveries) == expected(table)
