"""Dead letters of a rejected transaction are read back, corrected and published, with a real broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.services.topics import Record, Topics
from tests.support.dispatch_queue_files import binary
from tests.support.dispatch_queue_jobs import JOB, transactions
from tests.support.retried_rejects import export, invoke, retry

pytestmark = pytest.mark.usefixtures("local_engine")

SINK = """
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
dead_letter_topic = "{letters}"
"""


def _objects(records: list[Record]) -> list[str]:
    return re.findall(
        r"<association>(\w+=\d+)", "".join((r.value or b"").decode() for r in records)
    )


def _event_ids(records: list[Record]) -> list[bytes | None]:
    return [dict(record.headers)["event-id"] for record in records]


def _corrected(entry: dict[str, Any]) -> dict[str, Any]:
    first = entry["raw"]["first"].replace("420162", "426f62")
    return entry | {"raw": entry["raw"] | {"first": first}}


def test_a_transaction_of_dead_letters_is_published_once(kafka: Topics, tmp_path: Path) -> None:
    topic, letters = kafka.make(), kafka.make()
    sink = SINK.format(bootstrap=kafka.bootstrap, topic=topic, letters=letters)
    (tmp_path / "job.toml").write_text(
        JOB.format(more="").replace('[dispatch]\npath = "out"\n', sink)
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "queue.dat").write_bytes(binary(transactions()))
    invoke(tmp_path, "publish", "--engine", "local")
    assert _objects(kafka.read(topic)) == ["idu=3", "idu=4"]
    assert len(kafka.read(letters)) == 7

    entries = export(tmp_path, "forbidden-character", "--dead-letters")
    # the others of the transaction, too, and all as they were in the queue
    assert {entry["reason"] for entry in entries} == {"forbidden-character", "held-back"}
    result = retry(tmp_path, [_corrected(entry) for entry in entries])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["outcomes"]["published"] == 7

    records = kafka.read(topic)
    assert _objects(records)[2:4] == ["idu=1", "idu=2"]
    assert len(set(_event_ids(records))) == len(records) == 9
    assert retry(tmp_path, entries).exit_code == 2
    assert len(kafka.read(topic)) == 9
    listed = invoke(tmp_path, "rejects", "--dead-letters", "--json")
    assert [group["retried"] for group in json.loads(listed.stdout)] == [6, 1]
