"""The source formats, each behind the contract of ``publisher.sources.contract``."""
