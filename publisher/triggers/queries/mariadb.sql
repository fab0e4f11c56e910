-- Questions to the catalogue of MariaDB.

-- name: triggers
-- The triggers of ddl that write to a log.
SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, TRIGGER_NAME, ACTION_STATEMENT, 1, NULL
FROM information_schema.TRIGGERS
WHERE LEFT(TRIGGER_NAME, 4) = 'xds_' AND LOCATE('table_key', ACTION_STATEMENT) > 0
ORDER BY 1, 2, 3

-- name: definers
-- The triggers of ddl, and with whose rights they run.
SELECT TRIGGER_SCHEMA, TRIGGER_NAME, DEFINER FROM information_schema.TRIGGERS
WHERE LEFT(TRIGGER_NAME, 4) = 'xds_'
ORDER BY 1, 2

-- name: partitions
SELECT 1 FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = :schema AND TABLE_NAME = :name AND PARTITION_NAME IS NOT NULL
