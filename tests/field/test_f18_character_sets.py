"""Text of every character set of a server arrives as Unicode.

Text of latin1 tables, emoji and column names that are not ASCII became mojibake or question marks. The
database converts to the character set of the connection, and the column of the log must be able to hold
it.
"""

from __future__ import annotations

from tests.field.ways import assert_one_way, publish_each_way
from tests.services.databases import Place
from tests.support.workbench import Workbench

TABLE = (
    "CREATE TABLE txt (id int PRIMARY KEY, a varchar(20) CHARACTER SET latin1,"
    " b varchar(20) CHARACTER SET utf8mb4, `größe` int, f enum('häufig','selten'))"
    " DEFAULT CHARACTER SET latin1"
)


def test_all_ways_give_the_exact_text(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute(TABLE)
    rows = ["INSERT INTO txt VALUES (1, 'Müßig €', '😀 Жанна', 3, 'häufig')"]
    found = publish_each_way(bench, mariadb, "txt", rows, ["id=1"])
    values = {"a": ("Müßig €",), "b": ("😀 Жанна",), "größe": ("3",), "f": ("häufig",)}
    assert found["fields"] == {"id=1": values}
    assert_one_way(found)
