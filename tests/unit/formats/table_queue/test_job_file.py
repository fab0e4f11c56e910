"""The example conf/table-queue.toml shows every setting of samples and its default."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from publisher.config.job_file import SECTIONS, defaults, load
from publisher.config.validation import option_defaults, option_names
from publisher.errors import SettingsError
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.model.plain import restore
from tests.support.settings_reference import in_force, reference_file

SHOWN = reference_file("table-queue")
OWN = ("table_queue", "activity")


def test_the_example_loads() -> None:
    settings = load(SHOWN)
    assert settings.table_queue == defaults().table_queue
    assert settings.activity == defaults().activity


def test_the_example_loads_with_every_setting_enabled(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(in_force(SHOWN), "utf-8")
    assert load(path).table_queue.owners == {5: "HR"}


@pytest.mark.parametrize("section", OWN)
def test_every_setting_is_shown_with_its_default(section: str) -> None:
    (kind,) = SECTIONS[section]
    settings = tomllib.loads(in_force(SHOWN))[section]
    assert sorted(settings) == sorted(option_names(kind))
    for name, default in option_defaults(kind).items():
        line = next(line for line in SHOWN.read_text("utf-8").splitlines() if f" {name} = " in line)
        if default in (None, {}):
            assert "# no default" in line
        else:
            assert settings[name] == default


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("long_bytes = 2", "long_bytes: should be 4 or 8, not 2"),
        ("identifier_length = 0", "identifier_length: should be greater than or equal to 1"),
        ('code_page = "zlib"', "code_page: 'zlib' is not a known code page"),
        ("eorr = 0", "eorr: two completion codes have the same number"),
        ('owners = { hr = "HR" }', "owners"),
        ("ordinals = 3", "unknown key"),
    ],
)
def test_contradictory_settings_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "job.toml"
    path.write_text(f"[table_queue]\n{text}\n", "utf-8")
    with pytest.raises(SettingsError, match="line 2") as caught:
        load(path)
    assert message in str(caught.value)


def test_options_come_back_from_plain_values() -> None:
    options = TableQueueOptions(code_page="UTF-8", owners={5: "HR"})
    plain = {name: getattr(options, name) for name in option_names(TableQueueOptions)}
    assert restore(TableQueueOptions, plain | {"owners": {"5": "HR"}}) == options
