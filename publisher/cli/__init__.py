"""The command line: one module per command; prints reports and maps errors to exit codes."""
