"""The ideas that every other package shares: changes, objects and keys, lanes, the clock, Arrow schemas.

Pure Python and pyarrow; imports no other part of the program except its errors.
"""
