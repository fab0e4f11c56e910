"""Real database servers for tests and benchmarks: started here, thrown away after.

Each serves on a free port of this machine from a temporary directory, by an unprivileged user (the
servers refuse to run as root), and does not wait for the disk.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
import sqlalchemy as sa

POSTGRESQL = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


def skip_unproved(what: str) -> NoReturn:
    """Skips a test whose server cannot be had; with ``CI=true`` it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"not proved: {what}")
    pytest.skip(f"not proved: {what}")


class MissingServerError(Exception):
    """The server's programs are not on this machine."""


@dataclass
class Server:
    """A server process; ``url`` is that of an empty database of its own."""

    url: str
    command: list[str]
    log: Path
    stop_signal: int = signal.SIGINT
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.command}: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def answers(self) -> bool:
        """True if a connection can be used."""
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("SELECT 1")
        except sa.exc.DBAPIError:
            return False
        return True

    def stop(self) -> None:
        """Ends the server, and its connections with it."""
        if self.process is not None:
            # SIGKILL would leave shared memory behind
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


def find(program: str, *places: str) -> str:
    """The path of a program.  Raises ``MissingServerError``."""
    found = shutil.which(program)
    for place in places:
        candidates = sorted(Path("/").glob(f"{place.lstrip('/')}/{program}"))
        found = found or (str(candidates[-1]) if candidates else None)
    if found is None:
        raise MissingServerError(f"{program} is not installed")
    return found


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def directory(*users: str) -> Iterator[tuple[Path, list[str]]]:
    """A temporary directory, and the words before a command that is to work in it.

    As root these make it run as the first of ``users`` that exists, who then owns the directory.
    """
    path = Path(tempfile.mkdtemp(prefix="xds-"))
    prefix: list[str] = []
    if os.geteuid() == 0:
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
        user = next(known[name] for name in (*users, "nobody") if name in known)
        os.chown(path, user.pw_uid, user.pw_gid)
        ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        # ends with us, also when we are killed
        prefix = [find("setpriv"), "--pdeathsig=TERM", *ids, "--"]
    try:
        yield path, prefix
    finally:
        shutil.rmtree(path, ignore_errors=True)


def run(command: Sequence[str]) -> None:
    """Runs a command in the root directory; its words are shown where it fails."""
    done = subprocess.run(command, capture_output=True, cwd="/", check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {(done.stdout + done.stderr).decode()[-2000:]}")


@contextmanager
def postgresql(**settings: str) -> Iterator[Server]:
    """A PostgreSQL server with further ``settings``."""
    initdb = find("initdb", *POSTGRESQL)
    with directory("postgres") as (path, prefix):
        data = str(path / "data")
        options = ["-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        run([*prefix, initdb, "-D", data, *options])
        port = free_port()
        quick = {
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "unix_socket_directories": str(path),
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            **settings,
        }
        flags = [word for name, value in quick.items() for word in ("-c", f"{name}={value}")]
        program = str(Path(initdb).resolve().with_name("postgres"))
        url = f"postgresql+psycopg://tester@127.0.0.1:{port}/postgres"
        server = Server(url, [*prefix, program, "-D", data, *flags], path / "log")
        yield from _serve(server)


@contextmanager
def mariadb() -> Iterator[Server]:
    """A MariaDB server with a database ``test``."""
    program = find("mariadbd", "/usr/sbin", "/usr/libexec")
    install = find("mariadb-install-db", "/usr/bin")
    with directory("mysql") as (path, prefix):
        port = free_port()
        base = [
            "--no-defaults",
            f"--datadir={path / 'data'}",
            f"--socket={path / 's'}",
            f"--pid-file={path / 'pid'}",
        ]
        (path / "data").mkdir()
        if os.geteuid() == 0:
            shutil.chown(path / "data", path.owner(), path.group())
        skipped = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        run([*prefix, install, *base[:2], *skipped])
        quick = [
            "--bind-address=127.0.0.1",
            f"--port={port}",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
            "--character-set-server=utf8mb4",
            "--collation-server=utf8mb4_general_ci",
        ]
        (path / "init.sql").write_text("CREATE DATABASE IF NOT EXISTS test;\n")
        quick.append(f"--init-file={path / 'init.sql'}")
        url = f"mariadb+pymysql://root@127.0.0.1:{port}/test"
        command = [*prefix, program, *base, *quick]
        yield from _serve(Server(url, command, path / "log", signal.SIGTERM))


def _serve(server: Server) -> Iterator[Server]:
    try:
        server.start()
        yield server
    finally:
        server.stop()
