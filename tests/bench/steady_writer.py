"""A process that writes into an event log at a steady rate, and notes the time of each commit.

It reads the number of transactions of a round from a line of its input, and answers with a line of
JSON: the seconds that the round took, and for each transaction its first record_id and the time just
before its commit was asked for, in seconds since 1970.
"""

from __future__ import annotations

import json
import sys
import time

import psycopg

from tests.bench.log_table import TABLE

PER_TRANSACTION = 3
"""Rows: the three fields of one object."""

INSERT = f"""
INSERT INTO {TABLE} (table_key, event_type, perpetrator, table_name, column_name,
    old_value, new_value)
VALUES (%(key)s, %(type)s, 'hr', 'usr', 'fname', %(old)s, %(text)s),
       (%(key)s, %(type)s, 'hr', 'usr', 'lname', %(old)s, %(text)s),
       (%(key)s, %(type)s, 'hr', 'usr', 'photo', %(bytes)s, %(bytes)s)
RETURNING record_id
"""


def main() -> None:
    """``python -m tests.bench.steady_writer URL EVENTS_A_SECOND``."""
    url, rate = sys.argv[1], float(sys.argv[2])
    number = 0
    with psycopg.connect(url) as connection:
        for line in sys.stdin:
            notes: list[tuple[int, float]] = []
            begin = time.perf_counter()
            for done in range(int(line)):
                wait = begin + done * PER_TRANSACTION / rate - time.perf_counter()
                if wait > 0:
                    time.sleep(wait)
                number += 1
                first = _insert(connection, number)
                notes.append((first, time.time()))
                connection.commit()
            took = time.perf_counter() - begin
            print(json.dumps([took, notes]), flush=True)


def _insert(connection: psycopg.Connection, number: int) -> int:
    """The fields of one object; gives the first of their record ids, which follow each other."""
    kind = number % 3 + 1
    text = f"O'Neil & Sons {number}"
    values = {
        "key": f"idu={number}",
        "type": kind,
        "old": "Jack Frost" if kind == 2 else None,
        "text": text,
        "bytes": "u7u7u7u7u7u7u7u7u7u7u7u7u7u7u7u7",
    }
    ids = [int(row[0]) for row in connection.execute(INSERT.encode(), values).fetchall()]
    assert ids == list(range(ids[0], ids[0] + PER_TRANSACTION))
    return ids[0]


if __name__ == "__main__":
    main()
