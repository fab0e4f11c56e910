"""Answers for people, read from ledger and sources: explain, status, check, inspect."""
