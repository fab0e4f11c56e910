"""conf/change-table.toml shows the defaults of a change table, and its settings reach the source."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from publisher.config.job_file import load
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.registry import FORMATS
from tests.support.settings_reference import activate_examples, load_source, toml_lines


def test_what_it_says_are_the_defaults() -> None:
    assert load_source("change-table").options == ChangeTableOptions()


def test_all_settings_reach_the_source_and_its_ledger(tmp_path: Path) -> None:
    shown = activate_examples("change-table") | {"snapshots": ["x"]}
    for name in ("table", "url", "url_env"):
        del shown[name]
    (tmp_path / "job.toml").write_text("[[sources]]\n" + toml_lines(shown), "utf-8")
    (source,) = load(tmp_path / "job.toml").sources
    options = source.options
    assert isinstance(options, ChangeTableOptions)
    assert (options.images, options.key, options.header_columns) == ("full", ("idu",), 7)
    kept = {field.name: getattr(options, field.name) for field in fields(ChangeTableOptions)}
    kept |= {"key": list(options.key), "columns": list(options.columns)}
    again = FORMATS["change-table"].restore(kept | {"identifier_case": "database"}, {})
    assert again.options == options
