"""Changes, ledger and documents as tables with documented columns: what tasks of DataFrames read."""
