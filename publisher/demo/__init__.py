"""The demo: creates a small company with its event log, publishes it, and prints the results."""
