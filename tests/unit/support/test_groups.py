"""Tests that share an expensive fixture run in one worker."""

from __future__ import annotations

import pytest


def test_the_scheduler_of_workers_sees_the_group_of_a_test(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("xdist_group")
    assert marker is not None
    in_worker = hasattr(request.config, "workerinput")
    assert request.node.nodeid.endswith(f"@{marker.args[0]}") == in_worker
