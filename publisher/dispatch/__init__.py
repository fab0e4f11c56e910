"""Dispatchers: send ledger to a sink.  The sink stores the progress beside the data."""
