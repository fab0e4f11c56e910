"""A made-up company whose changes four systems recorded, and the generator of their recordings."""
