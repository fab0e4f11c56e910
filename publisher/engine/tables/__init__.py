"""Changes, ledger and documents as tables with documented columns, independent of the engine."""
