"""Extraction data files of the Linkexpress Replication option, as lxextdb writes them.

=============== ==================================================================================
``options``     settings: what the extraction definition says, and what no manual says
``types``       types of items as a definition writes them
``layout``      the records, declared
``framing``     finding records; ``cells``: the items of many records; ``file_form``: whole files
``items``       items to text
``meaning``     records to changes; ``names``: tables and keys; ``explaining``: rejects in words
``source``      splits, reading, positions
=============== ==================================================================================
"""

from publisher.sources.linkexpress.options import LinkexpressOptions
from publisher.sources.linkexpress.source import Linkexpress

__all__ = ["Linkexpress", "LinkexpressOptions"]
