"""Jobs that read extracts of a Linkexpress group."""

from __future__ import annotations

from pathlib import Path

from tests.support.linkexpress_files import (
    GROUP,
    group_source,
    jack,
    record,
)


def inserts(*ids: int) -> bytes:
    return b"".join(record(GROUP, *jack(idu)) for idu in ids)


JOB = group_source('name = "hr"\nsnapshots = ["in"]') + '[dispatch]\npath = "out"\n'


def published_keys(directory: Path) -> list[str]:
    texts = "".join(path.read_text() for path in sorted(directory.rglob("part-*.xds")))
    return sorted(line.partition("<association>")[2][:5] for line in texts.splitlines())
