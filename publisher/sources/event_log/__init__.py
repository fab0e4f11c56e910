"""The event log of the JDBC driver: its table, live and as snapshots in files."""
