"""The descriptor of change tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from publisher.errors import OptionProblem
from publisher.sources.change_table.backlog import ChangeTableBacklog
from publisher.sources.change_table.live_table import LiveChangeTable
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.change_table.source import ChangeTable, ChangeTablePart
from publisher.sources.files.file_splits import Split
from publisher.sources.files.recognise import dfm_of
from publisher.sources.format import Format, LiveFormat
from publisher.sources.retry import CorrectedRecord, RetryFiles, write_json_lines


def _find_problems(options: ChangeTableOptions, *, is_table: bool) -> Iterator[OptionProblem]:
    if is_table and options.layout != "rows":
        yield OptionProblem(
            "layout", 'messages are read from files only; set snapshots, or layout = "rows"'
        )


def _write_retry(
    options: ChangeTableOptions, records: Sequence[CorrectedRecord], folder: Path
) -> RetryFiles:
    """Writes the records, and copies the ``.dfm`` files of the files that had them."""
    del options
    files = write_json_lines(records, folder, {})
    for record, (path, _) in zip(records, files.places, strict=True):
        if record.file is not None and (dfm := _description_of(Path(record.file))) is not None:
            shutil.copyfile(dfm, path.with_suffix(".dfm"))
    return files


def _description_of(path: Path) -> Path | None:
    dfm = dfm_of(path)
    return dfm if dfm.is_file() else None


CHANGE_TABLE = Format(
    name="change-table",
    title="Change tables",
    position_text="35 digits or FILE:NUMBER",
    options=ChangeTableOptions,
    source=ChangeTable,
    split=Split[ChangeTablePart],
    live=LiveFormat(LiveChangeTable, ChangeTableBacklog),
    find_problems=_find_problems,
    reads_snapshots=True,
    description_of=_description_of,
    write_retry=_write_retry,
)
