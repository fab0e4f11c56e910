"""``xds-publisher publish --follow``: until a signal says that it is enough."""

# ruff: noqa: PLC0415 - --help answers at once

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

from publisher.errors import PublisherError

if TYPE_CHECKING:
    from publisher.settings import Settings


def follow_until_told(settings: Settings, *, as_json: bool, trace: int) -> None:
    """Follows the sources of a job until SIGTERM or SIGINT; what happens goes to standard error."""
    from publisher.follow import follow
    from publisher.observing.together import watched

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    journals = (settings.journal / settings.name).absolute()
    with watched(
        sys.stderr, settings.name, journals, settings.metrics, as_json=as_json, trace=trace
    ) as observer:
        try:
            follow(settings, observer, stop)
        except PublisherError as error:
            observer.ended(error.message)  # so that the log has it in its own form
            raise
