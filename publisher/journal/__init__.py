"""The journal: the complete plan of a run, committed before anything is sent."""
