"""Files with records that one run holds and a later run publishes, in which every value is planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.support import change_table_files, linkexpress_files
from tests.support.dispatch_queue_codes import COMMIT, INSERT
from tests.support.dispatch_queue_files import Queue, Row, binary, delimited_text, jack
from tests.support.planted_files import EXTRACT
from tests.support.planted_files import SETTINGS as OF_EXTRACT
from tests.support.planted_values import PlantedValues
from tests.support.renamed_rows import SETTINGS
from tests.support.retried_rejects import documents, invoke

GROUP = replace(EXTRACT, unit="group", difftype=None)
HELD = 1_300
"""Number of records that wait for another run; the files of all formats have 10,000 planted values."""
SINK = '[dispatch]\npath = "out"\n[job]\nreject_budget = 9\n'


def change_table(planted: PlantedValues, folder: Path) -> list[Path]:
    """An UPDATE whose before image is in the second file."""
    record, text = change_table_files.record, planted.text
    key = planted.number()
    first = [record(number, "I", range(3), idu=planted.number(), fname=text()) for number in (1, 2)]
    first += [
        record(3, letter, [1, 2], idu=key, fname=text(), lname=text()) for letter in ("B", "U")
    ]
    update = record(4, "U", [1, 2], idu=key, fname=text(), lname=text())
    later = [
        record(5 + number, "I", range(3), idu=planted.number(), fname=text(), lname=text())
        for number in range(HELD)
    ]
    before = record(4, "B", idu=key, fname=text(), lname=text())
    files = {"usr__ct-1.csv": [*first, update, *later], "usr__ct-2.csv": [before]}
    return [change_table_files.write(folder / name, rows) for name, rows in files.items()]


def dispatch_queue(planted: PlantedValues, folder: Path) -> list[Path]:
    """Open transactions; one has an operation whose DATA cannot be read."""
    queue, text = Queue(), planted.text

    def insert(transaction: int) -> Row:
        image = jack(int(planted.number()), "Jack", text())
        return queue.row(INSERT, image, TRANSACT_ID=transaction)

    rows = [insert(1), insert(1), insert(2), insert(3), queue.row(COMMIT, TRANSACT_ID=3)]
    lines = delimited_text(rows).splitlines()
    lines[3] = lines[3].replace(rows[2]["DATA"].hex(), text())
    open_rows = [insert(4) for _ in range(HELD)]
    ends = [queue.row(COMMIT, TRANSACT_ID=number) for number in (1, 2, 4)]
    contents = {
        "queue-1.csv": "\n".join([*lines, ""]).encode(),
        "queue-2.dat": binary(open_rows),
        "queue-3.dat": binary(ends),
    }
    return [write(folder / name, content) for name, content in contents.items()]


def linkexpress(planted: PlantedValues, folder: Path) -> list[Path]:
    """Differences of a group that wait for their commit record."""
    mark = linkexpress_files.mark(GROUP)

    def insert(pay: str = "12345C") -> bytes:
        note = {"length": 12, "data": planted.text().encode()}
        name = planted.text().encode()
        values = [int(planted.number()), name, bytes.fromhex(pay), note]
        return linkexpress_files.record(GROUP, 0, 1, values)

    cut = insert()[:-3]
    contents = {
        "1.dat": insert() + mark + b"".join(insert() for _ in range(HELD)),
        "2.dat": insert() + mark + insert() + insert("1234FF") + insert(),
        "3.dat": insert() + mark + insert() + cut,
        "4.dat": mark + insert() + mark,
    }
    return [write(folder / name, content) for name, content in contents.items()]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


SOURCES: dict[str, tuple[Callable[[PlantedValues, Path], list[Path]], str]] = {
    "change-table": (change_table, f"[[sources]]\n{SETTINGS['change-table']}"),
    "dispatch-queue": (dispatch_queue, f"[[sources]]\n{SETTINGS['dispatch-queue']}"),
    "linkexpress": (
        linkexpress,
        "[[sources]]\n"
        + OF_EXTRACT["linkexpress"]
        .replace('unit = "table"', 'unit = "group"')
        .replace('difftype = "OPEN"\n', ""),
    ),
}


def publish(
    folder: Path,
    paths: list[Path],
    source: str,
    masking: str,
    planted: PlantedValues,
    engine: str = "local",
) -> tuple[str, set[bytes]]:
    """Publishes the files one after the other; returns what was shown, and planted values in anything."""
    (folder / "in").mkdir(parents=True)
    source = source.replace("[[sources]]\n", '[[sources]]\nsnapshots = ["in"]\n')
    (folder / "job.toml").write_text(source + SINK + masking)
    shown, found = "", set[bytes]()
    for path in paths:
        (folder / "in" / path.name).write_bytes(path.read_bytes())
        shown += invoke(folder, "publish", "--engine", engine).output
        assert "Traceback" not in shown
        for written in ("out", ".xds-publisher"):
            found |= planted.find_below(folder / written)
    shown += "".join(invoke(folder, word).output for word in ("status", "rejects", "check"))
    return shown, found | planted.find_in(shown)


def all_documents(folder: Path) -> list[str]:
    runs = sorted(path.name for path in (folder / "out" / "runs").iterdir())
    return [line for run in runs for line in documents(folder, run)]
