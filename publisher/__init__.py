"""XDS publisher: the Publisher channel of an identity manager, without the identity manager."""

__version__ = "0.1.0"
