"""Other programs see whether an instance follows a job, and on which machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from publisher.errors import RunningError
from publisher.runs import following
from publisher.runs.following import is_followed, mark_following


def test_a_job_is_followed_while_its_instance_lives(tmp_path: Path) -> None:
    assert not is_followed(tmp_path)
    with mark_following(tmp_path):
        assert is_followed(tmp_path)
    assert not is_followed(tmp_path)


def test_a_second_machine_is_told_who_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mark_following(tmp_path):
        monkeypatch.setattr(following, "_machine", lambda: "another")
        message = (
            f"on another machine .*{socket.gethostname()}, process .* last sign of life 0 s ago"
        )
        with pytest.raises(RunningError, match=message):
            is_followed(tmp_path)
    assert not is_followed(tmp_path)
