"""Extraction data files of the Linkexpress Replication option, as lxextdb writes them."""

from publisher.sources.linkexpress.options import LinkexpressOptions
from publisher.sources.linkexpress.source import Linkexpress

__all__ = ["Linkexpress", "LinkexpressOptions"]
