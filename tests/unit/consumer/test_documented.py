"""The pages about the consumer name everything, and their programs for files run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from publisher import consumer
from publisher.consumer import Inbox, Objects
from publisher.xds.document import Envelope, EnvelopeOptions, operation
from publisher.xds.operations import add_attr
from tests.support.documentation import blocks, text_of

REFERENCE = text_of("reference/consumer.md")


@pytest.mark.parametrize("name", consumer.__all__)
def test_the_reference_names_all_public_names(name: str) -> None:
    assert f"`{name}" in REFERENCE


@pytest.mark.parametrize("part", [Inbox, Objects])
def test_the_reference_names_all_methods(part: type) -> None:
    for name in vars(part):
        assert name.startswith("_") or f"`{name}" in REFERENCE


def test_the_program_for_files_prints_the_objects(tmp_path: Path) -> None:
    part = add_attr("fname", None, '<value type="string">Jack</value>')
    run = tmp_path / "documents" / "runs" / "hr-000001"
    run.mkdir(parents=True)
    document = Envelope(EnvelopeOptions()).document([operation("add", "usr", "idu=1", [part])])
    (run / "part-00000.xds").write_text(f"{document}\n")
    (run / "run.json").touch()
    program = blocks(text_of("how-to/consume.md"), "python")[2]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("idu=1 usr {'fname': (Value(text='Jack', type=")
