"""Names and row images of one export have code pages of their own.

A wrong page of one byte a character never fails; the text only looks odd.  The names of a dispatch queue are
in the client's page, and its images in the source's.
"""

from __future__ import annotations

import struct

from tests.support.workbench import Workbench

JOB = """
[[sources]]
name = "queue"
format = "dispatch-queue"
snapshots = ["in"]
null_mode = "none"
image_charset = "cp866"
time_zone = "UTC"
{more}
[[sources.tables]]
number = 7
{named}
key = ["idu"]
columns = ["idu INTEGER", "lname CHAR(12)", "city CHAR(8)"]
charsets = {{ city = "koi8-r" }}
[dispatch]
path = "out"
"""
NAMED = 'name = "usr"\nschema = "hr"'
INSERT, COMMIT = 2, 4
TEXT = bytes.fromhex("88a2a0adaea2a0") + b"\xfc\xf0"
CITY = bytes.fromhex("e9d7c1cecfd7c1")


def row(
    address: int, operation: int, image: bytes = b"", table: str = "USR", node: str = "MAIN"
) -> bytes:
    """A row of the queue, with integers in little-endian order."""
    return b"".join(
        (
            struct.pack(">IH", 0x3FF40BC0, 0),
            struct.pack("<h", 0),
            node.encode().ljust(8),
            struct.pack("<qqhhiiiii", 1, (3 << 32) + address, operation, 0, 5, 7, 9, len(image), 0),
            b"SRV1".ljust(8),
            b"IDM".ljust(66),
            table.encode().ljust(66),
            image.ljust(3400, b"\0"),
        )
    )


def image(idu: int) -> bytes:
    return struct.pack("<i", idu) + TEXT.ljust(12) + CITY.ljust(8)


def test_columns_may_have_a_page_of_their_own(bench: Workbench) -> None:
    bench.write("job.toml", JOB.format(more="", named=NAMED))
    bench.write("in/1.dat", row(100, INSERT, image(1)) + row(200, COMMIT))
    bench.publish()
    values = bench.objects()["idu=1,table=usr,schema=hr"]
    assert values["lname"] == ("Иванова№Ё",)
    assert values["city"] == ("Иванова",)


def test_a_wrong_page_is_visible(bench: Workbench) -> None:
    wrong = JOB.format(more="", named=NAMED).replace('"cp866"', '"cp1251"')
    bench.write("job.toml", wrong)
    bench.write("1.dat", row(100, INSERT, image(1)) + row(200, COMMIT))
    shown = bench.run("inspect", "1.dat", "-c", "job.toml").out
    assert "Иванова№" not in shown
    assert "\u00ad" not in shown
    assert "\u00a0" not in shown


def test_names_without_a_page_reject_their_records_and_the_file_is_read_again(
    bench: Workbench,
) -> None:
    bench.write("job.toml", JOB.format(more="", named='name = "usr"'))
    data = row(100, INSERT, image(1), node="УЗЕЛ", table="КАДРЫ") + row(200, COMMIT, node="УЗЕЛ")
    bench.write("in/1.dat", data)
    report = bench.publish(codes=[0, 1, 4])
    assert report["outcomes"]["published"] == 0
    assert {reject.reason for reject in bench.rejects()} == {"broken-record"}
    bench.write("job.toml", JOB.format(more='charset = "utf-8"', named='name = "usr"'))
    bench.publish()
    assert [values["city"] for values in bench.objects().values()] == [("Иванова",)]
