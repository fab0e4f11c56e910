"""Reading of files for all formats: splits, CSV, JSON lines, Parquet, recognition of other formats."""
