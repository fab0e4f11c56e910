"""The descriptor of change tables."""

from __future__ import annotations

from collections.abc import Iterator

from publisher.errors import OptionProblem
from publisher.formats.change_table.backlog import ChangeTableBacklog
from publisher.formats.change_table.live_table import LiveChangeTable
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.retry import find_description, write_retry
from publisher.formats.change_table.source import ChangeTable, ChangeTablePart
from publisher.formats.files.file_splits import Split
from publisher.formats.format import Format, LiveFormat


def _find_problems(options: ChangeTableOptions, *, is_table: bool) -> Iterator[OptionProblem]:
    if is_table and options.layout != "rows":
        yield OptionProblem(
            "layout", 'messages are read from files only; set snapshots, or layout = "rows"'
        )


CHANGE_TABLE = Format(
    name="change-table",
    title="Change tables",
    position_text="35 digits or FILE:NUMBER",
    options=ChangeTableOptions,
    source=ChangeTable,
    split=lambda: Split[ChangeTablePart],
    live=LiveFormat(
        lambda options, table: LiveChangeTable(options, table=table), ChangeTableBacklog
    ),
    find_problems=_find_problems,
    reads_snapshots=True,
    description_of=find_description,
    write_retry=write_retry,
)
