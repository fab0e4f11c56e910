-- Questions to the catalogue of SQLite.

-- name: triggers
-- The triggers of ddl that write to a log.
SELECT NULL, tbl_name, name, sql, 1, NULL FROM sqlite_master
WHERE type = 'trigger' AND substr(name, 1, 4) = 'xds_' AND instr(sql, 'table_key')
ORDER BY 2, 3

-- name: definition
SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name

-- name: link
-- The foreign key of a column; SQLAlchemy reads no actions of keys that name no columns of their target.
SELECT id AS name, on_update AS onupdate FROM pragma_foreign_key_list(:name) WHERE "from" = :column
