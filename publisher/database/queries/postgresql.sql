-- Questions to the catalogue of PostgreSQL, with the schemas of its tables: others may have tables of these names.

-- name: foreign_keys
-- The foreign keys of a table and those that refer to it: table, key, column, and what it refers to: schema (NULL for
-- that of the table), table and column (NULL for the primary key).
SELECT r.relname, con.oid::pg_catalog.text, a.attname, fn.nspname, f.relname, fa.attname
FROM pg_catalog.pg_constraint con
JOIN pg_catalog.pg_class r ON r.oid = con.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
JOIN pg_catalog.pg_class f ON f.oid = con.confrelid
JOIN pg_catalog.pg_namespace fn ON fn.oid = f.relnamespace
CROSS JOIN LATERAL unnest(con.conkey, con.confkey) WITH ORDINALITY AS k (own, target, n)
JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = k.own
JOIN pg_catalog.pg_attribute fa ON fa.attrelid = f.oid AND fa.attnum = k.target
WHERE con.contype = 'f' AND con.conparentid = 0 AND n.nspname = :schema
    AND (r.relname = :name OR f.relname = :name AND fn.nspname = :schema)
ORDER BY r.relname, con.conname, k.n

-- name: key_columns
-- The key columns of a schema: table or view, column, is it a column of a view that begins with pk_?
SELECT r.relname, a.attname, r.relkind IN ('v', 'm')
FROM pg_catalog.pg_class r
JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = :schema
    AND (r.relkind IN ('v', 'm') AND a.attname ILIKE :prefix ESCAPE '!'
         OR EXISTS (SELECT FROM pg_catalog.pg_constraint con
                    WHERE con.conrelid = r.oid AND con.contype = 'p' AND a.attnum = ANY(con.conkey)))
ORDER BY r.relname, a.attnum

-- name: base_types
-- The base type of each column without length, and its kind if it is a type of users (Relation.user_types).
WITH RECURSIVE base (name, type) AS (
    SELECT a.attname, a.atttypid
    FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :schema AND c.relname = :name AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT base.name, t.typbasetype
    FROM base JOIN pg_catalog.pg_type t ON t.oid = base.type AND t.typtype = 'd')
SELECT base.name, pg_catalog.format_type(t.oid, -1),
       CASE WHEN t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace THEN NULL
            WHEN t.typcategory = 'A' THEN 'a' ELSE t.typtype::pg_catalog.text END
FROM base JOIN pg_catalog.pg_type t ON t.oid = base.type AND t.typtype <> 'd'

-- name: stamp
-- A digest of the definitions of tables.  PostgreSQL gives each version of a row of its catalogue another xmin.
SELECT pg_catalog.md5(pg_catalog.concat(pg_catalog.current_schema(), pg_catalog.string_agg(
    pg_catalog.concat_ws(' ', n.nspname, c.relname, c.oid, c.xmin, c.relkind,
        (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(':', a.attnum, a.xmin, t.xmin),
                                      ' ' ORDER BY a.attnum)
         FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
         WHERE a.attrelid = c.oid AND a.attnum > 0),
        (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(':', k.oid, k.xmin), ' ' ORDER BY k.oid)
         FROM pg_catalog.pg_constraint AS k
         WHERE k.contype = 'f' AND (k.conrelid = c.oid OR k.confrelid = c.oid)),
        (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(':', i.indexrelid, i.xmin),
                                      ' ' ORDER BY i.indexrelid)
         FROM pg_catalog.pg_index AS i WHERE i.indrelid = c.oid)),
    ',' ORDER BY c.oid)))
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname::pg_catalog.text = ANY(:names) OR pg_catalog.lower(c.relname) = ANY(:names)

-- name: table_identity
SELECT s.system_identifier, d.oid, c.oid
FROM pg_catalog.pg_control_system() AS s, pg_catalog.pg_database AS d, pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE d.datname = current_database() AND n.nspname = :schema AND c.relname = :name

-- name: database_identity
SELECT s.system_identifier, d.oid
FROM pg_catalog.pg_control_system() AS s, pg_catalog.pg_database AS d
WHERE d.datname = current_database()

-- name: channel
-- The channel that the enabled trigger of a log notifies; a zero byte ends each argument of a trigger.
SELECT pg_catalog.convert_from(
    pg_catalog.substr(t.tgargs, 1, pg_catalog.length(t.tgargs) - 1),
    pg_catalog.getdatabaseencoding())
FROM pg_catalog.pg_trigger AS t
JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = :name
  AND t.tgname = 'xds_notify' AND t.tgenabled IN ('O', 'A') AND t.tgnargs = 1
