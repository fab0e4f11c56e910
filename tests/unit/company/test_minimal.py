"""Minimal modifies of the company with four recordings: four formats, classes, several values, references."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from publisher.config.job_file import load
from publisher.consumer import Objects, part_files, read_files
from publisher.engine.local import LocalEngine
from publisher.ledger.conservation import RunReport
from publisher.runs.job import Job
from tests.support.company.job import JOB, prepare
from tests.support.company.story import NOW, write_story
from tests.support.published_objects import values_of


def publish(directory: Path, *, minimal: bool) -> RunReport:
    settings = load(directory / JOB)
    settings = replace(settings, documents=replace(settings.documents, minimal=minimal))
    with LocalEngine() as engine, Job(settings, engine) as job:
        return job.run(now=datetime.fromisoformat(NOW))


def test_consumers_get_the_same_objects_from_fewer_documents(tmp_path: Path) -> None:
    prepare(tmp_path / "False", write_story())
    shutil.copytree(tmp_path / "False", tmp_path / "True")
    reports, objects = [], []
    for minimal in (False, True):
        directory = tmp_path / str(minimal)
        reports.append(publish(directory, minimal=minimal))
        consumer = Objects()
        consumer.apply_all(read_files(part_files(directory / "published")))
        objects.append(values_of(consumer))
    full, few = reports
    assert objects[0] == objects[1]
    assert few.read == full.read
    assert few.documents < 0.9 * full.documents
    unchanged = few.reasons["ignored"]["unchanged"]
    assert few.outcomes["published"] + unchanged == full.outcomes["published"]
