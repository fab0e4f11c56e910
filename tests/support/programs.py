"""Starts the project's programs as processes: forked by a server where one is in use.

A process that is forked by ``tests.support.fork_server`` saves a second of imports.  Tests of the start
itself start Python.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.support.fork_server import STATE_BYTES, Request

ROOT = Path(__file__).parents[2]
PROGRAM = "publisher.cli"

File = int | IO[Any] | None


class ForkServer:
    """A server, which starts with the first program."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def fork(self, request: Request, files: Sequence[int]) -> None:
        """Asks for a program; ``files`` are its standard files and the pipe of its states."""
        if self._socket is None:
            self._start()
        assert self._socket is not None
        socket.send_fds(self._socket, [request.to_json()], files)

    def close(self) -> None:
        """Ends the server; programs go on."""
        if self._process is not None and self._socket is not None:
            self._socket.close()
            self._process.wait(60)

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )


class ForkedProgram(subprocess.Popen[str]):
    """A program that a server has forked; it is used like any ``Popen``."""

    def __init__(self, server: ForkServer, request: Request, **files: File) -> None:
        self._server, self._request = server, request
        super().__init__([request.module, *request.words], text=True, **files)  # type: ignore[call-overload]

    def _execute_child(self, *values: Any) -> None:
        """Replaces the start of a process."""
        read_in, write_in, read_out, write_out, read_error, write_error = values[-13:-7]
        own = {0: read_in, 1: write_out, 2: write_error}
        files = [number if file == -1 else file for number, file in own.items()]
        self._states, theirs = os.pipe()
        try:
            self._server.fork(self._request, [*files, theirs])
        finally:
            os.close(theirs)
            self._close_pipe_fds(  # type: ignore[attr-defined]
                read_in, write_in, read_out, write_out, read_error, write_error
            )
        self.pid = self._read_state()
        self._child_created = True

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        """Replaces a look at the state of a child: the process is the server's."""
        if self.returncode is None and select.select([self._states], [], [], 0)[0]:
            self._end()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        """Replaces the wait for a child."""
        if self.returncode is None:
            if not select.select([self._states], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._end()
        return self.returncode

    def _end(self) -> None:
        self.returncode = os.waitstatus_to_exitcode(self._read_state())
        os.close(self._states)

    def _read_state(self) -> int:
        message = os.read(self._states, STATE_BYTES)
        if len(message) < STATE_BYTES:
            raise RuntimeError(f"the fork server ended before {self._request.module}")
        return int.from_bytes(message)


_servers: list[ForkServer] = []
"""The server in use, if there is one."""


@contextmanager
def fork_programs() -> Iterator[None]:
    """Lets a server fork the programs that ``start_program`` starts meanwhile."""
    server = ForkServer()
    _servers.append(server)
    try:
        yield
    finally:
        _servers.remove(server)
        server.close()


def start_program(
    words: Sequence[str],
    *,
    module: str = PROGRAM,
    environment: Mapping[str, str] = {},
    directory: Path = ROOT,
    starts_session: bool = False,
    stdin: File = subprocess.DEVNULL,
    stdout: File = None,
    stderr: File = None,
) -> subprocess.Popen[str]:
    """Starts ``python -m module words``, by default in the root of the checkout.

    ``environment`` has further environment variables.
    """
    environment = {**os.environ, **environment}
    if _servers:
        request = Request(module, list(words), environment, str(directory), starts_session)
        return ForkedProgram(_servers[-1], request, stdin=stdin, stdout=stdout, stderr=stderr)
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=directory,
        env=environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=starts_session,
    )
