"""Masks of change tables as tests write them."""

from __future__ import annotations

from publisher.formats.change_table.masks import Order


def mask_of(bits: int, order: Order, width: int = 0) -> str:
    """Formats bits as a mask in hex, without bytes of zeros beyond ``width`` bytes."""
    size = max(width, (bits.bit_length() + 7) // 8)
    return bits.to_bytes(size, "big" if order == "msb" else "little").hex().upper()
