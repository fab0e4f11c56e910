"""The local engine: runs tasks in the driver process, for runs too small to be worth a Spark session."""
