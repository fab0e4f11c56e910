"""What the formats share to read files: splits, CSV, JSON lines, Parquet, recognition of other formats."""
