"""Triggerless mode: compares tables with their state of the last run and publishes the differences.

The driver's triggerless mode scans its tables, compares each row with a checksum that it keeps
by key, and publishes the differences.  The driver's mode has no order of events and no old values, and it
loses deletes when it starts over.
"""
