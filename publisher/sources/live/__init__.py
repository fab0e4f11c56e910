"""Reads live database tables: the reader that formats share, and the registry of live readers."""
