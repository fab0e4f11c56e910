"""The records that damage to others must leave as they were: see ``form``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.fuzz.damage import Part
from tests.fuzz.form import Claim, Content, Form, Framing, Piece, Read
from tests.fuzz.reading import PromiseError, content

_LF = b"\n"


def places(head: bytes, datas: Sequence[bytes], form: Form) -> list[int]:
    """``row`` of each record: line, number or offset."""
    found, at, line = [], len(head), 1 + head.count(_LF)
    for number, data in enumerate(datas):
        match form.address:
            case "line":
                found.append(line)
            case "number" if form.stride:
                found.append((at - len(head)) // form.stride + 1)
            case "number":
                found.append(number + 1)
            case _:
                found.append(at)
        at += len(data)
        line += data.count(_LF)
    return found


def expected_content(
    valid: Read, head: bytes, pieces: Sequence[Piece], form: Form
) -> list[list[Content]]:
    """Returns the content of each record of the valid file."""
    found: list[list[Content]] = [[] for _ in pieces]
    numbers: dict[object, int] = {
        row: n for n, row in enumerate(places(head, [p.data for p in pieces], form))
    }
    by_key = form.address == "key"
    if by_key:
        numbers = {claim: n for n, piece in enumerate(pieces) for claim in piece.claims}
    for row in valid.rows:
        place = ("key", row["key"]) if by_key else row["row"]
        if place not in numbers:
            raise PromiseError(f"the valid file gives a record of no place: {row}")
        found[numbers[place]].append(row)
    return found


def unhurt(parts: Sequence[Part], head: bytes, pieces: Sequence[Piece], form: Form) -> set[int]:
    """The records that are claimed, by their number in the valid file."""
    framed = set(_intact_records(parts, head, pieces, form))
    hurt: set[Claim] = set()
    for number, piece in enumerate(pieces):
        if number not in framed:
            hurt |= piece.claims
    for run in _runs(parts):
        hurt |= set(form.claimed(run))
    return {number for number in framed if not pieces[number].claims & hurt}


def _runs(parts: Sequence[Part]) -> Iterator[bytes]:
    """Stretches of damage."""
    run: list[bytes] = []
    for part in parts:
        if part.origin is None:
            run.append(part.data)
        elif run:
            yield b"".join(run)
            run = []
    if run:
        yield b"".join(run)


def _intact_records(
    parts: Sequence[Part], head: bytes, pieces: Sequence[Piece], form: Form
) -> Iterator[int]:
    """Untouched records that the reader must find."""
    at, before, quoted = len(head), _LF, False
    for part in parts:
        if part.origin is None:
            quoted = quoted or not part.kept
        elif _begins_record(form, at - len(head), before, quoted):
            yield part.origin
        if part.data:
            before = part.data[-1:]
        at += len(part.data)


def _begins_record(form: Form, at: int, before: bytes, quoted: bool) -> bool:
    match form.framing:
        case Framing.LINES:
            return before == _LF
        case Framing.QUOTED:
            return not quoted
        case Framing.STRIDE:
            return at % form.stride == 0
        case Framing.LENGTHS | Framing.ROWS:
            return True


def compare(
    valid: list[list[Content]],
    damaged: Read,
    parts: Sequence[Part],
    head: bytes,
    pieces: Sequence[Piece],
    form: Form,
) -> int:
    """Counts the claimed records.  Raises ``PromiseError`` if one has changed."""
    claimed = unhurt(parts, head, pieces, form)
    now = places(head, [part.data for part in parts], form)
    whole = _whole_transactions(parts, claimed, pieces)
    loose = form.loose or (lambda row: row)
    strictly = Counter(content(row, form) for row in damaged.rows)
    loosely = Counter(content(loose(row), form) for row in damaged.rows) if form.loose else strictly
    begins: dict[int, int] = {}
    for part, place in zip(parts, now, strict=True):
        if part.origin is None or part.origin not in claimed:
            continue
        number = pieces[part.origin].transaction
        begin = begins.setdefault(number, place)
        for before in valid[part.origin]:
            row = before if form.address == "key" else before | {"row": place}
            is_whole = number in whole
            if is_whole:
                row = row | {"transaction": row["transaction"] and f"{form.file}:{begin}"}
            wanted = content(row if is_whole or form.loose is None else loose(row), form)
            if not (strictly if is_whole else loosely)[wanted]:
                near = [r for r in damaged.rows if r["row"] == place or r["key"] == row["key"]][:3]
                raise PromiseError(f"record {part.origin}, now at {place}, said {row}, now {near}")
    return len(claimed)


def _whole_transactions(
    parts: Sequence[Part], claimed: set[int], pieces: Sequence[Piece]
) -> set[int]:
    """Transactions all of whose records are there, one behind the other, with the mark before them."""
    sizes = Counter(piece.transaction for piece in pieces)
    found: set[int] = set()
    run, last = 0, -1
    for place, part in enumerate(parts):
        origin = part.origin
        if origin is None or origin not in claimed:
            run, last = 0, -1
            continue
        number = pieces[origin].transaction
        follows = last == origin - 1 if origin else place == 0
        begins = not origin or pieces[origin - 1].transaction != number
        run = (1 if begins else run + (run > 0)) if follows else 0
        last = origin
        if number >= 0 and run == sizes[number]:
            found.add(number)
    return found
