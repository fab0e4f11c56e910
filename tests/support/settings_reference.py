"""Job files in conf/ that show every setting of a format: their contents, read for tests."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from publisher.config.job_file import load
from publisher.config.settings import SourceSettings

CONF = Path(__file__).parents[2] / "conf"
SHARED = "# The database of the published tables"
"""First words of the part of a file that is the same for all formats."""
_COMMENTED = re.compile(r"^# (?=\[|[\w.\"]+ = )", re.MULTILINE)


def reference_file(name: str) -> Path:
    """The file that shows the settings of a format."""
    return CONF / f"{name}.toml"


def in_force(path: Path) -> str:
    """A job file with every commented setting in force."""
    return _COMMENTED.sub("", path.read_text("utf-8"))


def activate_examples(name: str) -> dict[str, Any]:
    """The only source that a file shows, with every commented setting in force."""
    (source,) = tomllib.loads(in_force(reference_file(name)))["sources"]
    return dict(source)


def load_source(name: str) -> SourceSettings:
    """The only source of a file as it stands."""
    (source,) = load(reference_file(name)).for_publish().sources
    return source


def parts_of(name: str) -> tuple[str, str]:
    """A file's text of the source, and its text of what all formats share."""
    own, shared = reference_file(name).read_text("utf-8").split(SHARED)
    return own, shared


def is_example(name: str, text: str) -> bool:
    """True if the reference says that a setting has no default, or if it is in force."""
    return bool(re.search(rf"^# {name} = .*# no default|^{name} = ", text, re.MULTILINE))


def toml_lines(table: Mapping[str, object]) -> str:
    """A table of settings as lines of a job file; ``None`` is left out."""
    given = {name: value for name, value in table.items() if value is not None}
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items())
