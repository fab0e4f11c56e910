"""The command line: one module per command; prints reports and maps errors to exit codes."""

from publisher.deferred_methods import defer_dataclass_methods

defer_dataclass_methods()
