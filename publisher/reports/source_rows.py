"""Shows the rows of live tables in explanations: as they are in their databases now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from publisher.config.settings import Settings, SourceSettings
from publisher.database.deadline import ask_briefly
from publisher.errors import PublisherError, UsageError
from publisher.formats.contract import RowNow
from publisher.model.keys import format_key, parse
from publisher.reports.explain import RecordStory
from publisher.reports.selectors import key_texts

_Rows = dict[str, list[RowNow]]
"""The rows at positions."""


def with_rows(stories: Sequence[RecordStory], settings: Settings | None) -> list[RecordStory]:
    """Adds the rows of live tables to stories without a record, or says why they are not shown.

    ``settings`` name the databases.  Databases that do not answer are not waited for."""
    shown = [*stories]
    groups: dict[tuple[str, str], list[int]] = {}
    for number, story in enumerate(stories):
        is_read = story.raw is not None and story.event is None  # else the ledger has a change
        if story.table is not None and story.not_shown is None and not is_read:
            groups.setdefault((story.source, story.table), []).append(number)
    for (name, table), numbers in groups.items():
        rows: _Rows = {}
        reason = f"table {table} has no row of this position any more"
        try:
            source = _source_of(settings, name, table)
            positions = [stories[number].position for number in numbers]
            ask_briefly(partial(_read, source, positions, rows))
        except PublisherError as error:
            reason = " ".join(str(error).split())
        for number in numbers:
            story = stories[number]
            found = rows.get(story.position, ())
            same = next((row for row in found if _is_same(story, row)), None)
            other = f"table {table} has another row there now, not the one that was read"
            if same is None:
                shown[number] = replace(story, not_shown=other if found else reason)
            else:
                shown[number] = replace(story, raw=same.raw)
    return shown


def _source_of(settings: Settings | None, name: str, table: str) -> SourceSettings:
    if settings is None:
        raise UsageError(
            f"table {table} is in a database: name the job file with -c to read its row"
        )
    for source in settings.sources:
        if (source.name, source.table) == (name, table):
            return source
    raise UsageError(f"job {settings.name} has no source {name} with the table {table}")


def _read(source: SourceSettings, positions: Sequence[str], rows: _Rows) -> None:
    live = source.reader
    for text in positions:
        if text not in rows:
            rows[text] = live.rows_at(live.parse_position(text))


def _is_same(story: RecordStory, row: RowNow) -> bool:
    """Tests whether a row is the one that was read: by its fingerprint, or else by its key."""
    if row.fingerprint is not None and story.fingerprint is not None:
        return row.fingerprint == story.fingerprint
    content = json.loads(row.raw)
    images = content if isinstance(content, list) else [content]
    return any(_has_key(story, image) for image in images)


def _has_key(story: RecordStory, image: dict[str, str | None]) -> bool:
    """Tests whether a row has the values of its object's key, as far as it has the columns."""
    if story.object is None:
        return True
    values = {name.casefold(): value for name, value in image.items()}
    columns = [part.column for part in parse(story.object.key)]
    if any(column.casefold() not in values for column in columns):
        return True
    pairs = sorted((column, (values[column.casefold()] or "").rstrip()) for column in columns)
    return not key_texts(story.object.key).isdisjoint(key_texts(format_key(pairs)))
