"""conf/event-log.toml shows every setting, its default and nothing else."""

import re
import tomllib
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from publisher.config.job_file import SECTIONS, defaults, load
from publisher.config.validation import option_defaults
from tests.support.settings_reference import in_force, reference_file

SHOWN = reference_file("event-log")
OWN_FILE = frozenset({"table_queue", "activity"})
"""Sections of samples, shown in conf/table-queue.toml."""


def tables() -> dict[str, list[dict[str, Any]]]:
    data = tomllib.loads(in_force(SHOWN))
    found = {name: table if isinstance(table, list) else [table] for name, table in data.items()}
    return found | {"tables": list(data["tables"].values())}


def test_it_loads_as_it_stands(tmp_path: Path) -> None:
    settings = load(SHOWN).for_publish()
    assert settings.meaning() == defaults().meaning()
    assert settings.ledgers == SHOWN.parent.absolute() / ".xds-publisher"


def test_it_loads_with_every_setting_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOG_URL", "sqlite:///log.db")
    monkeypatch.setenv("DATABASE_URL", "sqlite:///hr.db")
    monkeypatch.setenv("KAFKA_PASSWORD", "a secret")
    (tmp_path / "ca.pem").write_text("a certificate")
    path = tmp_path / "all.toml"
    path.write_text(in_force(SHOWN), "utf-8")
    settings = load(path).for_publish()
    assert [source.name for source in settings.sources] == ["event-log", "live"]
    assert settings.database is not None
    assert settings.tables[0].columns
    assert settings.kafka.kafka["sasl.password"] == "a secret"


@pytest.mark.parametrize("name", sorted(SECTIONS.keys() - OWN_FILE))
def test_every_setting_is_shown(name: str) -> None:
    settings = {key for table in tables()[name] for key in table}
    known = {field.name for kind in SECTIONS[name] for field in fields(kind)}
    if name == "spark":  # Spark's own settings appear under their own names
        known.remove("conf")
        settings = {key for key in settings if not key.startswith("spark.")}
    assert settings == known


@pytest.mark.parametrize("name", sorted(SECTIONS.keys() - OWN_FILE))
def test_the_values_shown_are_the_defaults(name: str) -> None:
    known = {key: value for kind in SECTIONS[name] for key, value in option_defaults(kind).items()}
    known["version"] = None  # the program's own, which changes
    settings = tables()[name][0]
    settings.pop("kafka", None)  # librdkafka's own settings, which have a table of their own
    for key, value in settings.items():
        default = known.get(key)
        if default is None or default in ((), {}, frozenset()):
            assert marked_as_example(name, key), key
        else:
            assert value == plain(default), key
            assert not marked_as_example(name, key), key


def marked_as_example(section: str, key: str) -> bool:
    """Tells whether the line is in force or has the comment ``no default``."""
    inside = False
    for line in SHOWN.read_text("utf-8").splitlines():
        if header := re.match(r"(?:# )?\[+(\w+)", line):
            inside = header[1] == section
        entry = re.match(r'(# )?("[^"]+"|\w+) = ', line)
        if inside and entry and entry[2].strip('"') == key:
            return entry[1] is None or "# no default" in line
    raise AssertionError(f"{key} is not shown")


def plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value
