"""A quoted line break never ends a record, however the file is split.

One row more and NULLs came of it elsewhere, in some reading modes only. RFC 4180 §2.6.
"""

from __future__ import annotations

import gzip

import pytest

from tests.support.workbench import COLUMNS, Workbench

ROWS = 3_000
INNER = [
    "a\nb",
    "a\r\nb",
    "a\rb",
    'a""b\nc',
    "9,idu=9,N,3,2026-05-01 10:00:00,,usr,fname,,fake",
    "\n\n",
]
FORGED = "x\n9,idu=900000,N,3,2026-05-01 10:00:00,,usr,fname,,fake\ny"


def rows(end: str) -> str:
    lines = [",".join(COLUMNS)]
    for n in range(1, ROWS + 1):
        value = f'"{INNER[n // 7 % len(INNER)]}"' if n % 7 == 0 else "plain"
        lines.append(f"{n},idu={n},N,3,2026-05-01 10:00:00,,usr,fname,,{value}")
    lines[8] = f'8,idu=8,N,3,2026-05-01 10:00:00,,usr,fname,,"{FORGED}"'
    return end.join(lines)


def expected(n: int) -> str:
    if n == 8:
        return FORGED
    return INNER[n // 7 % len(INNER)].replace('""', '"') if n % 7 == 0 else "plain"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("compressed", [False, True])
def test_texts_with_line_breaks_stay_whole(bench: Workbench, end: str, compressed: bool) -> None:
    text = rows(end).encode()
    name = "log.csv.gz" if compressed else "log.csv"
    bench.write(name, gzip.compress(text) if compressed else text)
    bench.replay(name)
    values = {
        key.removeprefix("idu=").partition(",")[0]: v["fname"] for key, v in bench.objects().items()
    }
    assert values == {str(n): (expected(n),) for n in range(1, ROWS + 1)}
    assert bench.rejects() == []


def test_a_stray_quote_costs_the_records_that_it_swallows(bench: Workbench) -> None:
    lines = [f"{n},idu={n},N,3,2026-05-01 10:00:00,,usr,fname,,v{n}" for n in range(1, 101)]
    lines[49] = '50,idu=50,N,3,2026-05-01 10:00:00,,usr,fname,,"v50'
    bench.write("log.csv", "\n".join([",".join(COLUMNS), *lines]) + "\n")
    done = bench.replay("log.csv", "--json")
    report = done.report
    assert sum(report["outcomes"].values()) == report["read"]
    values = {key.partition(",")[0] for key in bench.objects()}
    assert {f"idu={n}" for n in range(1, 50)} <= values
    assert "idu=50" not in values
    assert {reject.reason for reject in bench.rejects()} == {"broken-record"}
