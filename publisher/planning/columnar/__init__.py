"""The plain part of a batch, planned by the column instead of change by change.

Most changes of an event log speak of one column of an object that nothing else happens to: no
query-back, no problem, no filter, nothing that goes on in the next batch.  Their documents are made
here by the column, between texts that the renderer's own parts give; every object that is not as
plain is left to ``Planner``, whole.  What both give is the same, which a test holds.
"""

from publisher.planning.columnar.planner import Bulk, Plain

__all__ = ["Bulk", "Plain"]
