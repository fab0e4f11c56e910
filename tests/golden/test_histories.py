"""Histories of objects whose keys change, and of hostile values, as text and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from lxml import html

from publisher.cli.main import cli
from publisher.reports.history import read_history
from publisher.reports.page.render import render_history
from tests.golden.test_classes import JOB, replay_events

pytestmark = pytest.mark.usefixtures("local_engine")

RENAMED = JOB.replace("[source]", '[source]\nkey_change = "modify-association"')
FIRST = [
    "1|usr|idu=1|fname||Ann",
    "2|usr|idu=1|idu|1|5",
    "2|usr|idu=5|fname|Ann|Eve",
    "1|usr|idu=1|fname||Bob",
]
SECOND = ["2|usr|idu=5|idu|5|7", "2|usr|idu=1|fname|Bob|Joe", "2|usr|idu=7|fname|Eve|Zoe"]


def replay_all(folder: Path, *runs: Sequence[str], job: str = RENAMED) -> list[Path]:
    targets = []
    for number, events in enumerate(runs):
        (folder / str(number)).mkdir()
        targets.append(replay_events(folder / str(number), events, lanes=3, job=job))
    return targets


def test_a_changed_key_continues_the_history(tmp_path: Path) -> None:
    targets = replay_all(tmp_path, FIRST, SECOND)
    renamed, other = read_history(targets, "idu=1,table=usr")
    keys = [str(e.story.object and e.story.object.key) for e in renamed.entries]
    assert keys == ["idu=1", "idu=1", "idu=5", "idu=5", "idu=7"]
    names = [c.after for e in renamed.entries for c in e.changes or () if c.attribute == "fname"]
    assert names == [("Ann",), ("Eve",), ("Zoe",)]
    assert [entry.story.position for entry in other.entries] == ["4", "2"]
    for key in ("idu=5", "idu=7,table=usr,schema=indirect"):
        (same,) = read_history(targets, key)
        assert same.entries == renamed.entries
    (later,) = read_history(targets[1:], "idu=5")
    assert [entry.story.position for entry in later.entries] == ["1", "3"]


def test_objects_that_exchange_keys_keep_their_histories(tmp_path: Path) -> None:
    events = [
        *("1|usr|idu=1|fname||Ann", "1|usr|idu=2|fname||Bob"),
        *("2|usr|idu=1|idu|1|3", "2|usr|idu=2|idu|2|1", "2|usr|idu=3|idu|3|2"),
        *("3|usr|idu=1|fname||Joe", "3|usr|idu=2|fname||Eve"),
    ]
    targets = replay_all(tmp_path, events)
    ann, bob = ["1", "3", "5", "7"], ["2", "4", "6"]
    for key, expected in (("idu=1", [ann, bob]), ("idu=2", [bob, ann]), ("idu=3", [ann])):
        found = read_history(targets, key)
        assert [[e.story.position for e in history.entries] for history in found] == expected


def test_a_key_that_is_not_used_again_ends_the_history(tmp_path: Path) -> None:
    (history,) = read_history(replay_all(tmp_path, FIRST[:2]), "idu=1")
    assert [entry.story.position for entry in history.entries] == ["1", "2"]


def test_the_text_names_the_new_key(tmp_path: Path) -> None:
    (target,) = replay_all(tmp_path, FIRST)
    printed = CliRunner().invoke(cli, ["history", "idu=1", str(target)]).output
    assert "2 update field: fname as idu=5\n" in printed
    assert "    fname: Ann → Eve\n" in printed


@pytest.mark.parametrize(("written", "shown"), [("S", ", written"), ("D", ", row deleted")])
def test_written_statuses_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, shown: str
) -> None:
    (target,) = replay_all(tmp_path, FIRST[:1])
    (history,) = read_history([target], "idu=1")
    (entry,) = history.entries
    story = replace(entry.story, written=written)
    known = replace(history, entries=(replace(entry, story=story),))
    monkeypatch.setattr("publisher.reports.history.read_history", lambda *_, **__: [known])
    printed = CliRunner().invoke(cli, ["history", "idu=1", str(target)]).output
    page = render_history([known], datetime.now(UTC))
    for text in (printed, page):
        assert f"published, status S{shown}" in text


HOSTILE = "</td><script>document.title=1</script><img src=x onerror=alert(1)>\u202e\u009b31m"


def test_hostile_values_stay_text(tmp_path: Path) -> None:
    key = f'idu="{HOSTILE}"'
    job = JOB.replace('idu = "int"', 'idu = "string"')
    events = [
        f"1|usr|{key}|fname||{HOSTILE}",
        f"3|usr|{key}|fname||{HOSTILE * 5000}",
        f"2|usr|{key}|{HOSTILE}|a|b",
    ]
    (target,) = replay_all(tmp_path, events, job=job)
    page = tmp_path / "history.html"
    result = CliRunner().invoke(cli, ["history", key, str(target), "--to", str(page)])
    assert result.exit_code == 0, result.output
    content = page.read_text("utf-8")
    root = html.document_fromstring(content)
    tags = {str(element.tag) for element in root.iter()}
    assert not tags & {"script", "img", "link", "iframe", "a", "form"}
    assert not [name for e in root.iter() for name in e.attrib if str(name).startswith("on")]
    assert "<script>document.title=1</script>" in "".join(map(str, root.itertext()))
    assert not {"\u202e", "\u009b"} & {*content}
    policy = str(root.findall(".//meta[@http-equiv]")[0].get("content"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src 'none'" in policy
    printed = CliRunner().invoke(cli, ["history", key, str(target)]).output
    assert not {"\u202e", "\u009b"} & {*printed}
    assert page.stat().st_mode & 0o777 == 0o600
