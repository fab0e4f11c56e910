"""Reads files in new processes and measures their memory."""

from __future__ import annotations

import resource
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from publisher.errors import FatalError
from publisher.xds.validate import validate_files
from tests.support.event_log_files import read

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload([__name__])  # imports the packages once for all processes


def measure_read(*paths: Path) -> dict[str, Any]:
    """Reads an event log, or validates documents, in a process of its own.

    Returns the result and the growth of the memory of the process, ``peak``, in MiB.
    """
    with ProcessPoolExecutor(1, mp_context=FORKS) as pool:
        return pool.submit(_measure, list(map(str, paths))).result(timeout=240)


def _measure(paths: list[str]) -> dict[str, Any]:
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    before = _peak()
    return _read(paths) | {"peak": _peak() - before}


def _read(paths: list[str]) -> dict[str, Any]:
    if ".xds" in paths[0]:
        return {"findings": [[each.file, each.reason] for each in validate_files(paths)]}
    try:
        records, framed = read(Path(paths[0]))
    except FatalError as error:
        return {"refused": error.message}
    return {
        "details": {str(record["detail"]) for record in records},
        "framed": framed,
        "outcomes": Counter(str(record["outcome"]) for record in records),
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
