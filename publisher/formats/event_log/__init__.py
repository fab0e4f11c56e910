"""Event logs of the IDM driver for JDBC: tables of a database, and snapshots in files."""
