"""Codes of TYP in DISPATCH_QUEUE, written down independently of the program."""

from __future__ import annotations

DELETE, INSERT, UPDATE, COMMIT, CLOSING, ROLLBACK = 1, 2, 3, 4, 5, 10
