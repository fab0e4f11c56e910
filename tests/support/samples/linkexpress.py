"""Small Linkexpress extracts of each form."""

from __future__ import annotations

from publisher.formats.linkexpress import Linkexpress, LinkexpressOptions
from tests.support.linkexpress_files import GROUP, JNL, NULL, OPEN, jack, little, mark
from tests.support.linkexpress_files import record as extract_record
from tests.support.source_contract import (
    Sample,
    write_parts,
)


def differences(options: LinkexpressOptions) -> list[bytes]:
    """Some records of a table, one of them with a name that is not text."""
    records = [
        jack(1),
        jack(2, 2),
        jack(2, 3),
        jack(3, name=b"\x81\xff      "),
        (0, 1, [4, NULL, NULL, NULL]),
    ]
    return [extract_record(options, *each) for each in records]


NO_TIME = frozenset({"event_time", "perpetrator", "old"})
"""What an extraction file does not say, and one image of a row only."""
UNUSED = frozenset({"transaction"})

SAMPLES = (
    Sample(
        "open.dat",
        Linkexpress(OPEN),
        write_parts(*differences(OPEN)),
        5,
        None,
        NO_TIME | UNUSED,
    ),
    Sample(
        "little.dat",
        Linkexpress(little(OPEN)),
        write_parts(*differences(little(OPEN))),
        5,
        None,
        NO_TIME | UNUSED,
    ),
    Sample(
        "jnl.dat",
        Linkexpress(JNL),
        write_parts(*differences(JNL)),
        5,
        None,
        NO_TIME | UNUSED,
    ),
    Sample(
        "group.dat",
        Linkexpress(GROUP),
        write_parts(
            *differences(GROUP),
            mark(GROUP),
            *differences(GROUP),
            mark(GROUP),
            *differences(GROUP),
        ),
        17,
        None,
        NO_TIME,
    ),
)
