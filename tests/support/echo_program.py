"""Prints its process id, session, words, name and a line that it reads; ends with code ``ECHO``."""

from __future__ import annotations

import atexit
import os
import sys


def main() -> None:
    atexit.register(sys.stderr.write, "ended\n")
    sys.stdout.write(f"{os.getpid()}\n{os.getsid(0)}\n")
    sys.stdout.flush()
    specification = sys.modules["__main__"].__spec__
    assert specification is not None
    sys.stdout.write(f"{sys.argv[1:]}\n{specification.name}\n{sys.stdin.readline()}")
    sys.exit(int(os.environ["ECHO"]))


if __name__ == "__main__":
    main()
