"""The commands of the cluster guide, as the check of a release runs them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from publisher.cli.main import cli
from tests.release import cluster
from tests.release.cluster import Guide
from tests.release.packages import ReleaseError
from tests.support.documentation import text_of


def test_the_guide_names_no_other_machine() -> None:
    guide = Guide.read(Path("/nodes/bin/python"))
    lines = [guide.master, guide.worker, guide.check, guide.publish, guide.submit]
    assert [shlex.split(line)[0] for line in lines] == [
        *("spark-class", "spark-class"),
        *("xds-publisher", "xds-publisher", "spark-submit"),
    ]
    assert not [line for line in (*lines, guide.settings) if "example" in line or "7077" in line]
    assert '"/nodes/bin/python"' in guide.settings


def test_the_guide_uses_commands_of_the_program() -> None:
    guide = Guide.read(Path("/nodes/bin/python"))
    for line in (guide.check, guide.publish):
        assert shlex.split(line)[1] in cli.commands
    assert "publish" in shlex.split(guide.submit)


def test_another_page_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    page = text_of(cluster.PAGE)
    monkeypatch.setattr(
        cluster, "text_of", lambda _: page.replace("--work-dir /var/tmp/spark ", "")
    )
    with pytest.raises(ReleaseError, match="does not show /var/tmp/spark: adapt this check"):
        Guide.read(Path("python"))
    monkeypatch.setattr(
        cluster, "text_of", lambda _: page.replace("$ xds-publisher check", "# check")
    )
    with pytest.raises(ReleaseError, match="shows 4 commands"):
        Guide.read(Path("python"))
