"""Joins columns of texts, element by element."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc


def join_texts(pieces: Iterable[str | pa.StringArray]) -> pa.StringArray:
    """Joins the texts of columns, and texts that are the same in all rows; null in any piece gives null.

    Neighbouring texts that are the same in all rows are joined first, which is faster."""
    joined: list[str | pa.StringArray] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    return pc.binary_join_element_wise(*joined, "")
