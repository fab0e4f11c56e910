"""Planning as one would do it by hand: the whole log in memory, one rule after the other.

It shares no code with the program but the plain types.  Slow and simple on purpose; the order of steps
and the wording follow the description of the event types, not the program.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.sax.saxutils import escape

from publisher import __version__
from publisher.model.change import Change, Object

Row = Mapping[str, "str | tuple[str, ...] | None"]
"""A row, with all values of each attribute of a child table."""
Current = Mapping[Object, "Row | str | None"]
"""The database: row of an object, ``None`` where there is none, text where it refuses to say."""

ORIGIN = "0000000000000000.1"
"""Identity and epoch of event ids in planned cases."""
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
HEAD = (
    '<nds dtdversion="2.0" ndsversion="8.x"><source>'
    f'<product version="{__version__}">XDS Publisher</product><contact/></source><input>'
)


class Unusable(Exception):  # noqa: N818 -- a reject, not an error
    """A value or name that gives a reject; the reason is its text."""


@dataclass(frozen=True)
class Rules:
    """The settings that a case uses."""

    poll_size: int = 10_000
    poll_slack: int = 100
    batch_size: int = 1
    insert_query_back: Literal["modify", "add"] = "modify"
    event_id: bool = False
    driver_user: str | None = None
    excluded_tables: frozenset[str] = frozenset()
    excluded_columns: frozenset[str] = frozenset()
    now: int | None = None
    first_position: int | None = None
    last_position: int | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    current: Current | None = None
    attributes: frozenset[str] | None = None
    """The attributes of the class; ``None`` if they are the columns whose names have no dot."""
    of_children: frozenset[str] = frozenset()
    """The attributes of child tables."""
    child_after_delete: Literal["ignore", "publish"] = "ignore"
    references: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    """Writes the values of columns that are references."""
    association: Callable[[Object], str] | None = None


@dataclass
class OracleResult:
    """Documents as (position, object, text) in the order of positions; fates of the rest by row."""

    documents: list[tuple[int, Object, str, tuple[int, ...]]] = field(default_factory=list)
    fates: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    """Outcome, reason and the row of the change that did it, -1 for none."""
    deleted: dict[Object, int] = field(default_factory=dict)
    """The last delete of each object that was not inserted again, -1 for none."""


def rank_changes(changes: Iterable[Change], ids: Iterable[int]) -> list[Change]:
    """The changes of a log whose usable record ids of the wanted status are ``ids``, in any order."""
    places = {number: place for place, number in enumerate(sorted(set(ids)), 1)}
    return [change._replace(rank=places[change.position.high]) for change in changes]


def plan(changes: Iterable[Change], rules: Rules, dropped_twins: frozenset[int]) -> OracleResult:
    """``dropped_twins`` are the rows of those among different records of one position that lost:
    which of them is true cannot be known, so the choice is not part of the rules."""
    result = OracleResult()
    remaining = [change for change in changes if not _is_filtered(change, rules, result)]
    for obj in {change.object for change in remaining}:
        mine = sorted(
            (change for change in remaining if change.object == obj), key=lambda c: (c.rank, c.row)
        )
        for poll in _polls(mine, rules):
            distinct = _distinct(poll, dropped_twins, result)
            _plan_poll(obj, _in_range(distinct, rules, result), rules, result)
    result.documents.sort(key=lambda document: document[0])
    return result


def _is_filtered(change: Change, rules: Rules, result: OracleResult) -> bool:
    outcome = None
    if rules.driver_user is not None and change.perpetrator == rules.driver_user:
        outcome = ("ignored", "loopback", -1)
    elif change.object.table in rules.excluded_tables or (
        change.columns and change.columns[0] in rules.excluded_columns
    ):
        outcome = ("ignored", "excluded", -1)
    elif rules.now is not None and change.event_time is not None and change.event_time > rules.now:
        outcome = ("held", "future", -1)
    if outcome:
        result.fates[change.row] = outcome
    return outcome is not None


def _polls(mine: list[Change], rules: Rules) -> list[list[Change]]:
    """Of one object: (block of the poll, changes)."""
    polls: list[tuple[int, list[Change]]] = []
    for change in mine:
        block = (change.rank - 1) // rules.poll_size
        if polls:
            number, poll = polls[-1]
            again = poll[-1].position.high == change.position.high
            near = change.rank - poll[-1].rank <= rules.poll_slack
            room = len({one.position.high for one in poll}) < rules.poll_size
            if again or (room and (near or number == block)):
                poll.append(change)
                continue
        polls.append((block, [change]))
    return [poll for _, poll in polls]


def _distinct(poll: list[Change], dropped: frozenset[int], result: OracleResult) -> list[Change]:
    kept: list[Change] = []
    for change in poll:
        twins = [one for one in poll if one.position == change.position]
        true = next(one for one in twins if one.row not in dropped)
        same = change._replace(row=0) == true._replace(row=0)
        if not same:
            result.fates[change.row] = ("rejected", "double-record", true.row)
        elif change is not true:
            result.fates[change.row] = ("ignored", "duplicate", true.row)
        else:
            kept.append(change)
    return kept


def _in_range(poll: list[Change], rules: Rules, result: OracleResult) -> list[Change]:
    kept: list[Change] = []
    for change in poll:
        early = rules.first_position is not None and change.position.high < rules.first_position
        late = rules.last_position is not None and change.position.high > rules.last_position
        if early or late:
            result.fates[change.row] = ("ignored", "out-of-range", -1)
        else:
            kept.append(change)
    return kept


def _plan_poll(obj: Object, poll: list[Change], rules: Rules, result: OracleResult) -> None:
    usable: list[Change] = []
    for change in poll:
        try:
            _check(change, rules)
        except Unusable as problem:
            result.fates[change.row] = ("rejected", str(problem), -1)
        else:
            usable.append(change)
    usable = _drop_cascades(obj, usable, rules, result)
    kept = [
        change
        for segment, end in _segments(usable)
        for change in _settle(segment, end, rules, result)
    ]
    parts: list[tuple[Change, str, str]] = []
    for change in kept:
        try:
            kind, text = _part(change, rules)
        except Unusable as problem:
            result.fates[change.row] = ("rejected", str(problem), -1)
        except LookupError as gone:
            result.fates[change.row] = ("ignored", str(gone.args[0]), -1)
        else:
            if kind == "modify" and not text:
                result.fates[change.row] = ("ignored", "nothing-to-publish", -1)
            else:
                parts.append((change, kind, text))
    operations = _group(parts)
    for start in range(0, len(operations), rules.batch_size):
        batch = operations[start : start + rules.batch_size]
        rows = tuple(change.row for group in batch for change, _, _ in group)
        body = "".join(_operation(obj, group, rules) for group in batch)
        text = f"{HEAD}{body}</input></nds>"
        result.documents.append((batch[0][0][0].position.high, obj, text, rows))


def _check(change: Change, rules: Rules) -> None:
    """Rejects what cannot be written: names, the key, logged values."""
    for name in (change.object.table, change.object.key, *change.columns):
        if FORBIDDEN.search(name):
            raise Unusable("forbidden-character")
    if change.event_type in (1, 2, 3):
        for image in (change.old, change.new):
            for column, value in zip(change.columns, image or (), strict=False):
                if value is not None:
                    _value(column, value, rules)


def _drop_cascades(
    obj: Object, usable: list[Change], rules: Rules, result: OracleResult
) -> list[Change]:
    """Drops the changes of child tables after a delete, in this poll or before, up to an insert."""
    kept: list[Change] = []
    deleted = result.deleted.get(obj, -1)
    for change in usable:
        if change.event_type in (1, 5, 7):
            deleted = -1
        of_child = bool(change.columns) and change.columns[0] in rules.of_children
        if deleted >= 0 and of_child and rules.child_after_delete == "ignore":
            result.fates[change.row] = ("ignored", "child-after-delete", deleted)
            continue
        if change.event_type == 4:
            deleted = change.row
        kept.append(change)
    result.deleted[obj] = deleted
    return kept


def _segments(usable: list[Change]) -> list[tuple[list[Change], Change | None]]:
    segments: list[tuple[list[Change], Change | None]] = []
    current: list[Change] = []
    for change in usable:
        if change.event_type == 4:
            segments.append((current, change))
            current = []
        else:
            current.append(change)
    return [*segments, (current, None)]


def _settle(
    segment: list[Change], end: Change | None, rules: Rules, result: OracleResult
) -> list[Change]:
    kept = []
    for change in segment:
        better = [other for other in segment if _beats(other, change, segment, rules)]
        if better:
            # of several only one stays, and it is that one which supersedes
            (winner,) = [
                one for one in better if not any(_beats(o, one, segment, rules) for o in better)
            ]
            why = "row-query-back" if winner.event_type in (5, 6) else "field-query-back"
            result.fates[change.row] = ("superseded", why, winner.row)
        elif end is not None and change.event_type >= 5:
            result.fates[change.row] = ("ignored", "ended-by-delete", end.row)
        else:
            kept.append(change)
    return [*kept, *([end] if end else [])]


def _beats(one: Change, other: Change, segment: list[Change], rules: Rules) -> bool:
    """True if ``one`` supersedes ``other`` by the table of rules."""
    if one is other:
        return False
    first = segment.index(one) < segment.index(other)
    match one.event_type, other.event_type:
        case 5, 5:
            return first
        case 5, 6:
            return True
        case 6, 5:
            return False
        case 6, 6:
            return first
        case ((5 | 6), _):
            return _is_published_with_row(other, rules)
        case ((7 | 8), (1 | 2 | 3)):
            return one.columns == other.columns
        case 7, 8:
            return one.columns == other.columns
        case (7, 7) | (8, 8):
            return one.columns == other.columns and first
    return False


def _is_published_with_row(change: Change, rules: Rules) -> bool:
    """A row has neither its key nor, without a class, what child tables hold, whose columns have a dot."""
    if rules.attributes is not None:
        return change.columns[0] in rules.attributes
    keys = {part.split("=")[0] for part in change.object.key.split("+")}
    return change.columns[0] not in keys and "." not in change.columns[0]


def _part(change: Change, rules: Rules) -> tuple[str, str]:
    """Operation and attributes of one change."""
    kind = change.event_type
    if kind == 4:
        return "delete", ""
    if kind >= 5:
        return _current_part(change, rules)
    column, new = change.columns[0], (change.new or (None,))[0]
    added = None if new is None else _value(column, new, rules)
    if kind == 1:
        return "add", _add(column, added)
    if kind == 3:
        return "modify", _replace(column, added)
    old = (change.old or (None,))[0]
    removed = "" if old is None else f"<remove-value>{_value(column, old, rules)}</remove-value>"
    inside = removed + ("" if added is None else f"<add-value>{added}</add-value>")
    return "modify", _modify(column, inside) if inside else ""


def _current_part(change: Change, rules: Rules) -> tuple[str, str]:
    if rules.current is None:
        raise Unusable("no-database")
    row = rules.current[change.object]
    if row is None:
        raise LookupError("row-gone")
    if isinstance(row, str):
        raise Unusable(row)
    if change.event_type in (5, 6):
        columns = [column for column in row if _is_no_key(column, change.object, rules)]
    else:
        columns = list(change.columns)
        if columns[0] not in row:
            raise Unusable("column-name")
    adds = change.event_type in (5, 7) and rules.insert_query_back == "add"
    text = ""
    for column in columns:
        if column not in rules.excluded_columns:
            now = row[column]
            values = () if now is None else now if isinstance(now, tuple) else (now,)
            value = "".join(_value(column, one, rules) for one in values) or None
            text += _add(column, value) if adds else _replace(column, value)
    return ("add" if adds else "modify"), text


def _is_no_key(column: str, obj: Object, rules: Rules) -> bool:
    if rules.attributes is not None:
        return column in rules.attributes
    return column not in {part.split("=")[0] for part in obj.key.split("+")}


def _add(column: str, value: str | None) -> str:
    return (
        ""
        if value is None
        else f'<add-attr attr-name="{attribute_in_xml(column)}">{value}</add-attr>'
    )


def _replace(column: str, value: str | None) -> str:
    added = "" if value is None else f"<add-value>{value}</add-value>"
    return _modify(column, f"<remove-all-values/>{added}")


def _modify(column: str, inside: str) -> str:
    return f'<modify-attr attr-name="{attribute_in_xml(column)}">{inside}</modify-attr>'


def _group(parts: list[tuple[Change, str, str]]) -> list[list[tuple[Change, str, str]]]:
    groups: list[list[tuple[Change, str, str]]] = []
    for part in parts:
        whole_rows = (4, 5, 6)
        if (
            groups
            and groups[-1][-1][1] == part[1]
            and part[0].event_type not in whole_rows
            and groups[-1][-1][0].event_type not in whole_rows
        ):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _operation(obj: Object, group: Sequence[tuple[Change, str, str]], rules: Rules) -> str:
    first, kind, _ = group[0]
    event_id = f' event-id="log@{ORIGIN}:{first.position.high}"' if rules.event_id else ""
    schema = f",schema={obj.schema}" if obj.schema else ""
    name = f"{obj.key},table={obj.table}{schema}"
    if rules.association is not None:
        name = rules.association(obj)
    return (
        f'<{kind} class-name="{attribute_in_xml(obj.table)}"{event_id}>'
        f"<association>{text_in_xml(name)}</association>"
        f"{_together([text for _, _, text in group])}</{kind}>"
    )


def _together(texts: Sequence[str]) -> str:
    """Values of one attribute share its element, which stands where its first value does."""
    if len(texts) == 1:
        return texts[0]
    contents: dict[tuple[str, str], str] = {}
    for text in texts:
        if text:
            found = re.fullmatch('<([a-z-]+) attr-name="([^"]*)">(.*)</[a-z-]+>', text, re.DOTALL)
            assert found is not None
            tag, name, inside = found.groups()
            contents[tag, name] = contents.get((tag, name), "") + inside
    return "".join(
        f'<{tag} attr-name="{name}">{inside}</{tag}>' for (tag, name), inside in contents.items()
    )


def _value(column: str, text: str, rules: Rules) -> str:
    if column in rules.references:
        return rules.references[column](text)
    kind = rules.kinds.get(column, "string")
    if kind == "int":
        if not re.fullmatch(r"[+-]?\d+", text):
            raise Unusable("value")
        text = str(int(text))
    elif kind == "octet":
        try:
            base64.b64decode(text, validate=True)
        except binascii.Error:
            raise Unusable("value") from None
    elif FORBIDDEN.search(text):
        raise Unusable("forbidden-character")
    return f'<value type="{kind}">{text_in_xml(text)}</value>'


def text_in_xml(text: str) -> str:
    return escape(text, {"\n": "&#10;", "\r": "&#13;"})


def attribute_in_xml(text: str) -> str:
    return escape(text, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;", '"': "&quot;"})
