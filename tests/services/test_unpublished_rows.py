"""Rows of compared tables whose documents a topic refused: consumers get them whole once they fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.ledger.storage import transaction
from publisher.runs.publish import publish
from tests.services.topics import Topics
from tests.support.compared_jobs import table_row, write_table

pytestmark = pytest.mark.usefixtures("local_engine")


@pytest.mark.parametrize("state", ["columns", "values"])
def test_a_refused_row_is_added_once_it_fits(kafka: Topics, tmp_path: Path, state: str) -> None:
    topic = kafka.make(max_message_bytes=2_500)
    path = tmp_path / "job.toml"
    path.write_text(
        f'[[sources]]\nname = "hr"\nformat = "triggerless"\nsnapshots = ["in"]\nstate = "{state}"\n'
        f'[tables.usr]\nkey = ["idu"]\n[dispatch]\nto = "kafka"\nbootstrap = "{kafka.bootstrap}"\n'
        f'topic = "{topic}"\n'
    )
    settings, large = load(path), "x" * 3_000
    write_table(tmp_path, [table_row(1, "Ann", large), table_row(2)])
    report = publish(settings)
    assert report.reasons["rejected"] == {"too-large": 1}
    with transaction(settings.ledger_folder) as ledger:  # the end of the run is not recorded
        ledger.execute("UPDATE run SET ended = NULL, outcome = NULL")
    assert publish(settings).documents == 0
    write_table(tmp_path, [table_row(1, "Ann", large), table_row(2, "Bob")])
    assert publish(settings).operations == {"modify": 1}
    write_table(tmp_path, [table_row(1, "Eve", large), table_row(2, "Bob")])
    assert publish(settings).reasons["rejected"] == {"too-large": 1}
    write_table(tmp_path, [table_row(1, "Eve", "x"), table_row(2, "Bob")])
    assert publish(settings).operations == {"add": 1}
    (value,) = [r.value for r in kafka.read(topic) if r.key == b"idu=1,table=usr"]
    assert value is not None
    assert value.count(b"<add-attr ") == 2
