"""Extraction data files of the Linkexpress Replication option, as lxextdb writes them."""

from publisher.formats.linkexpress.options import LinkexpressOptions
from publisher.formats.linkexpress.source import Linkexpress

__all__ = ["Linkexpress", "LinkexpressOptions"]
