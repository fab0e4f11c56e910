"""Documents make of a directory the same as transactions make of the table.

Random transactions run on a table; each is logged in one of the styles that triggers know (values of
each field, all values replaced, query-back of fields or of the row); the documents that come of the log
go into a model directory, which must end as the table does.  An attribute of the directory is a set:
a directory never holds a value twice, and an add of what a query-back has already read is not a change.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from publisher.model.change import Object
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import Answer, CurrentRow
from publisher.xds.document import DocumentOptions
from publisher.xds.operations import InsertQueryBack
from tests.support.planning import DEPT, USR, USR_2, Event, Rows, Setup, log

COLUMNS = ("a", "b")
OBJECTS = (USR, USR_2, DEPT)
Values = dict[str, str | None]
Directory = dict[str, dict[str, set[str]]]


@dataclass
class ModelTable:
    """The table, and the log that its triggers write."""

    rows: dict[Object, Values] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    at: int = 0

    def step(self, obj: Object, values: Values, style: str, gap: int, deletes: bool) -> None:
        """One transaction of one row: insert where there is none, else update or delete."""
        self.at += gap
        if obj not in self.rows:
            self._insert(obj, values, style)
        elif deletes:
            del self.rows[obj]
            self._log(Event(4, obj=obj))
        else:
            self._update(obj, values, style)

    def _insert(self, obj: Object, values: Values, style: str) -> None:
        self.rows[obj] = {column: values.get(column) for column in COLUMNS}
        if style == "row":
            self._log(Event(5, obj=obj))
            return
        for column, value in self.rows[obj].items():
            by_field = style == "field" or (style == "mixed" and column == "a")
            self._log(Event(7, column, obj=obj) if by_field else Event(1, column, value, obj=obj))

    def _update(self, obj: Object, values: Values, style: str) -> None:
        before = dict(self.rows[obj])
        self.rows[obj].update(values)
        if style == "row":
            self._log(Event(6, obj=obj))
            return
        for column, value in values.items():
            if style == "field" or (style == "mixed" and column == "b"):
                self._log(Event(8, column, obj=obj))
            elif style == "replace":
                self._log(Event(3, column, value, obj=obj))
            else:
                self._log(Event(2, column, value, before[column], obj=obj))

    def _log(self, event: Event) -> None:
        self.at += 1
        self.events.append(event._replace(at=self.at))

    def answers(self) -> dict[Object, Answer]:
        answers: dict[Object, Answer] = {}
        for obj, row in self.rows.items():
            key, value = obj.key.split("=")
            answers[obj] = CurrentRow((key, *row), (value, *row.values()))
        return answers

    def directory(self) -> Directory:
        return {
            f"{obj.key},table={obj.table},schema={obj.schema}": {
                column: {value} for column, value in row.items() if value is not None
            }
            for obj, row in self.rows.items()
        }


def apply(directory: Directory, text: str) -> None:
    """One document, as an identity manager would apply it."""
    sent = etree.fromstring(text).find("input")
    assert sent is not None
    for operation in sent:
        name = operation.findtext("association")
        assert name is not None
        if operation.tag == "delete":
            directory.pop(name, None)
            continue
        entry = directory.setdefault(name, {})  # a modify of what is not there adds it
        for attribute in operation.iterchildren():
            if attribute.tag == "association":
                continue
            assert attribute.tag == f"{operation.tag}-attr"
            values = entry.setdefault(str(attribute.get("attr-name")), set())
            parts = [attribute] if operation.tag == "add" else list(attribute)
            for part in parts:
                given = {value.text or "" for value in part.findall("value")}
                if part.tag == "remove-all-values":
                    values.clear()
                elif part.tag == "remove-value":
                    values -= given
                else:
                    values |= given


def without_empty(directory: Directory) -> Directory:
    return {
        name: {attribute: values for attribute, values in entry.items() if values}
        for name, entry in directory.items()
    }


one_value = st.sampled_from([None, "", "u", "v", "w"])
one_step = st.tuples(
    st.sampled_from(OBJECTS),
    st.dictionaries(st.sampled_from(COLUMNS), one_value, min_size=1),
    st.sampled_from(["values", "replace", "field", "row", "mixed"]),
    st.integers(0, 4),
    st.sampled_from([False, False, False, True]),
)


@settings(max_examples=200)
@given(
    st.integers(0, 20).flatmap(lambda n: st.lists(one_step, min_size=n, max_size=n)),
    st.integers(1, 7),
    st.integers(0, 3),
    st.sampled_from([1, 3]),
    st.sampled_from(["modify", "add"]),
)
def test_the_directory_ends_as_the_table(
    steps: list[tuple[Object, Values, str, int, bool]],
    poll_size: int,
    poll_slack: int,
    batch_size: int,
    insert_query_back: InsertQueryBack,
) -> None:
    table = ModelTable()
    for step in steps:
        table.step(*step)
    setup = Setup(
        polls=PollOptions(poll_size, poll_slack),
        documents=DocumentOptions(batch_size, insert_query_back=insert_query_back),
        lookup=Rows(table.answers()),
    )
    directory: Directory = {}
    for document in setup.plan(log(*table.events)).documents:
        apply(directory, document.text)
    assert without_empty(directory) == table.directory()
