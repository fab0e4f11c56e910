r"""The ``.dfm`` beside a data file: columns, key, table, and the form of CSV.

A ``.dfm`` writes characters as themselves, as escapes (``\t``) or as hex (``0x01``, ``0x7C7C``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from publisher.errors import FatalError
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.files.recognise import dfm_of

_HEX = re.compile(r"0[xX]((?:[0-9A-Fa-f]{2})+)").fullmatch
_ESCAPES = {r"\t": "\t", r"\n": "\n", r"\r": "\r", r"\r\n": "\r\n", "\\\\": "\\"}
_LINE_ENDS = ("\n", "\r\n")


@dataclass(frozen=True, slots=True)
class DfmDescription:
    """The content of a ``.dfm``."""

    names: tuple[str, ...]
    key: tuple[str, ...]
    table: str
    reading: Mapping[str, str]
    """Settings of ``SnapshotOptions`` for the form of CSV."""
    problem: str | None
    """The reason why CSV of this form cannot be read, if it cannot."""
    content: str | None
    """``data`` for a full load, ``changes`` for changes; some exports write ``data`` for both."""


def read_dfm(path: Path) -> DfmDescription | None:
    """Reads the description of a data file; ``None`` without ``.dfm``.

    Raises:
        FatalError: The ``.dfm`` cannot be read.
    """
    dfm = dfm_of(path)
    if not dfm.is_file():
        return None
    try:
        content = json.loads(dfm.read_text("utf-8-sig"))
        return _description(content, dfm)
    except RecursionError:
        problem = "it is nested too deeply"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
    raise FatalError(
        f"{path}: its metadata {dfm.name} cannot be read ({problem}); export it again, or move it away"
        " and set columns and key"
    )


def _description(content: Mapping[str, Any], dfm: Path) -> DfmDescription:
    info = content["dataInfo"]
    columns = sorted(info["columns"], key=lambda column: int(column["ordinal"]))
    keys = [column for column in columns if int(column.get("primaryKeyPos") or 0) > 0]
    keys.sort(key=lambda column: int(column["primaryKeyPos"]))
    parts = (_text(info, "sourceSchema"), _text(info, "sourceTable"))
    format_ = content.get("formatInfo", {}).get("options", {})
    return DfmDescription(
        tuple(_name(column) for column in columns),
        tuple(_name(column) for column in keys),
        ".".join(f'"{part.replace(chr(34), chr(34) * 2)}"' for part in parts if part),
        _reading(format_),
        _csv_problem(format_, str(dfm)),
        _text(content.get("fileInfo", {}), "content"),
    )


def _reading(format_: Mapping[str, Any]) -> Mapping[str, str]:
    """The settings that the ``.dfm`` gives for the form of CSV.

    An empty quoteChar means that nothing is quoted, an empty escapeChar that quotes are doubled.
    """
    settings = {
        "delimiter": _characters(format_, "fieldDelimiter") or None,
        "quote": _characters(format_, "quoteChar"),
        "escape": _characters(format_, "escapeChar"),
        "null_text": _text(format_, "nullValue") or None,
    }
    if settings["escape"] is not None and settings["escape"] == (settings["quote"] or '"'):
        settings["escape"] = ""
    return {name: value for name, value in settings.items() if value is not None}


def _csv_problem(format_: Mapping[str, Any], dfm: str) -> str | None:
    """The reason why CSV of this format cannot be read, if it cannot."""
    end = _characters(format_, "recordDelimiter")
    if end and end not in _LINE_ENDS:
        return (
            f"{dfm}: recordDelimiter is {end!r}, but records of CSV must end with a line end; set the record"
            " delimiter of the target to \\n, or export Parquet"
        )
    for name in ("quoteChar", "escapeChar"):
        value = _characters(format_, name)
        if value is not None and len(value) > 1:
            return (
                f"{dfm}: {name} is {value!r}, but must be one character; set it to a double quote in the"
                " target, or export Parquet"
            )
    try:
        apply_dfm(SnapshotOptions(), _reading(format_))
    except ValueError as problem:
        return f"{dfm} describes a form of CSV that cannot be read: {problem}; or export Parquet"
    return None


def apply_dfm(options: SnapshotOptions, reading: Mapping[str, str]) -> SnapshotOptions:
    """Applies the settings of a ``.dfm``.  Raises ``ValueError`` if they do not fit together."""
    return replace(
        options,
        delimiter=reading.get("delimiter", options.delimiter),
        quote=reading.get("quote", options.quote),
        escape=reading.get("escape", options.escape),
        null_text=reading.get("null_text", options.null_text),
    )


def _characters(format_: Mapping[str, Any], name: str) -> str | None:
    """The characters of an option; ``None`` if it is absent."""
    text = _text(format_, name)
    if text is None:
        return None
    if digits := _HEX(text):
        return bytes.fromhex(digits[1]).decode("latin-1")
    return _ESCAPES.get(text, text)


def _text(content: Mapping[str, Any], name: str) -> str | None:
    value = content.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is {json.dumps(value)[:40]} and not text")
    return value


def _name(column: Mapping[str, Any]) -> str:
    name = _text(column, "name")
    if not name:
        raise ValueError("a column has no name")
    return name
