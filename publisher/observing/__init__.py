"""Observation of a following publisher: log lines, metrics, a trace."""
