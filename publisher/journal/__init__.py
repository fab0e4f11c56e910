"""The journal: what a run planned, complete before anything is sent."""
