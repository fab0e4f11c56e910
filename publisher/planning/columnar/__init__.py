"""Columnar planning: plans the simple objects of a batch by the column instead of change by change.

Most changes of an event log concern simple objects: no rejected value, no filtered change, no repeated
record, no poll that continues in the next batch.  Their documents are composed by the column from
templates, which the renderer itself renders.  ``Planner`` plans all changes of the other objects.
A property test compares the documents of both planners byte by byte.
"""

from publisher.planning.columnar.planner import ColumnarPlan, ColumnarPlanner

__all__ = ["ColumnarPlan", "ColumnarPlanner"]
