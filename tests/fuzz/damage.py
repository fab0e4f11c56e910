"""Damage to the records of a file: what disks, transfers, editors and wrong programs do to bytes."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.fuzz.form import Form, Framing, Piece

_NUMBERS = re.compile(rb"[0-9]+")
_CONTENT = re.compile(rb'[^",\r\n]+')
_FRONT = 300
_HUGE = 1 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the damaged file."""

    data: bytes
    origin: int | None
    """The record that it still is, untouched; ``None`` of damage."""
    same_size: bool = True
    """Of damage: whether it has as many bytes as the record had in its place."""
    kept: bool = True
    """Whether the quotes, delimiters and line ends stand as they stood."""
    words: tuple[tuple[int, int], ...] = ()


Parts = list[Part]


def parts_of(pieces: Sequence[Piece]) -> Parts:
    """The file as it was."""
    return [Part(piece.data, number, words=piece.words) for number, piece in enumerate(pieces)]


def damage(step: int, parts: Parts, form: Form, *, in_place: bool = False) -> str:
    """Does some damage, always the same for the same step and parts; says what.

    ``in_place``: records keep their sizes; in a file of records of one size, all behind lost or added
    bytes mean nothing."""
    chance = random.Random(step)
    kinds = _OF_CSV if is_csv(form) else _OF_BYTES
    if form.framing is Framing.ROWS or in_place:
        kinds = _IN_PLACE if in_place else _OF_ROWS
    kind = chance.choice(kinds)
    if parts:
        kind(chance, parts)
    return kind.__name__.removeprefix("_")


def damage_bytes(step: int, data: bytes) -> bytes:
    """Damage to a container."""
    parts = [Part(data, 0)]
    chance = random.Random(step)
    chance.choice((_flip, _insert, _delete, _cut, _double, _swap, _block))(chance, parts)
    return b"".join(part.data for part in parts)


def is_csv(form: Form) -> bool:
    """Tells whether delimiters and quotes lead the reader."""
    return ".csv" in form.file


def damage_csv(step: int, head: bytes, parts: Parts) -> bytes:
    """Writes a whole file with other delimiters or quotes; returns its head."""
    chance = random.Random(step)
    whole = [Part(head, None), *parts]
    rewrite = _other_delimiter(chance) if chance.random() < 0.5 else _other_quotes(chance)
    for at, part in enumerate(whole):
        _put(whole, at, rewrite(part.data))
    parts[:] = whole[1:]
    return whole[0].data


def _at(chance: random.Random, parts: Parts) -> int:
    """Ends are hit more often than their share."""
    if chance.random() < 0.05:
        return chance.choice((0, len(parts) - 1))
    return chance.randrange(len(parts))


def _put(parts: Parts, at: int, data: bytes) -> None:
    old = parts[at]
    same = old.same_size and len(data) == len(old.data)
    if data != old.data:
        kept = old.kept and _skeleton(data) == _skeleton(old.data)
        parts[at] = Part(data, None, same, kept, old.words if same else ())


def _skeleton(data: bytes) -> bytes:
    """The characters of a text that guide its reader."""
    return _CONTENT.sub(b"x", data)


def _flip(chance: random.Random, parts: Parts) -> None:
    at = _at(chance, parts)
    data = bytearray(parts[at].data)
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        if data:
            # heads and first values: what stands behind them may mean nothing
            end = len(data) if chance.random() < 0.5 else min(len(data), _FRONT)
            data[chance.randrange(end)] ^= 1 << chance.randrange(8)
    _put(parts, at, bytes(data))


def _insert(chance: random.Random, parts: Parts) -> None:
    at = _at(chance, parts)
    data = parts[at].data
    place = chance.randint(0, len(data))
    new = chance.choice(
        (
            lambda: chance.randbytes(chance.randint(1, 9)),
            lambda: bytes([chance.choice(b'\0\xff"\n\r,{}\\')]) * chance.choice((1, 1, 2, 7)),
            lambda: b"x" * chance.choice((10, 1000, _HUGE)),
        )
    )()
    _put(parts, at, data[:place] + new + data[place:])


def _delete(chance: random.Random, parts: Parts) -> None:
    at = _at(chance, parts)
    data = parts[at].data
    place = chance.randint(0, len(data))
    _put(parts, at, data[:place] + data[place + chance.choice((1, 1, 2, 4, 30)) :])


def _block(chance: random.Random, parts: Parts) -> None:
    """Zeros or noise as a bad sector leaves them, over one record or over the border of two."""
    at = _at(chance, parts)
    data = parts[at].data
    start = chance.randint(0, len(data))
    size = chance.choice((4, 16, 64))
    new = bytes(size) if chance.random() < 0.5 else chance.randbytes(size)
    stop = min(len(data), start + size)
    _put(parts, at, data[:start] + new[: stop - start] + data[stop:])
    left = size - (stop - start)
    if left and at + 1 < len(parts):
        after = parts[at + 1].data
        _put(parts, at + 1, new[-left:][: len(after)] + after[left:])


def _cut(chance: random.Random, parts: Parts) -> None:
    """The end of the file is gone; seldom, as it leaves little to look at."""
    if chance.random() < 0.7:
        _drop(chance, parts)
        return
    at = chance.randrange(len(parts) // 2, len(parts))
    data = parts[at].data
    del parts[at + 1 :]
    _put(parts, at, data[: chance.randint(0, len(data))])


def _drop(chance: random.Random, parts: Parts) -> None:
    """Whole records are gone."""
    at = _at(chance, parts)
    if len(parts) > 4:
        del parts[at : at + chance.choice((1, 1, 2, 5))]


def _take_block(chance: random.Random, parts: Parts) -> Part:
    """A block of the file that begins and ends anywhere, or with records."""
    at = _at(chance, parts)
    block = parts[at : at + chance.choice((1, 1, 2, 4))]
    data = b"".join(part.data for part in block)
    if chance.random() < 0.5:
        return Part(data, None, same_size=False)
    start = chance.randint(0, len(data))
    return Part(data[start : chance.randint(start, len(data))], None, same_size=False, kept=False)


def _double(chance: random.Random, parts: Parts) -> None:
    block = _take_block(chance, parts)
    at = _at(chance, parts)
    if chance.random() < 0.7:
        parts.insert(at, block)
        return
    data = parts[at].data
    place = chance.randint(0, len(data))
    _put(parts, at, data[:place] + block.data + data[place:])


def _swap(chance: random.Random, parts: Parts) -> None:
    one, other = sorted((_at(chance, parts), _at(chance, parts)))
    if one == other:
        return
    a, b = parts[one].data, parts[other].data
    if chance.random() < 0.5:
        parts[one], parts[other] = (
            _move(parts[other], parts[one]),
            _move(parts[one], parts[other]),
        )
        return
    i, j = chance.randint(0, len(a)), chance.randint(0, len(b))
    _put(parts, one, a[:i] + b[j:])
    _put(parts, other, b[:j] + a[i:])


def _double_rows(chance: random.Random, parts: Parts) -> None:
    at = _at(chance, parts)
    block = [Part(part.data, None) for part in parts[at : at + chance.choice((1, 1, 4))]]
    parts[at:at] = block


def _swap_rows(chance: random.Random, parts: Parts) -> None:
    one, other = _at(chance, parts), _at(chance, parts)
    if one != other:
        parts[one], parts[other] = (
            _move(parts[other], parts[one]),
            _move(parts[one], parts[other]),
        )


def _move(part: Part, replaced: Part) -> Part:
    same = part.same_size and len(part.data) == len(replaced.data)
    return Part(part.data, None, same, part.kept, part.words)


def _word(chance: random.Random, parts: Parts) -> None:
    """A number that leads the reader, or any number of a text."""
    at = _at(chance, parts)
    part = parts[at]
    if not part.words:
        _digits(chance, parts, at)
        return
    place, size = chance.choice(part.words)
    order: Literal["little", "big"] = "little" if chance.random() < 0.5 else "big"
    old = int.from_bytes(part.data[place : place + size], order)
    new = chance.choice((old + 1, old - 1, 0, -1, old << 8, 1 << (8 * size - 1), old * 2, old ^ 3))
    word = (new % (1 << (8 * size))).to_bytes(size, order)
    _put(parts, at, part.data[:place] + word + part.data[place + size :])


def _digits(chance: random.Random, parts: Parts, at: int) -> None:
    data = parts[at].data
    found = list(_NUMBERS.finditer(data))
    if not found:
        return
    match = chance.choice(found)
    old = match.group()
    new = chance.choice(
        (
            lambda: b"%d" % (int(old[:300]) + 1),
            lambda: b"-" + old,
            lambda: old + b"0",
            lambda: old[1:],
            lambda: b"9" * 400,
            lambda: old + b".5",
            lambda: b"1e9999",
            "٣".encode,
        )
    )()
    _put(parts, at, data[: match.start()] + new + data[match.end() :])


def _encode(chance: random.Random, parts: Parts) -> None:
    """A record in another character code."""
    at = _at(chance, parts)
    text = parts[at].data.decode("utf-8", "replace")
    name = chance.choice(
        ("utf-16", "utf-16-be", "utf-32", "utf-8-sig", "cp037", "utf-7", "latin-1")
    )
    data = text.encode(name, "replace")
    if chance.random() < 0.3:
        data = data.replace(
            b"a", chance.choice((b"\xed\xa0\x80", b"\xc0\x80", b"\xf5", b"\\ud800"))
        )
    _put(parts, at, data)


def _other_delimiter(chance: random.Random) -> Callable[[bytes], bytes]:
    new = chance.choice((b";", b"\t", b"|", b",,", b", ", b"\x1f"))
    return lambda data: data.replace(b",", new)


def _other_quotes(chance: random.Random) -> Callable[[bytes], bytes]:
    old, new = chance.choice(
        (
            *((b'"', b"'"), (b'"', "”".encode()), (b'"', b""), (b'"', b'""')),
            *((b'""', b'"'), (b'""', b'\\"')),
        )
    )
    return lambda data: data.replace(old, new)


def _delimit(chance: random.Random, parts: Parts) -> None:
    """A record with another delimiter."""
    at = _at(chance, parts)
    _put(parts, at, _other_delimiter(chance)(parts[at].data))


def _quote(chance: random.Random, parts: Parts) -> None:
    """A record with other quotes, or without."""
    at = _at(chance, parts)
    _put(parts, at, _other_quotes(chance)(parts[at].data))


def _cell(chance: random.Random, parts: Parts) -> None:
    """One value of a row."""
    at = _at(chance, parts)
    row = json.loads(parts[at].data)
    name = chance.choice(list(row))
    old = row[name] or ""
    row[name] = chance.choice(
        (
            lambda: None,
            lambda: "",
            lambda: old[: len(old) // 2],
            lambda: old + "\0\x01",
            lambda: old * 2_000,
            lambda: " " + old,
            lambda: old.translate({ord("1"): "2", ord("0"): "O", ord("="): "+"}),
            lambda: "9" * 400,
            lambda: "\ufeff\u202e𝔘",
            lambda: row[chance.choice(list(row))],
        )
    )()
    _put(parts, at, json.dumps(row).encode() + b"\n")


_OF_BYTES: tuple[Callable[[random.Random, Parts], None], ...] = (
    *(_flip, _flip, _flip, _insert, _delete, _block, _cut, _drop),
    *(_double, _swap, _word, _word, _word, _encode),
)
_OF_CSV = (*_OF_BYTES, _delimit, _quote)
_OF_ROWS: tuple[Callable[[random.Random, Parts], None], ...] = (
    *(_cell, _cell, _cell, _cell, _drop, _double_rows, _swap_rows),
)
_IN_PLACE: tuple[Callable[[random.Random, Parts], None], ...] = (
    *(_flip, _flip, _flip, _word, _word, _word, _block, _drop, _double_rows, _swap_rows),
)
