"""A user without a name can run everything.

Containers run under a user number without an entry in passwd; a login of Hadoop failed with an
unreadable NullPointerException, and HOME was unset.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workbench import Workbench, event, log_file

NUMBER = 1_234_567
CAPABILITIES = "+dac_override,+dac_read_search"  # Python may lie below a directory of root's
NAMELESS = (
    *("setpriv", f"--reuid={NUMBER}", "--regid=0", "--clear-groups"),
    *(f"--inh-caps={CAPABILITIES}", f"--ambient-caps={CAPABILITIES}"),
    *("env", "-u", "HOME", "-u", "USER", "-u", "LOGNAME"),
)
JOB = """
[[sources]]
name = "log"
snapshots = ["log.csv"]
[dispatch]
path = "out"
"""
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]


@pytest.fixture
def bench() -> Iterator[Workbench]:
    """A directory of the user without a name; those of pytest are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Workbench(Path(folder))
        bench.write("log.csv", log_file([event("idu=1", 3, "fname", new="a")]))
        bench.write("job.toml", JOB)
        os.chown(folder, NUMBER, 0)
        yield bench


@pytest.mark.parametrize("umask", ["000", "077"])
def test_directories_are_private_under_every_umask(bench: Workbench, umask: str) -> None:
    prefix = ("sh", "-c", f'umask {umask}; exec "$@"', "sh", *NAMELESS)
    bench.run("publish", "-c", "job.toml", prefix=prefix)
    for root in (bench.folder / ".xds-publisher", bench.folder / "out"):
        for path in [root, *root.rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode & 0o077 == 0, f"{path}: {mode:o}"


def test_spark_starts_or_says_in_one_line_what_to_set(bench: Workbench) -> None:
    words = ("replay", "log.csv", "--to", "out", "--engine", "spark")
    done = bench.run(*words, prefix=NAMELESS, codes=None)
    if done.code:
        assert len(done.err.splitlines()) <= 3, done.err
    else:
        assert len(bench.lines()) == 1
