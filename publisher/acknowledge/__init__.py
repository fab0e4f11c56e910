"""What the rows of a live event log are told after the sink has their documents."""
