"""The differential gate: what an earlier program did with many inputs, and what this one does."""
