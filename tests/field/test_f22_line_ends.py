"""Lines end at LF only.

Readers that split text with the language's helper broke one record into two at U+2028, U+2029 and
U+0085. RFC 8259 allows these characters raw in JSON, and our own files are split at LF only.
"""

from __future__ import annotations

import json

import pytest

from tests.support.workbench import Workbench, event

SEPARATORS = "a\u2028b\u0085c\u2029d"
EVENTS = [
    event("idu=1", 3, "fname", new="plain"),
    event("idu=2", 3, "fname", new=SEPARATORS),
    event("idu=3", 3, "fname", new="plain"),
    event(f'idu="{SEPARATORS}"', 3, "fname", new=SEPARATORS),
    event("idu=5", 3, "fname", new="last"),
]
DEFAULTS = {"status": "N", "event_time": "2026-05-01 10:00:00"}


@pytest.mark.parametrize("value_format", ["xml", "json"])
def test_every_reader_splits_at_line_feeds_only(bench: Workbench, value_format: str) -> None:
    lines = (
        json.dumps({"record_id": n, **DEFAULTS, **e}, ensure_ascii=False)
        for n, e in enumerate(EVENTS, 1)
    )
    bench.write("log.jsonl", "".join(f"{line}\n" for line in lines))
    bench.write(
        "job.toml",
        f'[[sources]]\nsnapshots = ["log.jsonl"]\n[documents]\nvalue_format = "{value_format}"\n',
    )

    bench.replay("log.jsonl", "-c", "job.toml", "--lanes", "1")

    assert len(bench.lines()) == len(bench.deliveries()) == 5
    assert list(bench.objects().values())[1] == {"fname": (SEPARATORS,)}
    assert SEPARATORS in list(bench.objects())[3]
    part = bench.folder / "out" / "part-00000.xds"
    story = bench.run("explain", "out", "--document", "out/part-00000.xds:4")
    assert "4" in story.out.split("position", 1)[1].splitlines()[0]

    broken = part.read_bytes().split(b"\n")
    broken[4] = broken[4].replace(b"modify", b"modifx")
    part.write_bytes(b"\n".join(broken))
    problems = bench.run("validate", str(part), codes=[3])
    assert ":5" in problems.text
    assert ":6" not in problems.text
