"""Triggerless mode: tables are compared with what was known of them, and the differences are changes.

Reference, triggerless mode: the driver scans its tables, compares each row with a checksum that it keeps
by key, and makes events of what differs.  It has no order of events, no old values, and loses deletes
when it starts anew.
"""
