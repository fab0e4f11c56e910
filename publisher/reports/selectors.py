"""Selectors of objects and records: keys, associations and positions as people write them."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any, NoReturn

import pyarrow.compute as pc

from publisher.errors import UsageError
from publisher.formats.contract import Source
from publisher.formats.positions import parse_position
from publisher.formats.registry import FORMATS
from publisher.ledger.manifest import SourceEntry, SourceReading
from publisher.ledger.read import Wanted
from publisher.ledger.runs import StoredRun
from publisher.model.change import Object, Position
from publisher.model.event_ids import split_event_id
from publisher.model.keys import KeyProblem, canonical, format_key, integer_text, parse
from publisher.xds.association import association


def is_of_table(obj: Object | None, name: str) -> bool:
    """Returns whether the object's association ends with this table, and its schema if it has one."""
    return obj is not None and association(obj).endswith(f",table={name}")


def split_association(what: str) -> tuple[str, str]:
    """The key of an association and its table; the table of a key is empty."""
    at = what.find(",table=")
    while at >= 0:  # inside the quotes of a value it separates nothing
        with suppress(KeyProblem):
            parse(what[:at])
            return what[:at], what[at + len(",table=") :]
        at = what.find(",table=", at + 1)
    return what, ""


def key_texts(key: str) -> frozenset[str]:
    """Returns the key as written, and its canonical forms with values as text and as numbers.

    Raises:
        UsageError: The text is not a key.
    """
    try:
        parts = parse(key)
        numbers = format_key(
            sorted((part.column, integer_text(part.value) or part.value) for part in parts)
        )
        return frozenset({key, canonical(parts), numbers})
    except KeyProblem as problem:
        raise UsageError(str(problem)) from problem


def wanted_for(sources: Sequence[SourceReading], selector: str) -> Wanted | None:
    """The runs that may have the records of a selector; ``None`` if there can be none."""
    if "=" in selector:
        keys = key_texts(split_association(selector)[0])
        return Wanted(pc.field("key").isin(sorted(keys)), keys=keys)
    conditions, numbers = [], list[int]()
    for entry in sources:
        source = FORMATS[entry.format].restore(entry.options, entry.reading)
        _, text = split_event_id(selector, entry.name)
        position = position_in(source, text)
        if position is None:
            continue
        is_short = source.is_short(text)
        conditions.append(at_position(position, is_short=is_short))
        numbers += [-(1 << 63), (1 << 63) - 1] if is_short else [position.high]
    if not conditions:
        return None
    return Wanted(reduce(operator.or_, conditions), between=(min(numbers), max(numbers)))


def at_position(
    position: Position, source: int | None = None, *, is_short: bool = False
) -> pc.Expression:
    """A condition on records at a position, of one source in a run; a short position omits ``high``."""
    condition = pc.field("low") == position.low
    if not is_short:
        condition = (pc.field("high") == position.high) & condition
    if source is not None:
        part = pc.field("part") == position.part
        part = part if position.part else part | pc.field("part").is_null()
        condition = condition & part & (pc.field("source") == source)
    return condition


def refuse_unknown_selector(
    where: str, selector: str, sources: Sequence[SourceEntry | SourceReading]
) -> NoReturn:
    """Raises ``UsageError`` for a selector that selects no record."""
    if not sources:
        raise UsageError(f"{where} has no run: publish first, or name another ledger")
    raise UsageError(
        f"{where} has no record {selector!r}: give a position as {_forms_of(sources)}, an event id as "
        "SOURCE:POSITION, a key as idu=1, or an association as idu=1,table=usr"
    )


def _forms_of(sources: Sequence[SourceEntry | SourceReading]) -> str:
    """Describes how positions are written in these sources."""
    forms: dict[str, list[str]] = {}
    for entry in sources:
        forms.setdefault(FORMATS[entry.format].position_text, []).append(entry.name)
    return ", ".join(f"{form} ({' and '.join(names)})" for form, names in forms.items())


def position_in(source: Source, text: str) -> Position | None:
    """Parses a position of a source; ``None`` if the text is none."""
    try:
        return parse_position(text, source.parse_position)
    except UsageError:
        return None


class PositionTexts:
    """Formats the positions of records as the users of their sources write them."""

    def __init__(self, runs: Sequence[StoredRun]) -> None:
        """``runs`` are the runs of the part that has the records."""
        self._runs = runs
        self._sources: dict[tuple[int, int], Source] = {}

    def of(self, decision: Mapping[str, Any]) -> str:
        """Formats the position of a decision, given as a row of a part."""
        position = Position(*(decision[name] for name in Position._fields))
        place = decision["run"], decision["source"]
        if place not in self._sources:
            entry = self._runs[place[0]].manifest.sources[place[1]]
            self._sources[place] = FORMATS[entry.format].restore(entry.options, entry.reading)
        return _text(self._sources[place], position)


def position_text(source: SourceEntry, position: Position) -> str:
    """Formats a position of a source as its users write it."""
    return _text(FORMATS[source.format].restore(source.options, source.reading), position)


def _text(source: Source, position: Position) -> str:
    return source.position_text(position._replace(part=position.part or ""))
