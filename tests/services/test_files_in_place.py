"""Runs for a topic are planned into their places, where nothing counts before the manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from publisher.config.job_file import load
from publisher.console import Phase
from publisher.engine.local import LocalEngine
from publisher.errors import UnreachableError
from publisher.runs.job import Job
from tests.services.topics import Topics
from tests.support.event_log_files import event, write

JOB = """
[job]
name = "job"
[[sources]]
name = "hr"
format = "event-log"
snapshots = ["in"]
[tables.usr]
key = ["idu"]
columns = {{ idu = "int", fname = "string" }}
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
"""


class FailingEngine(LocalEngine):
    """Fails once after it has planned all lanes."""

    fails = True

    def each(self, *args: Any, **named: Any) -> Any:
        results = super().each(*args, **named)
        if self.fails and args[2][0] is Phase.PLANNING:
            self.fails = False
            raise UnreachableError("away")
        return results


def test_a_plan_that_is_not_committed_is_removed_and_a_finished_run_has_no_files(
    kafka: Topics, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in/log.csv", [event(1, table_key="idu=1"), event(2, table_key="idu=2")])
    topic = kafka.make()
    (tmp_path / "job.toml").write_text(JOB.format(bootstrap=kafka.bootstrap, topic=topic))
    settings = load(tmp_path / "job.toml")
    with Job(settings, FailingEngine()) as job:
        with pytest.raises(UnreachableError):
            job.run()
        (root,) = (path for path in settings.ledger_folder.glob("job-*"))
        assert [*root.iterdir()] == []  # a small run writes no file
        assert job.finish() == []
        assert not root.exists()
        job.run()
    assert [path.name for path in settings.ledger_folder.iterdir() if path.is_dir()] == []
    assert len(kafka.read(topic)) == 2
