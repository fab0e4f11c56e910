"""The error of a lost connection to a database."""


class LostError(Exception):
    """A connection failed or was lost; another attempt may succeed."""
