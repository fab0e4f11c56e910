"""SQL of an event log and of the triggers that fill it from the user's own tables.

Each database has a module with the same functions: ``log_statements``, ``table_statements`` and
``script``.  ``model`` and ``child_events`` have their common parts; ``find_classes`` finds the tables and
``install`` runs the statements.
"""

from publisher.triggers.install import Refs, TriggerPlan, install, plan
from publisher.triggers.model import Statement, Style, TableRef
from publisher.triggers.writer_role import adapt_to_rights

__all__ = [
    "Refs",
    "Statement",
    "Style",
    "TableRef",
    "TriggerPlan",
    "adapt_to_rights",
    "install",
    "plan",
]
