"""Masks values of columns, and seals texts that a later run must read as they were."""
