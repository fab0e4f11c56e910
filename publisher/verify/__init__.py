"""Verification: compares the objects that consumers have built from documents with the tables."""
