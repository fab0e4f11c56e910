"""A bare loop that follows an event log: poll query, one Kafka transaction, status update.

It does what any such program must do and nothing else: no documents, no ledger, no exactly-once across a
crash.  An empty log is looked at again after the pause that ``publish --follow`` documents.

``python -m tests.bench.bare_follow URL BOOTSTRAP TOPIC`` runs until it is killed.
"""

from __future__ import annotations

import json
import sys
import time

import psycopg
from confluent_kafka import Producer
from psycopg.rows import dict_row

from tests.bench.log_table import TABLE

PAUSE = 0.05
"""Seconds between two looks at an empty log, as in ``docs/how-to/operate.md``."""
ROWS = 10_000
POLL = f"SELECT * FROM {TABLE} WHERE status = 'N' ORDER BY record_id LIMIT {ROWS}"
UPDATE = f"UPDATE {TABLE} SET status = 'S' WHERE record_id = ANY(%s) AND status = 'N'"
TIMEOUT = 60


def main() -> None:
    url, bootstrap, topic = sys.argv[1:]
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"bare-{topic}"})
    producer.init_transactions(TIMEOUT)
    with psycopg.connect(url, row_factory=dict_row) as connection:
        while True:
            rows = connection.execute(POLL.encode()).fetchall()
            if not rows:
                connection.rollback()
                time.sleep(PAUSE)
                continue
            producer.begin_transaction()
            for row in rows:
                number = str(row["record_id"])
                producer.produce(
                    topic,
                    json.dumps(row, default=str).encode(),
                    row["table_key"].encode(),
                    headers=[("record-ids", number.encode())],
                )
            producer.commit_transaction(TIMEOUT)
            connection.execute(UPDATE.encode(), ([row["record_id"] for row in rows],))
            connection.commit()


if __name__ == "__main__":
    main()
