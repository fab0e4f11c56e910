"""Reading a file through its real source, split by split, and what must hold whatever is in it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from publisher.errors import PublisherError
from publisher.formats.contract import Context, Source
from publisher.model.catalogue import Catalogue, JobCatalogue
from publisher.model.change import TALLY, Outcome, Reason
from publisher.model.record_schema import RECORD_SCHEMA
from tests.fuzz.form import Content, Form, Read, Reader
from tests.support.prepare import prepare_here, read_prepared

LANES = 7
_COLUMNS = tuple(RECORD_SCHEMA.names)
_NOT_COMPARED = frozenset({"source", "split", "rank"})
"""What follows from how the input was cut, and from records before."""
ADVICE = re.compile(
    r"\b(add|ask|check|choose|compare|copy|cut|delete|describe|double|drop|exclude|export|extract|filter|"
    r"fits|fix|give|keep|leave|log|look|lower|make|map|name|need|needs|number|order|publish|put|raise|read|"
    r"record|remove|rename|report|restore|send|set|sort|split|start|swap|take|turn|try|use|wait|write)\b",
    re.IGNORECASE,
)
"""Words that say what to do."""


class PromiseError(AssertionError):
    """A promise that does not hold; the message says which."""


_PROCESS = Path("/proc/self")
peaks: list[int] = []
"""Bytes that each reading needed beside what the process held before; what is made of the records
afterwards, to compare them, is not the reader's."""


@contextmanager
def measure_peak() -> Iterator[None]:
    """Adds the peak of what is done inside to ``peaks``."""
    (_PROCESS / "clear_refs").write_text("5")  # resets the peak
    before = _memory("VmRSS")
    try:
        yield
    finally:
        peaks.append(max(0, _memory("VmHWM") - before))


def _memory(what: str) -> int:
    """Bytes, by the kernel."""
    (found,) = re.findall(rf"{what}:\s+(\d+) kB", (_PROCESS / "status").read_text())
    return int(found) * 1024


def reader_of(source: Source, catalogue: Catalogue | None = None) -> Reader:
    """Reads as tasks do, one split after the other."""

    def read(path: Path, wanted: int) -> Read:
        context = Context(0, LANES, catalogue or JobCatalogue(()))
        with measure_peak(), prepare_here(source, [path], wanted, context.catalogue) as prepared:
            batches = read_prepared(prepared, context)
        rows: list[Content] = []
        framed = 0
        for number, of_split in enumerate(batches):
            found = [row for batch in of_split for row in _rows(batch)]
            tallies = [row for row in found if row["outcome"] == TALLY]
            _must(len(tallies) == 1, f"split {number} has {len(tallies)} tallies")
            framed += tallies[0]["row"]
            rows += [row for row in found if row["outcome"] != TALLY]
        return Read(rows, framed)

    return read


def _rows(batch: pa.RecordBatch) -> Iterable[Content]:
    _must(batch.schema.equals(RECORD_SCHEMA), "a batch has another schema")
    batch.validate(full=True)
    columns = [batch.column(name).to_pylist() for name in _COLUMNS]
    return (dict(zip(_COLUMNS, values, strict=True)) for values in zip(*columns, strict=True))


def try_read(form: Form, path: Path, wanted: int) -> Read | str:
    """Reads a file; returns its records, or the refusal that names it and says what to do.

    Raises ``PromiseError`` for any other error."""
    try:
        return form.read(path, wanted)
    except PublisherError as error:
        message = error.message
        _must(str(path) in message, f"a refusal does not say where: {message}")
        _must(bool(ADVICE.search(message)), f"a refusal does not say what to do: {message}")
        _must(type(error).__name__ != "InternalError", f"broke its own promise: {message}")
        return message
    except PromiseError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise PromiseError(f"{type(error).__name__}: {error}") from error


def check_read(read: Read, form: Form) -> None:
    """Raises ``PromiseError`` where something that was read cannot be."""
    (form.check or check_counts)(read)


def check_counts(read: Read) -> None:
    """Every record has one outcome or change; rejects say why.  Raises ``PromiseError``."""
    counted = sum(row["records"] for row in read.rows)
    _must(counted == read.framed, f"{read.framed} records were framed, {counted} have an outcome")
    for row in read.rows:
        outcome = row["outcome"]
        if outcome is None:
            _must(row["table"] is not None and row["key"] is not None, f"no object: {row}")
            _must(row["event_type"] in range(1, 9), f"no event type: {row}")
        _must(0 <= row["lane"] < LANES, f"lane {row['lane']}")
        if outcome is not None:
            Outcome(outcome)
            Reason(row["reason"])
        if outcome == Outcome.REJECTED:
            _must(bool(row["detail"]), f"a reject says nothing: {row}")
            _must(bool(ADVICE.search(row["detail"])), f"a reject gives no advice: {row['detail']}")
            json.loads(row["raw"])


def count_rejects(read: Read) -> Counter[str]:
    """Records rejected, by reason."""
    found: Counter[str] = Counter()
    for row in read.rows:
        if row["outcome"] == Outcome.REJECTED:
            found[row["reason"]] += row["records"]
    return found


def same(one: Read | str, other: Read | str, form: Form) -> None:
    """The number of splits changes nothing.  Raises ``PromiseError``."""
    if isinstance(one, str) or isinstance(other, str):
        _must(
            isinstance(one, str) == isinstance(other, str),
            f"refused in one cut only: {one if isinstance(one, str) else other}",
        )
        return
    left, right = (Counter(content(row, form) for row in read.rows) for read in (one, other))
    if left != right:
        lost, new = list((left - right).items())[:2], list((right - left).items())[:2]
        raise PromiseError(f"another cut gives something else: {lost} becomes {new}")


def content(row: Content, form: Form) -> tuple[Any, ...]:
    """The content of a record."""
    hidden = _NOT_COMPARED | form.unseen
    if row["key"] is None:
        hidden |= {"lane"}
    return tuple(_hashable(value) for name, value in row.items() if name not in hidden)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _must(condition: bool, otherwise: str) -> None:
    if not condition:
        raise PromiseError(otherwise)
