-- Questions to the catalogue of MariaDB and MySQL.

-- name: foreign_keys
-- The foreign keys of a table and those that refer to it: table, key, column, and what it refers to: schema (NULL for
-- that of the table), table and column (NULL for the primary key).
SELECT table_name, constraint_name, column_name, NULLIF(referenced_table_schema, table_schema),
    referenced_table_name, referenced_column_name
FROM information_schema.key_column_usage
WHERE table_schema = COALESCE(:schema, DATABASE()) AND referenced_table_name IS NOT NULL
    AND (table_name = :name
         OR referenced_table_name = :name AND referenced_table_schema = table_schema)
ORDER BY table_name, constraint_name, ordinal_position

-- name: key_columns
-- The key columns of a schema: table or view, column, is it a column of a view that begins with pk_?
SELECT c.table_name, c.column_name, t.table_type = 'VIEW'
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = COALESCE(:schema, DATABASE())
    AND (c.column_key = 'PRI' OR t.table_type = 'VIEW' AND c.column_name LIKE :prefix ESCAPE '!')
ORDER BY c.table_name, c.ordinal_position

-- name: table_identity
SELECT @@hostname, @@port, @@datadir, t.table_schema, t.table_name, t.create_time
FROM information_schema.tables AS t
WHERE t.table_schema = COALESCE(:schema, DATABASE()) AND t.table_name = :name

-- name: database_identity
SELECT @@hostname, @@port, @@datadir, COALESCE(:schema, DATABASE())
