"""Files are UTF-8 whatever the locale says.

From cron or a supervisor, without a UTF-8 locale, Python tools failed on the first character that is not
ASCII.
"""

from __future__ import annotations

import pytest

from tests.support.workbench import Workbench, event, log_file

LOCALES = [
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "en_US.ISO-8859-1", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.mark.parametrize("locale", LOCALES, ids=["C", "ascii", "latin1"])
def test_the_same_bytes_are_written_under_every_locale(
    bench: Workbench, locale: dict[str, str]
) -> None:
    text = log_file([event("имя=Жанна", 3, "größe", new="出力 😀"), event("имя=Жанна", 9, "x")])
    bench.write("журнал.csv", text)
    bench.replay("журнал.csv", to="plain")
    environment = {"LANG": "", **locale}
    words = ("replay", "журнал.csv", "--to", "出力")
    done = bench.run(*words, codes=[0, 4], environment=environment)
    assert "Traceback" not in done.err
    assert bench.lines("出力") == bench.lines("plain")
    assert bench.rejects("出力") == bench.rejects("plain")
    told = bench.run("explain", "出力", "имя=Жанна", environment=environment)
    assert "Traceback" not in told.err
    assert bench.run("inspect", "журнал.csv", environment=environment).out
