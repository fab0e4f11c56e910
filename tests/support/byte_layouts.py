"""Byte layouts of construct declarations as text: a line with offset, size and name of each field."""

from __future__ import annotations

from typing import Any


def layout_text(declaration: Any) -> str:
    """Lists the named fields of a struct of fixed size, and the total size."""
    lines, offset = [], 0
    for field in declaration.subcons:
        if field.name:
            lines.append(f"{offset:5} {field.sizeof():5} {field.name}")
        offset += field.sizeof()
    return "\n".join([*lines, f"{offset:5}       end", ""])
