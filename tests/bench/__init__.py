"""Benchmarks: ``python -m tests.bench NAME``.  Each holds one bound and exits 0 only if it holds."""
