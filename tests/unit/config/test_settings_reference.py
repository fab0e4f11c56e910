"""Each format's file in conf/ shows every setting of a source and its default, and loads as it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import pytest

from publisher.config.job_file import load
from publisher.config.source_sections import source_parts
from publisher.config.validation import option_defaults
from publisher.errors import SettingsError
from publisher.formats.dispatch_queue.options import QueueTable
from publisher.formats.linkexpress.options import ExtractedTable
from tests.support.settings_reference import activate_examples, is_example, load_source, parts_of

OF_DATABASES = frozenset({"table", "url", "url_env"})
"""Settings that have no meaning, and are not shown, where a source is read from files only."""


class Format(NamedTuple):
    """A format whose file is held to the options it is made of."""

    name: str
    table: type | None = None
    """Options of [[sources.tables]]; formats that have these are read from files only."""


FORMATS = (
    Format("change-table"),
    Format("triggerless"),
    Format("linkexpress", ExtractedTable),
    Format("dispatch-queue", QueueTable),
)
of_each_format = pytest.mark.parametrize("shown", FORMATS, ids=lambda shown: shown.name)


@of_each_format
def test_it_loads_as_it_stands(shown: Format) -> None:
    source = load_source(shown.name)
    assert source.format == shown.name
    assert source.polls is None


@of_each_format
def test_every_setting_is_shown_with_its_default(shown: Format) -> None:
    parts = source_parts(shown.name)
    known = {field.name for part in parts for field in fields(part)}
    settings = activate_examples(shown.name)
    text, _ = parts_of(shown.name)
    if shown.table is None:
        assert set(settings) == known
    else:
        assert {*settings, *OF_DATABASES} == known
        (table,) = settings.pop("tables")
        assert set(table) == {field.name for field in fields(shown.table)}
        text, of_table = text.split("[[sources.tables]]\n")
        check_defaults([shown.table], table, of_table)
    check_defaults(parts, settings, text)


@of_each_format
@pytest.mark.parametrize("setting", ['driver_user = "idm"', "allow_loopback = true"])
def test_loopback_is_refused_where_records_name_no_user(
    shown: Format, setting: str, tmp_path: Path
) -> None:
    path = tmp_path / "job.toml"
    path.write_text(f'[[sources]]\nformat = "{shown.name}"\n{setting}\n')
    with pytest.raises(SettingsError) as refusal:
        load(path)
    key = setting.partition(" ")[0]
    (line,) = [line for line in refusal.value.lines if key in line]
    assert f"format {shown.name} name no user" in line
    assert "leave it out (line 3)" in line


def check_defaults(kinds: Iterable[type], settings: Mapping[str, object], text: str) -> None:
    """Each setting is shown with its default, or as an example where it has none."""
    defaults = {name: value for kind in kinds for name, value in option_defaults(kind).items()}
    for name, value in settings.items():
        if defaults.get(name) in (None, (), {}):
            assert is_example(name, text), name
        elif name != "format":
            assert value == defaults[name], name


@of_each_format
def test_what_is_no_setting_of_a_source_is_that_of_event_logs(shown: Format) -> None:
    assert parts_of(shown.name)[1] == parts_of("event-log")[1]
