"""The source formats, each behind the contract of ``publisher.formats.contract``."""
