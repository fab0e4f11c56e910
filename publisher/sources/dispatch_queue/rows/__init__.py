"""Rows of the DISPATCH_QUEUE table as they stand in extract files."""
