"""What samples of the table queue say about the tables: statistics over sweeps."""
