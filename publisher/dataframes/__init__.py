"""The program in a Spark session of your own: changes, documents and ledger as DataFrames.

::

    import publisher.dataframes as xds

    plan = xds.plan(spark, "log.csv", job="job.toml")
    plan.documents.select("association", "text").show()
    plan.records.where("outcome = 'rejected'").select("position", "detail").show()
"""

from publisher.dataframes.input import changes, documents, plan, replay
from publisher.dataframes.output import LedgerTables, ledger, operations, read_documents
from publisher.dataframes.session import publisher_errors

__all__ = [
    "LedgerTables",
    "changes",
    "documents",
    "ledger",
    "operations",
    "plan",
    "publisher_errors",
    "read_documents",
    "replay",
]
