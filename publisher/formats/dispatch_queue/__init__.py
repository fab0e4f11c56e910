"""Exports of the LINTER replication table DISPATCH_QUEUE.

================ =================================================================================
``source``       splits, survey, reading, positions
``options``      settings for everything that the vendor's page leaves open
``rows``         ``layout`` declares a row; ``file_probe``, ``delimited_text`` and ``rows`` read files
``images``       ``layout`` declares a row image; ``decode`` and ``by_table`` turn images into texts
``transactions`` ``joining`` groups rows to operations, ``facts`` and ``resolve`` decide the ``fates``
                 of transactions; ``carry_over`` keeps open ones for the next run
``operations``   the operations of a split; ``lost`` holds rows whose columns are unreadable
``to_records``   operations to records, ``to_changes`` to changes; ``object_names``: tables and keys
``dispatch_attrs`` columns of tables from an export of DISPATCH_ATTRS; ``owners``: their databases
``oper_date``    times; ``as_json``: operations as JSON
================ =================================================================================
"""

from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.source import DispatchQueue

__all__ = ["DispatchQueue", "DispatchQueueOptions"]
