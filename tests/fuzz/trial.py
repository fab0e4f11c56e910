"""One trial: a valid file, damage to it, and what must hold of both; smaller where it does not."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from publisher.formats.linkexpress.file_probe import SAMPLE
from tests.fuzz.damage import Parts, damage, damage_bytes, damage_csv, is_csv, parts_of
from tests.fuzz.form import Content, Form, Framing, MadeFile, Read
from tests.fuzz.reading import PromiseError, check_read, count_rejects, same, try_read
from tests.fuzz.rules import compare, expected_content

CUTS = (2, 3, 9)
SHARED = 4
"""Trials that damage the same valid file."""
FEW = 10
"""Untouched records that tell what the file is."""
SLOW = 20.0
"""Seconds of processor time that no small file may take."""


@dataclass(slots=True)
class Tally:
    """The totals of the trials of a form."""

    records: int = 0
    """Read from damaged files."""
    mutations: int = 0
    claimed: int = 0
    """Records that had to say what they said before, and did."""
    files: int = 0
    refused: int = 0
    size: int = 0
    """Bytes of damaged files."""
    seconds: float = 0.0
    """Spent reading them."""
    rejected: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Trial:
    """A damaged file and what it was made of."""

    form: Form
    made: MadeFile
    valid: tuple[list[Content], ...]
    """What each record gave."""
    parts: Parts
    cut: int
    container: tuple[int, ...] = ()
    """Steps of damage to the container."""
    what: tuple[str, ...] = ()
    head: bytes = b""
    """What stands before the first record, damaged or not."""

    def data(self) -> bytes:
        text = self.head + b"".join(part.data for part in self.parts)
        data = self.form.pack(text) if self.form.pack else text
        for step in self.container:
            data = damage_bytes(step, data)
        return data


def case_of(form: Form, seed: str, folder: Path) -> Trial:
    """The case of a seed.  Raises ``PromiseError`` where not even the valid file is read well."""
    run, _, number = seed.rpartition("-")
    base = f"{run}-{int(number) // SHARED}" if number.isdigit() else seed
    file, valid = _make_valid(form, base, folder)
    chance = random.Random(f"{form.name} {seed}")
    parts = parts_of(file.pieces)
    container: tuple[int, ...] = ()
    what: list[str] = []
    head = file.head
    if head and chance.random() < 0.05:
        head = damage_bytes(chance.getrandbits(32), head)
        what.append("head")
    if form.pack and chance.random() < 0.4:
        container = tuple(chance.getrandbits(32) for _ in range(chance.choice((1, 1, 3))))
    else:
        steps = [chance.getrandbits(32) for _ in range(chance.randint(1, 1 + len(parts) // 25))]
        in_place = form.framing in (Framing.STRIDE, Framing.LENGTHS) and chance.random() < 0.75
        what += [damage(step, parts, form, in_place=in_place) for step in steps]
    if is_csv(form) and chance.random() < 0.04:
        head = damage_csv(chance.getrandbits(32), head, parts)
        what.append("whole file")
    return Trial(form, file, valid, parts, chance.choice(CUTS), container, tuple(what), head)


@lru_cache(maxsize=1)
def _make_valid(form: Form, base: str, folder: Path) -> tuple[MadeFile, tuple[list[Content], ...]]:
    """A valid file and what its records give."""
    chance = random.Random(f"{form.name} {base}")
    file = form.make(chance, chance.choice((1, 5, 40, 40, 200, 200)))
    return file, _valid(form, file, folder)


def _valid(form: Form, file: MadeFile, folder: Path) -> tuple[list[Content], ...]:
    text = file.head + b"".join(piece.data for piece in file.pieces)
    path = folder / form.file
    path.write_bytes(form.pack(text) if form.pack else text)
    read = try_read(form, path, 1)
    if isinstance(read, str):
        raise PromiseError(f"a valid file is refused: {read}")
    check_read(read, form)
    if count_rejects(read):
        raise PromiseError(f"records of a valid file are rejected: {count_rejects(read)}")
    return tuple(expected_content(read, file.head, file.pieces, form))


def try_case(case: Trial, folder: Path, tally: Tally | None = None) -> None:
    """Reads the damaged file and holds it to the promises.  Raises ``PromiseError``."""
    data = case.data()
    path = folder / case.form.file
    path.write_bytes(data)
    start, cpu = time.perf_counter(), time.process_time()
    read = try_read(case.form, path, 1)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    if cpu > SLOW:
        raise PromiseError(f"{len(data)} bytes took {cpu:.0f} s")
    claimed = _check_promises(case, read, path)
    if tally is not None:
        _count(tally, case, read, len(data), seconds)
        tally.claimed += claimed


def _check_promises(case: Trial, read: Read | str, path: Path) -> int:
    """Checks all promises; returns the number of claimed records."""
    form, file = case.form, case.made
    other = try_read(form, path, case.cut)
    same(read, other, form)
    if isinstance(read, str) or isinstance(other, str):
        if not _may_be_refused(case):
            raise PromiseError(f"damage to few of its records has the file refused: {read}")
        return 0
    for cut in (read, other):
        check_read(cut, form)
    if case.container or case.head != file.head:
        return 0
    return compare(list(case.valid), read, case.parts, file.head, file.pieces, form)


def _may_be_refused(case: Trial) -> bool:
    """Files of few records, without their head, packed ones, extracts with any damage, and such of records
    of one size whose size or places tell that bytes are gone, or that are not records for the greater part,
    are refused as a whole."""
    if case.container or case.head != case.made.head:
        return True
    if case.form.file.endswith("jsonl") and not (case.parts and case.parts[0].origin is not None):
        return True  # the first lines stand for a head: they say which columns there are
    whole = sum(part.origin is not None for part in case.parts)
    if case.form.format == "linkexpress" and whole < len(case.parts):
        return True
    if whole < FEW or whole < len(case.parts) * 0.8:
        return True
    stride = case.form.stride
    end, damaged, examined = 0, 0, SAMPLE * stride
    for part in case.parts if stride else ():
        start, end = end, end + len(part.data)
        if end % stride:
            return True
        if part.origin is None:
            damaged += max(0, min(end, examined) - start)
    return 2 * damaged > min(end, examined)


def _count(tally: Tally, case: Trial, read: Read | str, size: int, seconds: float) -> None:
    tally.files += 1
    tally.mutations += len(case.what) + len(case.container)
    if isinstance(read, str):
        tally.refused += 1
        return
    tally.size += size
    tally.seconds += seconds
    tally.records += read.framed
    tally.rejected += count_rejects(read)


def fails(case: Trial, folder: Path) -> str | None:
    """Returns the broken promise, or ``None``."""
    try:
        try_case(case, folder)
    except PromiseError as broken:
        return str(broken)
    return None


def smaller(case: Trial, folder: Path, patience: float) -> Trial:
    """Reduces a failure to fewer records: leaves stretches out as long as it fails."""
    ends = time.monotonic() + patience
    size = max(1, len(case.parts) // 2)
    while time.monotonic() < ends:
        at, found = 0, False
        while at < len(case.parts) and time.monotonic() < ends:
            fewer = replace(case, parts=[*case.parts[:at], *case.parts[at + size :]])
            if fewer.parts and fails(fewer, folder):
                case, found = fewer, True
            else:
                at += size
        if size == 1 and not found:
            break
        size = max(1, size // 2)
    return case
