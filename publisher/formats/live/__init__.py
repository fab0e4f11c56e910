"""Reading of database tables, for all formats."""
