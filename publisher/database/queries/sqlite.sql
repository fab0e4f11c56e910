-- Questions to the catalogue of SQLite.

-- name: foreign_keys
-- The foreign keys of a table and those that refer to it: table, key, column, and what it refers to: schema (NULL for
-- that of the table), table and column (NULL for the primary key).
SELECT m.name, f.id, f."from", NULL, f."table", f."to"
FROM sqlite_master AS m JOIN pragma_foreign_key_list(m.name) AS f
WHERE m.type = 'table' AND (m.name = :name OR lower(f."table") = lower(:name))
ORDER BY m.name, f.id, f.seq

-- name: key_columns
-- The key columns of tables, as for the other databases; those of views are read one by one.
SELECT m.name, c.name, 0 FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c
WHERE m.type = 'table' AND c.pk

-- name: view_key_columns
SELECT name FROM pragma_table_info(:view) WHERE name LIKE :prefix ESCAPE '!'
