"""Imports the modules of worker processes, which are forked afterwards: none starts a thread of Python.

Only the process that forks them imports this module.
"""

from __future__ import annotations

import gc

from publisher.engine.start_arrow import start_arrow

gc.disable()  # imports make no garbage
start_arrow()

import publisher.dispatch.kafka.lane_sender  # noqa: E402 - pyarrow starts first
import publisher.engine.local.parallel_tasks  # noqa: E402, F401

gc.freeze()  # processes share the modules: a search for garbage would copy their pages
gc.enable()
