"""The container image: built by buildah, and run as a user without rights on a root that is read-only.

The base image is made by debootstrap, so no registry is needed.  The image runs by chroot in a mount
namespace, because engines for containers need control groups that not every machine offers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.release.operations import need, write_job
from tests.release.packages import LOG, ROOT, Packages, ReleaseError, run

CONTAINERFILE = ROOT / "conf" / "Containerfile"
_BASE, _IMAGE = "localhost/xds-publisher-base", "localhost/xds-publisher"
_DATA = "/var/lib/xds-publisher"
_PROGRAM = "/opt/xds-publisher/bin/xds-publisher"
_STORAGE = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
"""Settings of buildah that need no rights but root."""
_PORT = 9464
_SECONDS = 60

_ENTER = f"""
set -e
root=$1 data=$2 user=$3; shift 3
mount --bind "$root" "$root"
mount --bind "$data" "$root{_DATA}"
mount -t tmpfs tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind /etc/hosts "$root/etc/hosts"
mount -o remount,ro,bind "$root"
exec chroot --userspec="$user:$user" "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME={_DATA} \\
    PYTHONDONTWRITEBYTECODE=1 /bin/sh -c 'cd {_DATA} && exec "$@"' sh "$@"
"""


@dataclass(frozen=True, slots=True)
class Image:
    """A mounted image and the settings that its engine would apply."""

    root: Path
    user: str
    health: tuple[str, ...]
    work: Path

    def command(self, *words: str) -> Sequence[str | Path]:
        """Returns the command that runs words in the image."""
        enter = self.work / "enter.sh"
        return ("unshare", "--mount", "sh", enter, self.root, self.work / "data", self.user, *words)

    def run(self, *words: str) -> str:
        """Runs words in the image; raises ``ReleaseError`` if they fail."""
        return run(self.command(*words), self.work)


def check_container(packages: Packages, work: Path) -> None:
    """Builds the image; replays, follows, checks its health and runs the demo in it.

    Raises:
        ReleaseError: A step failed, or the program could write outside its directory.
    """
    need("buildah", "debootstrap", "unshare")
    if os.geteuid() != 0:
        raise ReleaseError("the image is built and mounted by root: start as root")
    _build(packages, work)
    with _mounted(work) as image:
        data = work / "data"
        (data / "log.csv").write_text(LOG, "utf-8")
        shown = image.run(_PROGRAM, "replay", "log.csv", "--to", "out")
        if "1 read = 1 published" not in shown:
            raise ReleaseError(f"the image replays no log:\n{shown}")
        _refuses(image, "touch", "/opt/xds-publisher/planted")
        _check_health(image, data)
        shown = image.run(_PROGRAM, "demo", "company")
        if "All equal" not in shown:
            raise ReleaseError(f"the demo fails in the image:\n{shown}")


def _build(packages: Packages, work: Path) -> None:
    base = work / "base"
    run(["debootstrap", "--variant=minbase", "bookworm", base], work)
    _trust_like_host(base)
    container = _buildah(work, "from", "scratch").strip()
    _buildah(work, "add", "--quiet", container, base, "/")
    _buildah(work, "commit", "--quiet", container, _BASE)
    _buildah(work, "rm", container)
    context = work / "context"
    context.mkdir()
    shutil.copy(packages.wheel, context)
    options = (
        "--pull-never",
        "--layers=false",
        "--format",
        "docker",
        "--build-arg",
        f"BASE={_BASE}",
    )
    _buildah(work, "build", *options, "-f", CONTAINERFILE, "-t", _IMAGE, context)


def _trust_like_host(base: Path) -> None:
    """Gives pip in the image the certificates of this machine: a proxy may have its own."""
    certificates = os.environ.get("PIP_CERT")
    if certificates:
        shutil.copyfile(certificates, base / "etc" / "host-certificates.pem")
        text = "[global]\ncert = /etc/host-certificates.pem\n"
        (base / "etc" / "pip.conf").write_text(text, "utf-8")


@contextmanager
def _mounted(work: Path) -> Iterator[Image]:
    container = _buildah(work, "from", "--pull-never", _IMAGE).strip()
    try:
        root = Path(_buildah(work, "mount", container).strip())
        config = json.loads(_buildah(work, "inspect", container))["Docker"]["config"]
        image = Image(root, config["User"], tuple(config["Healthcheck"]["Test"][1:]), work)
        (root / "etc" / "hosts").touch()
        (work / "enter.sh").write_text(_ENTER, "utf-8")
        (work / "data").mkdir()
        os.chown(work / "data", int(image.user), int(image.user))
        yield image
    finally:
        _buildah(work, "rm", container)
        _buildah(work, "rmi", _IMAGE, _BASE)


def _refuses(image: Image, *words: str) -> None:
    try:
        image.run(*words)
    except ReleaseError:
        return
    raise ReleaseError(f"the image lets its user run {' '.join(words)}")


def _check_health(image: Image, data: Path) -> None:
    """The health check fails without the publisher, and succeeds while it follows a job."""
    _refuses(image, *image.health)
    write_job(data, _PORT, Path(_DATA))
    for path in data.iterdir():
        os.chown(path, int(image.user), int(image.user))
    follow = image.command(_PROGRAM, "publish", "--follow", "-c", "job.toml")
    process = subprocess.Popen(follow, cwd=image.work)
    try:
        _wait_until(lambda: _succeeds(image, *image.health))
    finally:
        process.terminate()
        process.wait(_SECONDS)


def _succeeds(image: Image, *words: str) -> bool:
    return subprocess.run(image.command(*words), check=False, capture_output=True).returncode == 0


def _wait_until(look: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not look():
        if time.monotonic() > end:
            raise ReleaseError(f"the image was not healthy within {_SECONDS} seconds")
        time.sleep(1)


def _buildah(work: Path, *words: Any) -> str:
    return run(["buildah", *words], work, _STORAGE)
