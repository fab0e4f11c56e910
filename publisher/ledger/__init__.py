"""The ledger: the complete plan of a run, committed before anything is sent."""
