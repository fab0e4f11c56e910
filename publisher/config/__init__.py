"""The job file as typed settings, with all of its problems reported at once."""
