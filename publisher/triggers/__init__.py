"""SQL of an event log and of the triggers that fill it from the user's own tables.

``find_classes`` finds the tables to log, which ``model`` describes.  ``plan`` renders the SQL for them from
``templates``, one for each database; ``install`` runs it, ``compare`` finds what it would change.
"""

from publisher.triggers.install import adapt_to_rights, install
from publisher.triggers.model import DatabaseKind, Statement, Style, TableRef
from publisher.triggers.plan import Refs, TriggerPlan, plan
from publisher.triggers.render import render

__all__ = [
    "DatabaseKind",
    "Refs",
    "Statement",
    "Style",
    "TableRef",
    "TriggerPlan",
    "adapt_to_rights",
    "install",
    "plan",
    "render",
]
