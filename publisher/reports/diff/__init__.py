"""Compares ledger object by object: records with their outcomes, operations with their values."""
