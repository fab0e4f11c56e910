"""Columnar planning: plans the simple objects of a batch by the column instead of change by change.

Most changes of an event log concern objects without complications: no rejected value, no filter,
no repeated record, no poll that continues in the next batch.  Their documents are composed
by the column from templates that the renderer's own parts give.  All changes of other objects remain
for ``Planner``.  A property test compares the documents of both planners byte by byte.
"""

from publisher.planning.columnar.planner import ColumnarPlan, ColumnarPlanner

__all__ = ["ColumnarPlan", "ColumnarPlanner"]
