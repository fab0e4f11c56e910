"""Mutation runs over all formats: what is damaged is said, what is not stays as it was."""
