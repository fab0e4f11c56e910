"""The demo: makes a small company with its event log, publishes it and shows what came out."""
