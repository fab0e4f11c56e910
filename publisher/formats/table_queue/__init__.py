"""Samples of LINTER's table queue, recorded with the command DIRR.

They show which tables are in the queue and which of them have unflushed changes.  Samples carry no rows, so
they are not a source of changes.  ``xds-publisher activity`` computes statistics from them, and the
triggerless mode takes hints from them.
"""
