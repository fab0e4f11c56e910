"""Exports of the LINTER replication table DISPATCH_QUEUE.

================ =================================================================================
``options``      settings: what the vendor's page leaves open; ``types``: types of columns
``attributes``   columns of the replicated tables from an export of DISPATCH_ATTRS
``layout``       the row of the queue, declared; ``image``: the row image in it
``file_form``    whole files: stride, parts, where to cut; ``rows``, ``text``: rows as columns
``joining``      rows to ``operations``; ``copies``: which of them count
``transactions`` what parts say of transactions; ``resolving``: what follows from it, ``fates``
``kept``         what a run leaves for the next one; ``lost``: rows that reject their transaction unread
``owners``       tables of several databases
``images``       row images to text; ``values``: numbers, dates; ``decoding``: images by table
``fitting``      which other settings rejected images would fit
``meaning``      operations to records; ``changes``: to changes; ``names``: tables and keys
``times``        OPER_DATE; ``showing``: operations as JSON
``source``       splits, survey, reading, positions
================ =================================================================================
"""

from publisher.sources.dispatch_queue.options import Options
from publisher.sources.dispatch_queue.source import DispatchQueue

__all__ = ["DispatchQueue", "Options"]
