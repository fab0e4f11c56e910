"""Writes statuses and reasons to a live event log after the sink has the documents."""
