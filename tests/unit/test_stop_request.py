"""A stop that a signal requests while the program begins to wait."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from publisher.stop_request import StopRequest

SIGNALS = """
import signal
from publisher.stop_request import StopRequest

asked = 0
for _ in range(300):
    stop = StopRequest()

    def ask(*_, stop=stop):
        global asked
        asked += 1
        stop.set()

    signal.signal(signal.SIGALRM, ask)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0001)
    while not stop.is_set():
        stop.wait(0)
    while asked < 3:
        stop.set()
    signal.setitimer(signal.ITIMER_REAL, 0)
    asked = 0
    assert stop.wait(60)
"""
"""Signals at any moment of a wait and of another request; a lock of an event would halt it for ever."""


def test_a_signal_in_the_middle_of_a_wait_stops_it() -> None:
    subprocess.run([sys.executable, "-c", SIGNALS], check=True, timeout=60)


def test_a_wait_ends_with_the_request() -> None:
    stop = StopRequest()
    threading.Timer(0.1, stop.set).start()
    start = time.monotonic()
    assert stop.wait(60)
    assert time.monotonic() - start < 30


def test_a_wait_ends_without_a_request() -> None:
    stop = StopRequest()
    assert not stop.wait(0.01)
    assert not stop.is_set()


def test_every_wait_after_the_request_ends_at_once() -> None:
    stop = StopRequest()
    stop.set()
    start = time.monotonic()
    assert all(stop.wait(60) for _ in range(3))
    assert time.monotonic() - start < 30
