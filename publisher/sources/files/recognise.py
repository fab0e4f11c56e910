"""Which format a file is of that does not fit the one asked for, as far as its beginning tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

NAMES: Mapping[str, frozenset[str]] = {
    "event-log": frozenset({"record_id", "table_key", "event_type", "event_time", "table_name"}),
    "dispatch-queue": frozenset(
        {"dbnode", "dst_server", "dst_table", "transact_id", "syslog_addr"}
    ),
}
"""Columns that tell a format: most of them are in its files, and in no others."""
_ENOUGH = 3
_CHANGE_SEQ = re.compile(r"[0-9]{35}")
_NAME = re.compile(r"[^\W\d]\w*")
_SHOWN = 12


def format_of(names: Iterable[str]) -> str | None:
    """The format that has such columns or keys, ``None`` where they tell none."""
    folded = {name.strip().casefold() for name in names}
    if any(name.endswith("change_seq") for name in folded) or _is_message(folded):
        return "change-table"
    hits = (name for name, known in NAMES.items() if len(folded & known) >= _ENOUGH)
    return next(hits, None)


def hint(found: Sequence[str], asked: str | None) -> str:
    """What to add to a message where columns are those of another format than the one asked for."""
    other = format_of(found)
    if other is None or other == asked:
        return ""
    layout = ', with layout = "messages",' if _is_message({n.casefold() for n in found}) else ""
    return f"; {_advice(other, layout)}"


def refusal(found: Sequence[str], names: Sequence[str], where: str) -> str | None:
    """Why a file is none of these columns whose first record names none of them; ``None`` where it may
    be a file without names."""
    other = hint(found, format_of(names))
    if other:
        return f"{where}: its columns are {_some(found)}{other}"
    if not found or len(found) == len(names):
        return None
    said = f"{where}: its first record has {len(found)} fields where there should be {len(names)}"
    if _CHANGE_SEQ.fullmatch(found[0].strip()):
        return f"{said} and begins with a change_seq; {_advice('change-table')}"
    if dfm_of(Path(where)).is_file():
        return f"{said}, and {dfm_of(Path(where)).name} describes it; {_advice('change-table')}"
    if len(set(found)) == len(found) > 1 and all(_NAME.fullmatch(name.strip()) for name in found):
        return (
            f"{said} and seems to name them: {_some(found)}; say which format it is of (--format,"
            ' format), map the names in the settings (columns), or set header = "no" where these are'
            " values"
        )
    return None


def dfm_of(path: Path) -> Path:
    """Where the metadata of a change table's file lies: beside it, under the same base name."""
    stem = path.name.removesuffix(path.suffix) if path.suffix.lower() == ".gz" else path.name
    return path.with_name(Path(stem).stem + ".dfm")


def _is_message(folded: set[str]) -> bool:
    return "headers" in folded and bool(folded & {"data", "message"})


def _advice(other: str, layout: str = "") -> str:
    return (
        f"it looks like the format {other}: --format {other} reads it, or format ="
        f' "{other}"{layout} in the job file'
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")
