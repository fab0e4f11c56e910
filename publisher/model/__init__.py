"""The ideas that every other package shares: changes, objects and keys, lanes, the clock, Arrow schemas.

Pure Python and pyarrow; imports nothing of the program but its errors.
"""
