"""Dispatchers: what a journal holds goes to a sink.  Progress lives in the sink, beside the data."""
