"""Sources of jobs whose records are rejected and retried, one of each format."""

from __future__ import annotations

LOG = """
[[sources]]
snapshots = ["in"]
"""
ROWS = """
[[sources]]
format = "change-table"
snapshots = ["in"]
source_table = "indirect.usr"
binary_text = "hex"
mask_order = "msb"
header_columns = 7
pair_wait = 0
key = ["idu"]
"""
MESSAGES = """
[[sources]]
format = "change-table"
snapshots = ["in"]
layout = "messages"
mask_order = "msb"
key = ["idu"]
pair_wait = 0
"""
EXTRACT = """
[[sources]]
format = "linkexpress"
snapshots = ["in"]
unit = "table"
extract = "diff"
difftype = "OPEN"
nulls = true
charset = "CP932"
[[sources.tables]]
name = "usr"
schema = "hr"
xid = 1
key = ["idu"]
items = ["idu INTEGER", "fname CHARACTER(8)", "pay DECIMAL(5,2)", "note VARCHAR(6)"]
"""
