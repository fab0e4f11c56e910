"""Transactions of the DISPATCH_QUEUE: which operations commit, and what is carried over to the next run."""
