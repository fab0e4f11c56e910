"""Clients are opened while the sink answers; a failed command does not wait for them."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.errors import FatalError
from publisher.runs.publisher_instance import publish
from tests.support.event_log_files import csv_text, event

_SINK = '[dispatch]\npath = "out"\n[run]\nengine = "local"\n'


def test_a_failed_publication_does_not_wait_for_a_database(tmp_path: Path) -> None:
    """The sink has a run of another journal; the server accepts a connection and never answers."""
    (tmp_path / "log.csv").write_text(csv_text([event(1)]))
    job = tmp_path / "job.toml"
    job.write_text('[[sources]]\nname = "hr"\nsnapshots = ["log.csv"]\n' + _SINK)
    publish(load(job))
    (tmp_path / ".xds-publisher").rename(tmp_path / "lost")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgresql://ann@127.0.0.1:{server.getsockname()[1]}/hr"
        job.write_text(
            f'[[sources]]\nname = "hr"\ntable = "log"\n[database]\nurl = "{url}"\n'
            f"connect_timeout = 60\n{_SINK}"
        )
        with pytest.raises(FatalError, match="does not fit the journal"):
            publish(load(job))
        (thread,) = (each for each in threading.enumerate() if each.name == "clients")
        assert thread.daemon  # the end of the process does not wait for it either
        connection, _ = server.accept()
        connection.close()
    thread.join()
