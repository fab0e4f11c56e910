"""Statistics about tables, computed from samples of LINTER's table queue."""
