"""Tracebacks, log records and last-resort messages: no secret of the settings appears in them."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.cli.tracebacks import library_log
from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions

SECRET = "Tr0ub4dor-x"
JOB = """
[[sources]]
table = "log"
[database]
retries = 0
url = "%s"
[dispatch]
path = "out"
"""


def debug_output(folder: Path, text: str, *, command: str = "status") -> str:
    """Returns the output of a failing command with ``--debug``."""
    path = folder / "hr.toml"
    path.write_text(text)
    result = CliRunner().invoke(cli, ["--debug", command, "-c", str(path)])
    assert result.exit_code != 0
    return result.output


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://us:{SECRET}@127.0.0.1:1/x",
        f"postgresql://us:{SECRET}@127.0.0.1:1/x?port={SECRET}",
        f"postgresql://us:{SECRET}@127.0.0.1:1/x?sslmode={SECRET}",
        f"postgresql://us:{SECRET}@127.0.0.1:1/x?nope=1",
        f"mariadb://us:{SECRET}@127.0.0.1:1/x?nope={SECRET}",
        f"mariadb://us:{SECRET}@127.0.0.1:1/x?ssl_ca=/{SECRET}",
        f"postgresql://us:{SECRET}@127.0.0.1:1{SECRET}/x",
    ],
)
def test_a_url(url: str, tmp_path: Path) -> None:
    message = debug_output(tmp_path, JOB % url, command="check")
    assert "Traceback" in message
    assert SECRET not in message
    assert "unexpected error" not in message


def test_the_settings_of_kafka(tmp_path: Path) -> None:
    text = f"""
[source]
snapshots = ["."]
[dispatch]
to = "kafka"
bootstrap = "127.0.0.1:1"
[dispatch.kafka]
"sasl.password" = "{SECRET}"
"debug" = "{SECRET}"
[nope]
"""
    message = debug_output(tmp_path, text)
    assert "Traceback" in message
    assert 'Invalid value "***" for configuration property "debug"' in message
    assert SECRET not in message


def test_an_option_of_the_driver_that_is_wrong_is_named(tmp_path: Path) -> None:
    message = debug_output(tmp_path, JOB % "mariadb://us@127.0.0.1:1/x?nope=1")
    assert "its driver refuses the URL" in message
    assert "'nope'" in message


PROGRAM = f"""
import logging, sys, threading
from publisher.cli.tracebacks import redact_uncaught
from publisher.database.options import DatabaseOptions
from publisher.database.connection import Database
redact_uncaught()
Database(DatabaseOptions(url="postgresql://us:{SECRET}@h/d"))
def work():
    raise ValueError("given was {SECRET}!")
thread = threading.Thread(target=work)
thread.start()
thread.join()
work()
"""


def test_exceptions_that_nothing_catches() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("ValueError: given was ***") == 2
    # the source line is not shown: it is in no file
    assert SECRET not in done.stderr


def test_records_of_libraries() -> None:
    Database(DatabaseOptions(url=f"postgresql://us:{SECRET}@h/d"))
    formatter = library_log().formatter
    assert formatter is not None
    error = ValueError(f"given was {SECRET}")
    raised = (ValueError, error, None)
    record = logging.LogRecord("pool", logging.ERROR, "f", 1, "lost %s", (SECRET,), raised)
    message = formatter.format(record)
    assert message.startswith("lost ***")
    assert SECRET not in message
