"""Imports the modules of worker processes, which are forked afterwards: none starts a thread of Python.

Only the process that forks them imports this module.
"""

from __future__ import annotations

import gc

from publisher.no_pandas import hide_pandas

gc.disable()  # imports make no garbage
hide_pandas()

import publisher.dispatch.kafka.lane_sender  # noqa: E402 - pandas is hidden first
import publisher.engine.local.parallel_tasks  # noqa: E402, F401

gc.freeze()  # processes share the modules: a search for garbage would copy their pages
gc.enable()
