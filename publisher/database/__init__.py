"""The user's database: connections, catalogue, look-ups by key and statuses."""
