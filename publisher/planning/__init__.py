"""From changes to documents: filters, precedence within a poll, query-back, rendering.

Pure: no Spark, no database, no Kafka.  ``planner`` plans change by change, ``columnar`` by the column.
"""
