"""Files that are not code: inside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

from publisher.errors import InternalError

_PACKAGE = Path(__file__).parent


def resource(name: str) -> Path:
    """The file of that name, such as ``schemas/xds.xsd`` or ``conf/demo.toml``.

    Raises:
        InternalError: The program was installed without it.
    """
    for place in (_PACKAGE / name, _PACKAGE.parent / name):
        if place.exists():
            return place
    raise InternalError(f"{name} is missing from the installation: install the program again")
