"""The page itself: hostile values stay text, nothing is loaded, a browser shows and searches it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from publisher.model.change import Object
from publisher.reports.object_histories import (
    HistoryDocument,
    HistoryEvent,
    ObjectHistory,
)
from publisher.reports.page.histories import MAX_CHARACTERS, objects_text
from publisher.reports.page.overview import (
    Flow,
    LaneCounts,
    Overview,
    PhaseSeconds,
    RunLine,
    TableSums,
)
from publisher.reports.page.reject_samples import Rejects, RejectSample
from publisher.reports.page.render import ShownObjects, render
from publisher.reports.page.timeline import Interval, Timespan
from publisher.xds.escape import escape_permitted

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=http://example.invalid/x onerror=alert(1)>"
    "&amp;\"'\x1b[31m\u202e\u2028{{ 7 * 7 }}"
)
DOCUMENT = (
    '<nds dtdversion="2.0" ndsversion="8.x"><source><product version="0.1.0">XDS Publisher</product>'
    '<contact/></source><input><modify class-name="usr"><association>idu=1,table=usr</association>'
    '<modify-attr attr-name="fname"><remove-value><value type="string">{value}</value></remove-value>'
    '<add-value><value type="string">{value}!</value></add-value></modify-attr></modify></input></nds>'
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def history(number: int, text: str = HOSTILE) -> ObjectHistory:
    value = escape_permitted("".join(c for c in text if c.isprintable()))
    document = HistoryDocument(
        "modify", f"idu={number},table={text}", f"hr:{number}", DOCUMENT.format(value=value)
    )
    event = HistoryEvent(
        *("run", text, str(number), 1_777_777_777_000_000, text, "update field", (text,)),
        *("published", None, text, document),
    )
    found = ObjectHistory(Object(None, text, f"idu={number}"))
    found.add(event)
    return found


def overview(text: str = HOSTILE) -> Overview:
    outcomes = {"published": 7, "superseded": 0, "ignored": 0, "held": 0, "rejected": 2}
    sample = RejectSample(text, text, text, text, text, text)
    return Overview(
        jobs=(text,),
        runs=1,
        first=NOW.isoformat(),
        last=NOW.isoformat(),
        newest=(RunLine(text, NOW.isoformat(), 9, 7, 99, outcomes, text, {text: 1.5}, (text,)),),
        read=9,
        documents=7,
        bytes=99_999,
        outcomes=outcomes,
        flows=(Flow(text, "published", None, 7), Flow(text, "rejected", text, 2)),
        rejects=(Rejects(text, 2, (sample,)),),
        tables=(TableSums(text, outcomes, {text: 7}),),
        operations=Timespan(3_600_000_000, (Interval(0, {text: 7}),), 1, 0),
        lanes=(LaneCounts(0, 7, 99_999, 1.5),),
        phases=(PhaseSeconds(text, 1.5, 1.5, text),),
    )


def page(histories: list[ObjectHistory], view: Overview | None = None) -> str:
    text = objects_text(histories)
    objects = ShownObjects(text, len(histories), is_complete=True)
    return render(view or overview(), objects, NOW)


class Tags(HTMLParser):
    """Collects the elements of a page and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, Mapping[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_hostile_values_add_no_element() -> None:
    hostile, plain = (
        Tags(page([history(1)])).tags,
        Tags(page([history(1, "a")], overview("a"))).tags,
    )
    assert [tag for tag, _ in hostile] == [tag for tag, _ in plain]
    names = {name for _, attributes in hostile for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert names.isdisjoint({"src", "href", "style", "action", "srcset"})


def test_the_policy_allows_nothing_but_the_own_style_and_script() -> None:
    [policy] = [
        attributes["content"]
        for tag, attributes in Tags(page([])).tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]+'; script-src 'sha256-[\w+/=]+'; "
        r"base-uri 'none'; form-action 'none'",
        policy,
    )


def test_control_characters_are_shown_as_escapes() -> None:
    text = page([])
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "{{ 7 * 7 }}" in text  # a value is no template


def test_megabyte_values_are_truncated() -> None:
    text = page([history(1, "x" * 2_000_000)], overview("a"))
    assert len(text) < 60_000
    assert "… (2,000,000 characters)" in text


def test_a_million_records_give_a_page_below_5_megabytes() -> None:
    many = [history(number, "value " * 30) for number in range(20_000)]
    text = objects_text(many)
    assert MAX_CHARACTERS * 0.9 < len(text.text) <= MAX_CHARACTERS + 1_000
    assert len(page(many)) < 5_000_000


@pytest.fixture(scope="module")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    if CHROMIUM is None:
        pytest.skip("the package chromium is not installed")
    return Browser(tmp_path_factory.mktemp("browser"))


class Browser:
    """Shows pages in a headless browser, and records its requests and messages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def show(self, text: str, search: str = "") -> str:
        """The elements of the page after its script has run."""
        file, log = self._folder / "report.html", self._folder / "net.json"
        file.write_text(text, encoding="utf-8")
        assert CHROMIUM is not None
        done = subprocess.run(
            [
                *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update"),
                *(f"--user-data-dir={self._folder / 'profile'}", "--enable-logging=stderr"),
                *(f"--log-net-log={log}", "--dump-dom", f"{file.as_uri()}#{search}"),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        messages = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        assert not messages
        addresses = set(re.findall(r'"url":"([^"]+)"', log.read_text(encoding="utf-8")))
        assert not {address for address in addresses if "example.invalid" in address}
        return done.stdout


def test_a_browser_shows_all_objects(browse: Browser) -> None:
    shown = browse.show(page([history(number) for number in range(60)]))
    assert "<title>Report of" in shown
    assert "owned" not in re.findall(r"<title>(.*?)</title>", shown)[0].replace("title='owned'", "")
    assert "60 objects, the first 50 are shown" in shown
    assert shown.count("<details><summary>idu=") == 50


def test_a_browser_finds_objects(browse: Browser) -> None:
    histories = [history(number, f"value {number}") for number in range(60)]
    shown = browse.show(page(histories, overview("a")), "idu=17%20VALUE")
    assert ">1 object<" in shown
    assert json.dumps("idu=17,table=value 17")[1:-1] in shown


def test_a_browser_finds_texts_with_quotes_and_markup(browse: Browser) -> None:
    histories = [history(1, 'a "quoted" <b>'), history(2, "plain")]
    shown = browse.show(page(histories, overview("a")), "%22quoted%22%20%3Cb%3E")
    assert ">1 object<" in shown
