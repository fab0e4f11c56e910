"""The broker of the service tests, for the sink that needs one."""

from tests.services.conftest import kafka

__all__ = ["kafka"]
