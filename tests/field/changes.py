"""Records of change tables for field cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

HEADERS = (
    *("header__change_seq", "header__change_oper", "header__change_mask"),
    *("header__stream_position", "header__operation", "header__transaction_id"),
    "header__timestamp",
)
OPERATIONS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "B": "BEFOREIMAGE"}


def change(
    number: int, operation: str, bits: Iterable[int] = (), **values: str | None
) -> dict[str, str | None]:
    """A record; ``bits`` are the ordinals of the columns in its mask, where header columns count."""
    mask = sum(1 << bit for bit in bits)
    size = (mask.bit_length() + 7) // 8
    headers = (
        *(f"2024031810472600{number:019d}", operation, mask.to_bytes(size, "big").hex()),
        *("16;1", OPERATIONS[operation], "2100090000000000", "2024-03-18T10:47:26.000Z"),
    )
    return {**dict(zip(HEADERS, headers, strict=True)), **values}


def change_file(columns: Sequence[str], records: Iterable[Mapping[str, str | None]]) -> str:
    """A change table as CSV."""
    names = (*HEADERS, *columns)
    cells = ([record.get(name) for name in names] for record in records)
    lines = (",".join("" if c is None else f'"{c}"' for c in row) for row in cells)
    return ",".join(names) + "\n" + "".join(f"{line}\n" for line in lines)
