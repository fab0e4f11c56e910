"""A user without a name and any umask, as containers have them; through the command line."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.servers import skip_unproved
from tests.support.command_line import open_folders
from tests.support.programs import ROOT

LOG = "1,idu=1,N,1,2026-01-01 00:00:00,hr,usr,fname,,Jack\n"
USER = 1_234_567
CAPABILITIES = "+dac_override,+dac_read_search"  # Python may lie below a directory of root's


def run_as(umask: int, *words: str | Path, nameless: bool = False, home: str | None = None) -> str:
    """Runs the program under a umask, as a user who may have no name; returns what it says."""
    command = [sys.executable, "-m", "publisher.cli", *map(str, words)]
    environment = dict(os.environ)
    if nameless:
        for name in ("HOME", "USER", "LOGNAME"):
            environment.pop(name, None)
        caps = [f"--inh-caps={CAPABILITIES}", f"--ambient-caps={CAPABILITIES}"]
        command = ["setpriv", f"--reuid={USER}", "--regid=0", "--clear-groups", *caps, *command]
    if home is not None:
        environment["HOME"] = home
    ended = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        umask=umask,
        timeout=560,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("home", [None, "/"])
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.long)])
def test_a_user_without_a_name_publishes(tmp_path: Path, engine: str, home: str | None) -> None:
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        skip_unproved("a user without a name (needs root and setpriv)")
    if engine == "local" and home is not None:
        pytest.skip("needs no home directory")
    log, out = tmp_path / "log.csv", tmp_path / "out"
    log.write_text(LOG)
    open_folders(tmp_path)
    run_as(0o022, "replay", log, "--to", out, "--engine", engine, nameless=True, home=home)
    assert "idu=1" in "".join(path.read_text() for path in out.rglob("part-*.xds"))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_documents_and_journals_are_private_under_any_umask(tmp_path: Path, umask: int) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.csv").write_text(LOG)
    (tmp_path / "job.toml").write_text(
        '[[sources]]\nname = "hr"\nsnapshots = ["in"]\n[dispatch]\npath = "deep/out"\n'
        '[journal]\npath = "far/away"\n[run]\nengine = "local"\n'
    )
    run_as(umask, "publish", "-c", tmp_path / "job.toml")
    made = [
        path for top in ("deep", "far") for path in (tmp_path / top, *(tmp_path / top).rglob("*"))
    ]
    assert any(path.name.startswith("part-") for path in made)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in made}
    open_ = {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077}
    assert open_ == {}
