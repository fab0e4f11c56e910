"""Describes a run for a scan: its manifest, its reports and its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from publisher.journal.job_journals import RUN
from publisher.journal.manifest import SENT, Manifest, RunEnd


@dataclass(frozen=True, slots=True)
class ScannedRun:
    """A committed run: its manifest and the reports beside it."""

    manifest: Manifest
    place: Path
    """The folder that the run has, or had before it moved into a segment."""
    documents: Path
    """Folder of the part files."""
    texts: Mapping[str, str]
    """The small reports in the run's folder by their file names."""
    end: RunEnd
    """The end of the run, with seconds and engine as far as they are known."""


def describe_run(
    manifest: Manifest, place: Path, texts: Mapping[str, str], documents: Path
) -> ScannedRun:
    """Describes a run by its manifest and the reports beside it, of which the end of the run is one."""
    sent = texts.get(SENT)
    end = RunEnd() if sent is None else RunEnd.from_plain(json.loads(sent))
    if not end.seconds:
        end = _with_seconds(end, texts.get(RUN) or _read_if_exists(documents / RUN))
    others = {name: text for name, text in texts.items() if name not in {SENT, RUN}}
    return ScannedRun(manifest, place, documents, others, end)


def _with_seconds(end: RunEnd, report: str | None) -> RunEnd:
    """Takes seconds and engine from the report of the run: a replay has no other record of them."""
    content = json.loads(report) if report else {}
    engine = content.get("engine") or {}
    return replace(end, seconds=content.get("seconds", {}), engine=engine.get("name"))


def _read_if_exists(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except OSError:  # the documents were moved
        return None
