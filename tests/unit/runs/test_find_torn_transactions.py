"""A rejected record rejects its transaction, in whatever lane and at whatever step it is rejected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish as publish_job
from tests.support.dispatch_queue_codes import COMMIT, INSERT, UPDATE
from tests.support.dispatch_queue_files import Queue, jack
from tests.support.dispatch_queue_jobs import keys, rejects, replay, replay_queue, transactions
from tests.support.linkexpress_files import GROUP, OPEN, group_source, mark, record
from tests.support.linkexpress_files import jack as extracted
from tests.support.local_engine import EngineSwitch, ScriptedEngine

pytestmark = pytest.mark.usefixtures("local_engine")

EXTRACT = '[job]\nreject_budget = "unlimited"\n' + group_source() + "[run]\nlanes = {lanes}\n"


@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_a_value_that_cannot_be_rendered_rejects_its_transaction(
    lanes: int, tmp_path: Path
) -> None:
    report = replay_queue(tmp_path, transactions(), lanes=lanes)
    assert keys(tmp_path / "out") == ["idu=3", "idu=4"]
    assert report.reasons["rejected"] == {"forbidden-character": 1, "held-back": 6}
    why = set(rejects(tmp_path / "out")["held-back"])
    assert len(why) == 1
    assert "its record MAIN:3.1200@3.1900: column fname: the value has U+0001" in why.pop()


def test_what_is_replaced_or_left_out_rejects_nothing(tmp_path: Path) -> None:
    for name, more in (("a", 'exclude_columns = ["fname"]'), ("b", 'exclude = ["usr"]')):
        (tmp_path / name).mkdir()
        report = replay_queue(tmp_path / name, transactions(), more=more)
        assert report.outcomes["rejected"] == 0, more


def test_both_halves_of_a_changed_key_are_rejected(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(UPDATE, jack(1), jack(2, "B\x01b")), queue.row(COMMIT)]
    report = replay_queue(tmp_path, rows)
    assert report.documents == 0
    assert report.outcomes["rejected"] == 1


def test_a_query_back_that_is_refused_rejects_its_transaction(tmp_path: Path) -> None:
    queue = Queue()
    rows = [
        queue.row(INSERT, jack(1)),
        queue.row(UPDATE, jack(2), jack(2, "Jim")),
        queue.row(UPDATE, jack(3), jack(3, "Jim")),
        queue.row(COMMIT),
    ]
    report = replay_queue(tmp_path, rows, more='update = "query-back"')
    assert report.documents == 0
    assert report.reasons["rejected"] == {"no-database": 1, "held-back": 2}


def test_exports_that_contradict_each_other_reject_the_transaction(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1)), queue.row(INSERT, jack(2)), queue.row(COMMIT)]
    other = [*rows[:1], rows[1] | {"DATA": jack(2, "Jim")}, *rows[2:]]
    report = replay_queue(tmp_path, rows, other)
    assert report.documents == 0
    assert report.reasons["rejected"] == {"double-record": 2, "held-back": 1}


def test_a_run_without_rejects_is_planned_once(tmp_path: Path, local_engine: EngineSwitch) -> None:
    engines: list[ScriptedEngine] = []

    def engine() -> ScriptedEngine:
        engines.append(ScriptedEngine())
        return engines[-1]

    local_engine.use(engine)
    early = transactions()
    early[1]["LEN1"] -= 1  # known before anything is planned
    for number, rows in enumerate([transactions()[2:3], early, transactions()]):
        base = tmp_path / str(number)
        base.mkdir()
        replay_queue(base, rows)
    assert [len(engine.lanes) for engine in engines] == [1, 1, 2]


def extract(*ids: int, bad: int = 0, wrong: int = 0) -> bytes:
    """Records of a group, one of which cannot be read, or cannot be rendered."""
    names = {bad: b"\x81\xff      ", wrong: b"B\x01b     "}
    return b"".join(record(GROUP, *extracted(i, name=names.get(i, b"Jack    "))) for i in ids)


MARK = mark(GROUP)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (extract(1, 2, 3, bad=2), "value"),
        (extract(1, 2, 3, wrong=2), "forbidden-character"),
        (extract(1, 2) + extract(3)[:6] + b"\0\x09" + extract(3)[8:], "table-name"),
    ],
)
def test_a_rejected_record_of_a_group_rejects_its_transaction(
    data: bytes, reason: str, lanes: int, tmp_path: Path
) -> None:
    whole = extract(7, 8) + MARK + data + MARK + extract(9) + MARK
    report = replay(EXTRACT, tmp_path, whole, lanes=lanes)
    assert keys(tmp_path / "out") == ["idu=7", "idu=8", "idu=9"]
    assert report.reasons["rejected"].pop(reason) == 1
    assert set(report.reasons["rejected"]) == {"held-back"}


def test_a_record_of_a_table_rejects_only_itself(tmp_path: Path) -> None:
    text = EXTRACT.replace('unit = "group"', 'unit = "table"\ndifftype = "OPEN"')
    text = re.sub(
        r"\[\[sources.tables\]\]\nname = \"dept\".*?\[run\]", "[run]", text, flags=re.DOTALL
    )
    text = text.replace("xid = 1\n", "").replace('national_charset = "CP932"\n', "")
    rows = record(OPEN, *extracted(1)) + record(OPEN, *extracted(2, name=b"B\x01b     "))
    report = replay(text, tmp_path, rows)
    assert keys(tmp_path / "out") == ["idu=1"]
    assert report.reasons["rejected"] == {"forbidden-character": 1}


def publish(base: Path, name: str, data: bytes) -> RunReport:
    (base / "in").mkdir(exist_ok=True)
    text = EXTRACT.replace("[[sources]]", '[[sources]]\nsnapshots = ["in"]', 1)
    (base / "job.toml").write_text(text.format(lanes=4) + '[dispatch]\npath = "out"\n')
    (base / "in" / name).write_bytes(data)
    return publish_job(load(base / "job.toml"))


@pytest.mark.parametrize(
    "tail", [extract(1, 2, bad=2), extract(2, bad=2), extract(2, bad=2) + extract(1)]
)
@pytest.mark.parametrize("between", [[], [b""], [extract(5), extract(6)]])
def test_a_reject_is_remembered_until_the_commit(
    tail: bytes, between: list[bytes], tmp_path: Path
) -> None:
    publish(tmp_path, "1.dat", extract(7) + MARK + tail)
    for number, data in enumerate(between):
        publish(tmp_path, f"2{number}.dat", data)
    last = publish(tmp_path, "3.dat", extract(3) + MARK + extract(4) + MARK)
    assert keys(tmp_path / "out") == ["idu=4", "idu=7"]
    assert set(last.reasons["rejected"]) == {"held-back"}
    assert publish(tmp_path, "4.dat", extract(8) + MARK).outcomes["rejected"] == 0
    assert keys(tmp_path / "out") == ["idu=4", "idu=7", "idu=8"]


def test_a_reject_of_a_later_file_reaches_what_was_held_before(tmp_path: Path) -> None:
    publish(tmp_path, "1.dat", extract(1))
    publish(tmp_path, "2.dat", extract(2, 3, bad=3))
    report = publish(tmp_path, "3.dat", MARK)
    assert report.documents == 0
    assert report.reasons["rejected"] == {"held-back": 2}
