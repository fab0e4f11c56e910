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
path = "deep/out"
[ledger]
path = "far/away"
[run]
engine = "local"
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def bench() -> Iterator[Workbench]:
    """A directory of the user without a name; those of pytest are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Workbench(Path(folder))
        bench.write("log.csv", log_file([event("idu=1", 3, "fname", new="a")]))
        bench.write("job.toml", JOB)
        os.chown(folder, NUMBER, 0)
        yield bench


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_files_and_directories_are_private_under_every_umask(bench: Workbench, umask: str) -> None:
    prefix = ("sh", "-c", f'umask {umask}; exec "$@"', "sh", *NAMELESS)
    bench.run("publish", "-c", "job.toml", prefix=prefix)
    tops = [bench.folder / top for top in ("deep", "far")]
    made = [path for top in tops for path in (top, *top.rglob("*"))]
    assert any(path.name.startswith("part-") for path in made)
    for path in made:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == 0, f"{path}: {mode:o}"


@pytest.mark.parametrize(
    ("engine", "home"),
    [
        ("local", ()),
        pytest.param("spark", (), marks=pytest.mark.long),
        pytest.param("spark", ("HOME=/",), marks=pytest.mark.long),
    ],
)
def test_a_user_without_a_name_publishes(
    bench: Workbench, engine: str, home: tuple[str, ...]
) -> None:
    words = ("replay", "log.csv", "--to", "out", "--engine", engine)
    bench.run(*words, prefix=(*NAMELESS, *home))
    assert len(bench.lines()) == 1
