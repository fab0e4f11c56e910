"""The rules of planning: each gives a reason to some fields that have none; those without one are published.

They follow each other in ``ChunkPlan.decide``.  Changes of one object in one window are planned together; a
change whose fields all have a reason is not published, and no change is ever dropped.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.arrays import (
    BoolArray,
    Int64Array,
    begins_island,
    booleans,
    island_bounds,
    last_mark,
    order_by,
    smallest_of_group,
)
from publisher.model.change import INSERTS, Change, Object, Outcome, Reason, raw_record
from publisher.model.key_changes import KeyHistory, object_after
from publisher.model.outcomes import NUMBERS, REASONS, Outcomes
from publisher.planning.fields import Fields, flag_types
from publisher.planning.filters import Filter, PositionRange
from publisher.planning.joined_keys import join_key_changes
from publisher.planning.names import SourceNames, SourceNaming, key_forms
from publisher.planning.polls import PollOptions
from publisher.planning.torn_transactions import RejectedTransactions
from publisher.planning.values import Contents, convert_fields
from publisher.xds.association import association
from publisher.xds.escape import ValueProblem

_UPDATE_FIELD, DELETE, KEY_CHANGE = 2, 4, 9
_UPDATES, BARRIERS = flag_types(2, 3), flag_types(DELETE, KEY_CHANGE)
ROW_READS, FIELD_READS, READS = flag_types(5, 6), flag_types(7, 8), flag_types(5, 6, 7, 8)
_CARRIED = len(REASONS) + 1
"""The number of fields that the next chunk plans."""
_REMEMBERED = 100_000
"""Maximum number of deleted objects that a lane remembers; changes of their children follow soon."""


@dataclass(frozen=True, slots=True)
class PlanRules:
    """What the rules of one source depend on."""

    names: SourceNames
    naming: SourceNaming
    filter: Filter
    windows: PollOptions | None
    """``None``: each change is planned by itself, as in formats whose records hold whole rows."""
    published_range: PositionRange | None
    rejected: RejectedTransactions | None
    history: KeyHistory
    """The changes of keys that a survey of the input has found."""
    keeps_order: bool
    """True if changes of an object depend on those of others before them."""


@dataclass(slots=True)
class Memory:
    """What the rules remember of the chunks before."""

    deleted: dict[Object, Change] = field(default_factory=dict)
    """The last deletes, and changes of keys, after which no object has the old key."""
    key_changes: dict[Object, list[Change]] = field(default_factory=dict)
    """See ``JoinedChanges.last``; for compound keys only."""


class ChunkPlan:
    """The plan of one chunk."""

    def __init__(self, fields: Fields, rules: PlanRules, memory: Memory, *, is_last: bool) -> None:
        """``is_last``: no change follows in the lane, so that no window stays open."""
        self.fields = fields
        self.rules = rules
        self._memory = memory
        self._is_last = is_last
        count = len(fields)
        self.reason = np.zeros(count, np.int64)
        self.cause = np.full(count, -1)
        """The row of the change that superseded a field."""
        self.window = np.zeros(count, np.int64)
        """Number of the window, unique in the chunk."""
        self.window_number = np.zeros(count, np.int64)
        """The block of events in which the window begins."""
        self.part = np.zeros(count, np.int64)
        """Changes of its key divide the changes of an object into parts."""
        self.key_changes: dict[int, Change] = {}
        """Changes of keys by row; those of compound keys are joined."""
        self.new_associations: dict[int, str] = {}
        self.first_rows: dict[int, int] = {}
        """The row of the first record of its change for each record of a joined change of the key."""
        self._details: dict[int, str] = {}
        self._order = order_by(fields.object)
        self.old: Contents = convert_fields(fields.old, fields.column, rules.names)
        self.new: Contents = convert_fields(fields.new, fields.column, rules.names)

    def decide(self) -> None:
        """Applies the rules that need no current rows."""
        self._filter()
        self._cut_windows()
        self._drop_repeats()
        self._drop_out_of_range()
        self._join_key_changes()
        self._reject_problems()
        self._reject_torn()
        self._drop_changes_after_delete()
        self._drop_excluded_columns()
        self._apply_precedence()
        self._divide_at_key_changes()

    def live(self) -> Int64Array:
        """The fields without a reason, sorted by object."""
        if not self.reason.any():
            return self._order
        live: Int64Array = self._order[self.reason[self._order] == 0]
        return live

    def drop(self, fields: Int64Array, reason: Reason, causes: Int64Array | None = None) -> None:
        """Gives a reason, and the rows of the causes, to those of some fields that have none."""
        is_free = self.reason[fields] == 0
        self.reason[fields[is_free]] = NUMBERS[reason]
        if causes is not None:
            self.cause[fields[is_free]] = causes[is_free]

    def drop_changes(self, causes: dict[int, int], reason: Reason) -> None:
        """Gives a reason to all fields of changes, which are given with the rows of their causes."""
        rows = np.array(sorted(causes), np.int64)
        number, places = self.fields.of_rows(rows)
        self.drop(
            places, reason, np.array([causes[row] for row in rows.tolist()], np.int64)[number]
        )

    def reject(self, problems: dict[int, tuple[Reason, str]]) -> None:
        """Rejects changes by row, with the reason and what is wrong."""
        _, places = self.fields.of_rows(np.array(sorted(problems), np.int64))
        for place in places[self.reason[places] == 0].tolist():
            row = int(self.fields.row[place])
            self.reason[place] = NUMBERS[problems[row][0]]
            self._details[row] = problems[row][1]

    def _filter(self) -> None:
        """A filtered change supersedes nothing and is no barrier: it is as if it were not there."""
        fields, filter_, names = self.fields, self.rules.filter, self.rules.names
        if filter_.loopback_user is not None:
            user = fields.flags(pc.equal(fields.batch["perpetrator"], filter_.loopback_user))
            self.drop(np.flatnonzero(user), Reason.LOOPBACK)
        is_published = np.array([table.is_published for table in names.tables], np.bool_)
        excluded = ~is_published[fields.objects.table[fields.object]]
        has_column = fields.column >= 0
        of_published = names.column_flags(lambda column: column.is_published)[fields.column]
        published_columns = np.bincount(fields.change, of_published, fields.batch.num_rows)
        excluded |= has_column & (published_columns[fields.change] == 0)
        self.drop(np.flatnonzero(excluded), Reason.EXCLUDED)
        if filter_.held_after is not None:
            late = fields.flags(pc.greater(fields.batch["event_time"], filter_.held_after))
            self.drop(np.flatnonzero(late), Reason.FUTURE)

    def _cut_windows(self) -> None:
        """Changes of an object that are near each other are in the window of the block in which they begin.

        Windows that changes of the next chunk may continue are left to that chunk."""
        live, windows = self.live(), self.rules.windows
        obj, rank = self.fields.object[live], self.fields.rank[live]
        position = self.fields.position[live]
        if windows is None:
            begins = begins_island(obj, position)
            number = rank
            is_open = position == self.fields.position[-1:]
        else:
            number = (rank - 1) // windows.poll_size
            begins = _begin_windows(obj, rank, position, windows)
            last = island_bounds(begins_island(obj))[1:] - 1
            end = self.fields.rank[-1]
            stays = end - rank[last] <= windows.poll_slack
            stays |= number[last_mark(begins)[last]] >= (end - 1) // windows.poll_size
            is_open = np.isin(np.cumsum(begins), np.cumsum(begins)[last[stays]])
        self.window[live] = np.cumsum(begins)
        self.window_number[live] = number[last_mark(begins)]
        if not self._is_last:
            self._carry(live[is_open])

    def _carry(self, fields: Int64Array) -> None:
        if self.rules.keeps_order and len(fields):
            self.reason[self.fields.row >= self._first_carried(fields)] = _CARRIED
        self.reason[fields] = _CARRIED

    def _first_carried(self, fields: Int64Array) -> int:
        """The row from which all changes are carried: no window has changes before and after it."""
        live = self.live()
        row, window = self.fields.row[live], self.window[live]
        bounds = island_bounds(begins_island(window))
        firsts, lasts = row[bounds[:-1]], row[bounds[1:] - 1]
        order = np.argsort(-lasts, kind="stable")
        first = int(self.fields.row[fields].min())
        for start, end in zip(firsts[order].tolist(), lasts[order].tolist(), strict=True):
            if end < first:
                break
            first = min(first, start)
        return first

    def carried(self) -> BoolArray:
        """Flags the changes that the next chunk plans."""
        flags = np.zeros(self.fields.batch.num_rows, np.bool_)
        flags[self.fields.change[self.reason == _CARRIED]] = True
        return flags

    def _drop_repeats(self) -> None:
        """One record twice is ignored; of different records at one position the first by content counts."""
        fields, live = self.fields, self.live()
        window, position, row = self.window[live], fields.position[live], fields.row[live]
        differs = begins_island(row)
        differs[1:] &= position[1:] <= position[:-1]
        if not (differs & ~begins_island(window)).any():
            return  # positions ascend, as nearly always
        order = order_by(window, position)
        place = np.cumsum(begins_island(window[order], position[order]))
        is_twin = np.zeros(len(order), np.bool_)
        is_twin[1:] = (np.diff(place) == 0) & (np.diff(row[order]) != 0)
        suspects = row[order[np.isin(place, place[is_twin])]]
        twins: dict[tuple[object, ...], list[Change]] = {}
        for change in fields.changes(np.unique(suspects)):
            twins.setdefault((change.object, change.position), []).append(change)
        equal: dict[int, int] = {}
        different: dict[int, int] = {}
        for changes in twins.values():
            first, *others = sorted(changes, key=lambda each: (repr(_content(each)), each.row))
            for change in others:
                if _content(change) == _content(first):
                    equal[change.row] = first.row
                    continue
                different[change.row] = first.row
                self._details[change.row] = (
                    f"record {self._position_text(change)} appears twice for this object, "
                    "with different content: keep the correct one"
                )
        self.drop_changes(equal, Reason.DUPLICATE)
        self.drop_changes(different, Reason.DOUBLE_RECORD)

    def _drop_out_of_range(self) -> None:
        """Changes outside ``--from`` and ``--until``; windows are cut with them."""
        wanted, fields = self.rules.published_range, self.fields
        if wanted is None:
            return
        live = self.live()
        changes = np.unique(fields.change[live])
        places = fields.positions(changes)
        outside = [
            n for n, place in zip(changes.tolist(), places, strict=True) if not wanted.has(place)
        ]
        self.drop(live[np.isin(fields.change[live], outside)], Reason.OUT_OF_RANGE)

    def _join_key_changes(self) -> None:
        """Joins the records that change columns of one key; those that cannot be joined are rejected."""
        fields, live = self.fields, self.live()
        of_key = fields.type[live] == KEY_CHANGE
        if not of_key.any() and not self._memory.key_changes:
            return
        for change in fields.changes(np.unique(fields.row[live[of_key]])):
            self.key_changes[change.row] = change
        if self.rules.windows is None:
            return
        groups: dict[tuple[Object, int], list[Change]] = {}
        rows, first = np.unique(fields.row[live], return_index=True)
        windows = self.window[live[first]].tolist()
        of_keys = {
            change.object for change in self.key_changes.values()
        } | self._memory.key_changes.keys()
        for change, window in zip(fields.changes(rows), windows, strict=True):
            if change.object in of_keys and "+" in change.object.key:
                groups.setdefault((change.object, window), []).append(change)
        for (obj, _), changes in groups.items():
            self._join(obj, changes)

    def _join(self, obj: Object, changes: list[Change]) -> None:
        joined = join_key_changes(
            changes, self.rules.history, self._memory.key_changes.pop(obj, [])
        )
        if joined.last:
            self._memory.key_changes[obj] = joined.last
        self.first_rows |= joined.first_rows
        problems: dict[int, tuple[Reason, str]] = {}
        for change in joined.changes:
            if change.event_type == KEY_CHANGE:
                self.key_changes[change.row] = change
            if change.row in joined.divided:
                first, second = map(self._position_text, joined.divided[change.row])
                text = (
                    f"records {first} and {second} change columns of the key {obj.key} and are no "
                    "neighbours: log all columns of the key one after the other, before the other columns"
                )
                problems[change.row] = (Reason.KEY_CHANGE, text)
        self.reject(problems)

    def _reject_problems(self) -> None:
        """What no document can have is rejected: names, keys, logged values."""
        fields, names = self.fields, self.rules.names
        found: list[tuple[int, int, ValueProblem]] = []
        if fields.objects.problems:
            bad = np.flatnonzero(np.isin(fields.object, list(fields.objects.problems)))
            found += [
                (place, 0, fields.objects.problems[int(fields.object[place])])
                for place in bad.tolist()
            ]
        has_problem = names.column_flags(lambda column: column.problem is not None)
        for place in np.flatnonzero(has_problem[fields.column]).tolist():
            problem = names.columns[fields.column[place]].problem
            assert problem is not None
            found.append((place, 1, problem))
        for number, contents in enumerate((self.new, self.old), 2):
            found += [(place, number, problem) for place, problem in contents.problems.items()]
        problems: dict[int, tuple[Reason, str]] = {}
        for place, _, problem in sorted(found, key=lambda entry: entry[:2]):
            problems.setdefault(int(fields.row[place]), (problem.reason, problem.detail))
        for row, change in self.key_changes.items():
            try:
                self.new_associations[row] = names.association(object_after(change))
            except ValueProblem as problem:
                problems.setdefault(row, (problem.reason, problem.detail))
        self.reject(problems)

    def _reject_torn(self) -> None:
        """Transactions that an earlier pass has rejected as a whole."""
        rejected, fields = self.rules.rejected, self.fields
        if rejected is None or not rejected.causes:
            return
        problems: dict[int, tuple[Reason, str]] = {}
        for change in fields.changes(np.unique(fields.row[self.live()])):
            cause = rejected.cause(change)
            if cause is None:
                continue
            problems[change.row] = (cause.reason, cause.detail)
            if change.position != cause.position:
                where = self.rules.naming.position_text(cause.position)
                text = f"{rejected.unit} is rejected as a whole: its record {where}: {cause.detail}"
                problems[change.row] = (Reason.HELD_BACK, text)
        self.reject(problems)

    def _drop_changes_after_delete(self) -> None:
        """Databases log updates of children when they delete the parent: these have no object any more."""
        fields, live, names = self.fields, self.live(), self.rules.names
        deleted, history = self._memory.deleted, self.rules.history
        ends_children = np.array([table.ends_children for table in names.tables], np.bool_)
        of_class = live[ends_children[fields.objects.table[fields.object[live]]]]
        if not len(of_class):
            return
        concerned = fields.object[of_class[BARRIERS[fields.type[of_class]]]]
        if deleted:
            keys = pa.array({obj.key for obj in deleted}, pa.string())
            known = np.flatnonzero(booleans(pc.is_in(fields.objects.key, keys)))
            concerned = np.concatenate([concerned, known])
        rows = np.unique(fields.row[of_class[np.isin(fields.object[of_class], concerned)]])
        is_multiple = names.column_flags(lambda column: column.is_multiple)
        of_children = {*fields.row[is_multiple[fields.column]].tolist()}
        orphans: dict[int, int] = {}
        for change in fields.changes(rows):
            before = deleted.pop(change.object, None)
            if self.rules.windows is None and before is not None:
                # a delete counts in its transaction only; records without a transaction are one
                before = before if before.transaction == change.transaction else None
            if BARRIERS[change.event_type]:
                before = change
            elif change.event_type in INSERTS or (
                before is not None and history.changes_owner(change.object, before, change)
            ):
                before = None
            elif before is not None and change.row in of_children:
                orphans[change.row] = before.row
            if before is not None:
                deleted[change.object] = before
                if len(deleted) > _REMEMBERED:
                    deleted.pop(next(iter(deleted)))
        self.drop_changes(orphans, Reason.CHILD_AFTER_DELETE)

    def _drop_excluded_columns(self) -> None:
        """Excluded columns of changes that have others."""
        is_published = self.rules.names.column_flags(lambda column: column.is_published)
        column = self.fields.column
        self.drop(np.flatnonzero((column >= 0) & ~is_published[column]), Reason.EXCLUDED)

    def _apply_precedence(self) -> None:
        """Among the changes between two deletes query-backs supersede what they publish.

        A query-back of the row supersedes all fields that it publishes and other query-backs of the row, 5
        before 6; one of a column supersedes all other fields of the column, 7 before 8; of equal ones the
        first stays.  Query-backs before a delete are ignored: their row is gone."""
        fields, live = self.fields, self.live()
        kind, row, column = fields.type[live], fields.row[live], fields.column[live]
        if not READS[kind].any():
            return
        is_barrier = BARRIERS[kind]
        begins = begins_island(fields.object[live], self.window[live])
        begins[1:] |= is_barrier[:-1]
        segment = np.cumsum(begins) - 1

        reads_row = ROW_READS[kind]
        winner = smallest_of_group(segment, kind, row, among=reads_row)
        is_in_row = self.rules.names.column_flags(lambda each: each.is_in_row)
        loses = (winner >= 0) & (row != row[winner]) & ~is_barrier & (reads_row | is_in_row[column])
        of_row = np.flatnonzero(loses & ~reads_row)
        loses[of_row] = ~self._is_of_key(live[of_row])
        self.drop(live[loses], Reason.ROW_QUERY_BACK, row[winner[loses]])

        of_column = segment * (len(self.rules.names.columns) + 1) + column
        _, group = np.unique(of_column, return_inverse=True)
        reads_field = FIELD_READS[kind] & ~loses
        winner = smallest_of_group(group, kind, row, among=reads_field)
        loses = (winner >= 0) & (row != row[winner])
        self.drop(live[loses], Reason.FIELD_QUERY_BACK, row[winner[loses]])

        delete = smallest_of_group(segment, row, among=kind == DELETE)
        ends = READS[kind] & (delete >= 0)
        self.drop(live[ends], Reason.ENDED_BY_DELETE, row[delete[ends]])

    def _is_of_key(self, places: Int64Array) -> BoolArray:
        """Flags fields of columns that belong to the key of their object."""
        fields, columns = self.fields, self.rules.names.columns
        if not len(places):
            return np.zeros(0, np.bool_)
        form, forms = key_forms(fields.objects.key.take(pa.array(fields.object[places])))
        of_form = [{name.casefold() for name in names} for names in forms]
        pair = form * (len(columns) + 1) + fields.column[places] + 1
        pairs, number = np.unique(pair, return_inverse=True)
        split = [divmod(each, len(columns) + 1) for each in pairs.tolist()]
        flags = [columns[column - 1].name.casefold() in of_form[n] for n, column in split]
        return np.array(flags, np.bool_)[number]

    def _divide_at_key_changes(self) -> None:
        """A change of the key is planned by itself; the records that report one change stay together."""
        if not self.key_changes:
            return
        live = self.live()
        row, first = self.fields.row[live], self.first_rows
        of_change = np.array(
            [first.get(each, each) if each in self.key_changes else -1 for each in row.tolist()]
        )
        begins = begins_island(self.fields.object[live], self.window[live], of_change)
        self.part[live] = np.cumsum(begins)

    def loopbacks(self) -> list[tuple[int, str]]:
        """The rows of loopback changes, in order, with the associations of their objects before and after."""
        rows = np.unique(self.fields.row[self.reason == NUMBERS[Reason.LOOPBACK]])
        found: list[tuple[int, str]] = []
        for change in self.fields.changes(rows):
            objects = [change.object]
            if change.event_type == KEY_CHANGE:
                objects.append(object_after(change))
            for obj in objects:
                with suppress(ValueProblem):  # no document has it
                    found.append((change.row, self.rules.names.association(obj)))
        return found

    def drop_empty(self) -> None:
        """A ``<modify>`` without any attribute is not published."""
        fields = self.fields
        absent = ~(booleans(fields.old.is_valid()) | booleans(fields.new.is_valid()))
        is_empty = (fields.type == _UPDATE_FIELD) & absent
        is_empty |= _UPDATES[fields.type] & (fields.column < 0)
        self.drop(np.flatnonzero(is_empty), Reason.NOTHING_TO_PUBLISH)

    def outcomes(self) -> Outcomes:
        """The outcomes of the changes that no document publishes."""
        fields = self.fields
        # a change is published if any of its fields is; of several reasons a reject counts, an exclusion last
        weight = _WEIGHTS[self.reason]
        order = order_by(fields.change, weight)
        first = order[begins_island(fields.change[order])]
        first = first[(self.reason[first] > 0) & (self.reason[first] < _CARRIED)]
        reason, row = self.reason[first], fields.row[first]
        outcome = _OUTCOMES[reason]
        texts: dict[int, tuple[str | None, str | None]] = {}
        for change in fields.changes(np.sort(row[outcome == Outcome.REJECTED])):
            place = first[np.searchsorted(row, change.row)]
            texts[change.row] = self._reject_texts(change, REASONS[self.reason[place] - 1])
        return Outcomes(row, outcome, reason, self.cause[first], texts)

    def _reject_texts(self, change: Change, reason: Reason) -> tuple[str | None, str | None]:
        detail = self._details[change.row]
        if reason is Reason.LONG_VALUE:
            detail = f"{association(change.object)[:80]}: {detail}"
        return detail, raw_record(change, self._position_text(change))

    def _position_text(self, change: Change) -> str:
        return self.rules.naming.position_text(change.position)


def _begin_windows(
    obj: Int64Array, rank: Int64Array, position: Int64Array, windows: PollOptions
) -> BoolArray:
    """Flags where windows begin among fields that are sorted by object and rank."""
    size = windows.poll_size
    of_object = begins_island(obj)
    near = ~of_object
    near[1:] &= np.diff(rank) <= windows.poll_slack
    block = (rank - 1) // size
    begins = of_object.copy()
    begins[1:] |= ~near[1:] & (block[1:] != block[last_mark(~near)[:-1]])
    bounds = island_bounds(of_object)
    for number in np.flatnonzero(np.diff(bounds) > size).tolist():
        # an object with more events than a window may hold: its windows are cut one after the other
        start, end = bounds[number], bounds[number + 1]
        events = start + np.flatnonzero(begins_island(position[start:end]))
        far = np.flatnonzero(~near[events])
        begins[start:end] = False
        event = 0
        while event < len(events):
            begins[events[event]] = True
            later = np.searchsorted(block[events[far]], block[events[event]], "right")
            event = min([event + size, *far[later : later + 1].tolist()])
    return begins


def _content(change: Change) -> tuple[object, ...]:
    """Content that must be equal in repetitions of one record."""
    return change._replace(row=0, rank=0)


_OUTCOMES = np.full(len(REASONS) + 2, int(Outcome.REJECTED))
"""The outcome of each reason by its number."""
_OUTCOMES[0] = Outcome.PUBLISHED
for _outcome, _reasons in {
    Outcome.SUPERSEDED: (Reason.ROW_QUERY_BACK, Reason.FIELD_QUERY_BACK),
    Outcome.HELD: (Reason.FUTURE,),
    Outcome.IGNORED: (
        *(Reason.LOOPBACK, Reason.EXCLUDED, Reason.OUT_OF_RANGE, Reason.DUPLICATE),
        *(Reason.ENDED_BY_DELETE, Reason.CHILD_AFTER_DELETE, Reason.ROW_GONE),
        *(Reason.NOTHING_TO_PUBLISH, Reason.UNCHANGED),
    ),
}.items():
    _OUTCOMES[[NUMBERS[reason] for reason in _reasons]] = _outcome
_WEIGHTS = np.full(len(_OUTCOMES), 2)
"""Of several reasons of the fields of a change the least counts."""
_WEIGHTS[_OUTCOMES == Outcome.REJECTED] = 1
_WEIGHTS[0] = 0
_WEIGHTS[NUMBERS[Reason.EXCLUDED]] = 3
