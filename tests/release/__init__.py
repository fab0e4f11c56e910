"""Checks of a release that take too long for the test suite: ``./run release``."""
