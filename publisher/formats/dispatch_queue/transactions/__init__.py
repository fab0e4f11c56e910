"""Transactions of the DISPATCH_QUEUE: their operations, their fates, and the carry-over to the next run."""
