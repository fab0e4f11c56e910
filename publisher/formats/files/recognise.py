"""Recognises the format of a file that does not fit the configured format, by its first record."""

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
"""Columns that identify a format: its files have most of them, files of other formats do not."""
_ENOUGH = 3
_CHANGE_SEQ = re.compile(r"[0-9]{35}")
_NAME = re.compile(r"[^\W\d]\w*")
_SHOWN = 12


def format_of(names: Iterable[str]) -> str | None:
    """Finds the format that has these columns or keys; ``None`` if they identify none."""
    folded = {name.strip().casefold() for name in names}
    if any(name.endswith("change_seq") for name in folded) or _is_message(folded):
        return "change-table"
    hits = (name for name, known in NAMES.items() if len(folded & known) >= _ENOUGH)
    return next(hits, None)


def hint(names: Sequence[str], expected: str | None) -> str:
    """Returns advice to append to a message if columns belong to another format than ``expected``."""
    other = format_of(names)
    if other is None or other == expected:
        return ""
    layout = ', with layout = "messages",' if _is_message({n.casefold() for n in names}) else ""
    return f"; {_advice(other, layout)}"


def refusal(fields: Sequence[str], names: Sequence[str], where: str) -> str | None:
    """Returns the reason to refuse a file whose first record names none of the expected columns.

    ``None`` if it may be a file without names.
    """
    other = hint(fields, format_of(names))
    if other:
        return f"{where}: its columns are {_some(fields)}{other}"
    if not fields or len(fields) == len(names):
        return None
    message = (
        f"{where}: its first record has {len(fields)} fields where there should be {len(names)}"
    )
    if _CHANGE_SEQ.fullmatch(fields[0].strip()):
        return f"{message} and begins with a change_seq; {_advice('change-table')}"
    if dfm_of(Path(where)).is_file():
        return f"{message}, and {dfm_of(Path(where)).name} describes it; {_advice('change-table')}"
    if len(set(fields)) == len(fields) > 1 and all(
        _NAME.fullmatch(name.strip()) for name in fields
    ):
        return (
            f"{message} and seems to name them: {_some(fields)}; choose its format (--format,"
            ' format), map the names in the settings (columns), or set header = "no" if these are'
            " values"
        )
    return None


def dfm_of(path: Path) -> Path:
    """The path of the metadata of a change table's file: beside it, with the same base name."""
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
