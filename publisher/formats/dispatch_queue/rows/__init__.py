"""Rows of the DISPATCH_QUEUE table in export files."""
