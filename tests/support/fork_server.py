"""Forks programs of the tests from a process that has imported their modules.

``python -m tests.support.fork_server FD``: FD is a socket.  Each message on it asks for a program and
brings four files: standard input, output and error, and a pipe that gets the program's process id when
it starts and its wait status when it ends.  A program is a process of its own, as if Python had started
with ``-m``: it has its own environment, signals and exit code, and may be killed.

No thread of Python may run here: a fork copies only the thread that calls it.  Threads of numpy and pyarrow
run: their libraries start them again where they need them.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Self

from publisher.no_pandas import hide_pandas

MODULES = (
    "publisher.cli.main",
    "publisher.cli.output",
    "publisher.cli.progress",
    "publisher.config.job_file",
    "publisher.dispatch.kafka.dispatcher",
    "publisher.engine.local",
    "publisher.ledger.retried_records",
    "publisher.observing.compose",
    "publisher.observing.metrics",
    "publisher.runs.follow",
    "publisher.runs.run",
    "publisher.runs.recover",
    "publisher.runs.replay",
    "publisher.formats.event_log.source",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
)
"""Modules that the programs import when they need them."""

FILES = Path("/proc/self/fd")
STATE_BYTES = 8
"""Length of a process id, and of a wait status, in the pipe of a program."""


@dataclass(frozen=True)
class Request:
    """A program to fork."""

    module: str
    words: list[str]
    environment: dict[str, str]
    directory: str
    starts_session: bool

    def to_json(self) -> bytes:
        """Returns the message."""
        return json.dumps(vars(self)).encode()

    @classmethod
    def from_json(cls, message: bytes) -> Self:
        """Reads a message."""
        return cls(**json.loads(message))


def main() -> None:
    """Forks programs until the other end of the socket is closed."""
    gc.disable()  # imports make no garbage
    hide_pandas()
    for name in MODULES:
        import_module(name)
    gc.freeze()  # programs share the modules: a search for garbage would copy their pages
    gc.enable()
    assert threading.active_count() == 1
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        request = _serve(requests)
    if request is not None:
        sys.argv[1:] = request.words
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)


def _serve(requests: socket.socket) -> Request | None:
    """Returns in each program with its request, and here with ``None`` at the end."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    pipes: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), reader], [], [])
        if reader in ready:
            os.read(reader, 1 << 16)
            _report_ends(pipes)
        if requests.fileno() not in ready:
            continue
        message, files, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        if not message:
            return None
        request, *_, pipe = Request.from_json(message), *files
        if not (pid := os.fork()):
            requests.detach()
            _become_program(request, files)
            return request
        pipes[pid] = pipe
        for file in files[:3]:
            os.close(file)
        os.write(pipe, pid.to_bytes(STATE_BYTES))


def _report_ends(pipes: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while pipes:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            pipe = pipes.pop(pid)
            with suppress(BrokenPipeError):  # nobody waits for it
                os.write(pipe, status.to_bytes(STATE_BYTES))
            os.close(pipe)


def _become_program(request: Request, files: list[int]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.closerange(3, max(int(path.name) for path in FILES.iterdir()) + 1)
    if request.starts_session:
        os.setsid()
    os.chdir(request.directory)
    os.environ.clear()
    os.environ.update(request.environment)


if __name__ == "__main__":
    main()
