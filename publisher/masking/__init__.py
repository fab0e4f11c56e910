"""Masks values of columns."""
