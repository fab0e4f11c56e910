-- Questions to the catalogue of PostgreSQL, with the schemas of its tables: others may have tables of these names.

-- name: triggers
-- The triggers of ddl, without those of partitions, which are copies of those of their table.
SELECT n.nspname, c.relname, t.tgname, p.prosrc, t.tgenabled IN ('O', 'A'), p.proname
FROM pg_catalog.pg_trigger t
JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
WHERE t.tgname IN ('0_xds_log', '0_xds_truncate') AND (t.tgenabled NOT IN ('O', 'A')
    OR NOT EXISTS (
        SELECT FROM pg_catalog.pg_inherits i
        JOIN pg_catalog.pg_trigger u ON u.tgrelid = i.inhparent
        WHERE i.inhrelid = c.oid AND u.tgname = t.tgname AND u.tgfoid = t.tgfoid))
ORDER BY 1, 2, 3

-- name: functions
-- The functions of ddl with their owner: may PUBLIC execute them, is the owner an ordinary owner of the schema?
SELECT n.nspname, p.proname, r.rolname,
  EXISTS (
    SELECT FROM pg_catalog.aclexplode(
      COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner))) AS a
    WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') AS public,
  pg_catalog.pg_has_role(r.oid, n.nspowner, 'USAGE') AND NOT (r.rolsuper OR r.rolcreaterole
    OR r.rolreplication OR r.rolbypassrls) AS owned
FROM pg_catalog.pg_proc AS p
JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
JOIN pg_catalog.pg_roles AS r ON r.oid = p.proowner
WHERE p.prosecdef AND p.prorettype = CAST('pg_catalog.trigger' AS pg_catalog.regtype)
  AND p.proname LIKE 'xds\_%'
ORDER BY 1, 2

-- name: unsuitable
-- Row-level security of a table of a class, and those of its columns that have types of users.
SELECT c.relrowsecurity, a.attname FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN (pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid)
    ON a.attrelid = c.oid AND a.attname = ANY(:columns)
    AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace
WHERE n.nspname = :schema AND c.relname = :name AND (c.relrowsecurity OR a.attname IS NOT NULL)

-- name: deferrable_key
SELECT k.conname FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = :name AND k.contype = 'p' AND k.condeferrable

-- name: heirs
-- Is a table partitioned, and the tables that inherit from it?
SELECT c.relkind = 'p', pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(d.relname)
FROM pg_catalog.pg_class c
LEFT JOIN (pg_catalog.pg_inherits i JOIN pg_catalog.pg_class d ON d.oid = i.inhrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = d.relnamespace) ON i.inhparent = c.oid
WHERE c.oid = pg_catalog.to_regclass(:name) ORDER BY 2

-- name: rights
-- The user; does the writer's role exist; may the user do more than own tables; may it use or create the role?
SELECT pg_catalog.quote_ident(u.rolname), r.oid IS NOT NULL,
  u.rolcreaterole OR u.rolreplication OR u.rolbypassrls,
  COALESCE(u.rolsuper
    OR u.rolcreaterole AND (r.oid IS NULL OR v.number < 160000)
    OR pg_catalog.pg_has_role(u.oid, r.oid, CASE WHEN v.number < 160000 THEN 'MEMBER' ELSE 'SET' END)
    OR pg_catalog.pg_has_role(u.oid, r.oid, 'MEMBER WITH ADMIN OPTION'), false)
FROM pg_catalog.pg_roles u
LEFT JOIN pg_catalog.pg_roles r ON r.rolname = 'xds_log_writer'
CROSS JOIN (SELECT CAST(pg_catalog.current_setting('server_version_num') AS integer)) AS v (number)
WHERE u.rolname = CURRENT_USER

-- name: foreign_objects
-- Schemas and tables of other roles, and functions that the writer's role owns already.
SELECT 'schema ' || pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_namespace n
WHERE n.nspname = ANY(CAST(:schemas AS name[])) AND NOT pg_catalog.pg_has_role(n.nspowner, 'USAGE')
UNION ALL
SELECT 'table ' || CAST(CAST(c.oid AS regclass) AS text) FROM pg_catalog.pg_class c
WHERE c.oid IN (SELECT pg_catalog.to_regclass(t) FROM unnest(CAST(:tables AS text[])) AS t)
  AND NOT pg_catalog.pg_has_role(c.relowner, 'USAGE')
UNION ALL
SELECT 'function ' || CAST(CAST(p.oid AS regproc) AS text) FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
WHERE n.nspname = ANY(CAST(:schemas AS name[])) AND r.rolname = 'xds_log_writer'
ORDER BY 1
