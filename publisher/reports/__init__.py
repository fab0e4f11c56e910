"""Answers for people, read from journals and sources: explain, status, check, inspect."""
