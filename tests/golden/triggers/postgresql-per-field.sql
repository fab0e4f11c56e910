BEGIN;

CREATE TABLE IF NOT EXISTS "indirect"."event_log" (
  record_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  table_key   text NOT NULL,
  status      char(1) NOT NULL DEFAULT 'N',
  event_type  smallint NOT NULL CHECK (event_type BETWEEN 1 AND 8),
  event_time  timestamp NOT NULL DEFAULT (clock_timestamp() AT TIME ZONE 'UTC'),
  perpetrator varchar(128) DEFAULT session_user,
  table_name  varchar(256) NOT NULL,
  column_name varchar(256),
  old_value   text,
  new_value   text
);

CREATE INDEX IF NOT EXISTS "xds_event_log_new"
  ON "indirect"."event_log" (record_id) WHERE status = 'N';

CREATE OR REPLACE FUNCTION "indirect"."xds_usr_log"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
SET standard_conforming_strings TO on
SET timezone TO 'UTC'
SET datestyle TO 'ISO, YMD'
SET intervalstyle TO 'postgres'
SET bytea_output TO 'hex'
SET extra_float_digits TO 1
SET lc_monetary TO 'C'
AS $xds$
DECLARE
  old_key text := 'idu=' || CAST(OLD."idu" AS text) || '+mail box=' || (SELECT CASE WHEN v ~ '[,;''+"=\\<>]|^[ \t\r\n]|[ \t\r\n]$|^$' THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."mail box" AS text) COLLATE "C") AS k (v));
  new_key text := 'idu=' || CAST(NEW."idu" AS text) || '+mail box=' || (SELECT CASE WHEN v ~ '[,;''+"=\\<>]|^[ \t\r\n]|[ \t\r\n]$|^$' THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS text) COLLATE "C") AS k (v));
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    INSERT INTO "indirect"."event_log" (table_key, event_type, table_name)
    SELECT 'idu=' || CAST(t."idu" AS text) || '+mail box=' || (SELECT CASE WHEN v ~ '[,;''+"=\\<>]|^[ \t\r\n]|[ \t\r\n]$|^$' THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(t."mail box" AS text) COLLATE "C") AS k (v)), 4, 'indirect.usr'
    FROM "indirect"."usr" AS t;
  ELSIF old_key = new_key THEN
    INSERT INTO "indirect"."event_log" (table_key, event_type, table_name, column_name, old_value, new_value)
    SELECT new_key, 2, 'indirect.usr', c.name, c.old_text, c.new_text
    FROM (VALUES
      (1, 'active', CAST(OLD."active" AS text), CAST(NEW."active" AS text)),
      (2, 'seen', CAST(OLD."seen" AS text), CAST(NEW."seen" AS text)),
      (3, 'photo', replace(encode(OLD."photo", 'base64'), chr(10), ''), replace(encode(NEW."photo", 'base64'), chr(10), ''))
    ) AS c (place, name, old_text, new_text)
    WHERE c.old_text COLLATE "C" IS DISTINCT FROM c.new_text COLLATE "C"
    ORDER BY c.place;
  ELSE
    IF old_key IS NOT NULL THEN
      INSERT INTO "indirect"."event_log" (table_key, event_type, table_name)
      VALUES (old_key, 4, 'indirect.usr');
    END IF;
    IF new_key IS NOT NULL THEN
      INSERT INTO "indirect"."event_log" (table_key, event_type, table_name, column_name, old_value, new_value)
      SELECT new_key, 1, 'indirect.usr', c.name, c.old_text, c.new_text
      FROM (VALUES
        (1, 'active', NULL, CAST(NEW."active" AS text)),
        (2, 'seen', NULL, CAST(NEW."seen" AS text)),
        (3, 'photo', NULL, replace(encode(NEW."photo", 'base64'), chr(10), ''))
      ) AS c (place, name, old_text, new_text)
      WHERE c.new_text IS NOT NULL
      ORDER BY c.place;
      IF NOT FOUND THEN
        INSERT INTO "indirect"."event_log" (table_key, event_type, table_name, column_name)
        VALUES (new_key, 1, 'indirect.usr', 'active');
      END IF;
    END IF;
  END IF;
  RETURN NULL;
END
$xds$;

DROP TRIGGER IF EXISTS "0_xds_log" ON "indirect"."usr";

CREATE TRIGGER "0_xds_log" AFTER INSERT OR UPDATE OR DELETE ON "indirect"."usr"
  FOR EACH ROW EXECUTE FUNCTION "indirect"."xds_usr_log"();

DROP TRIGGER IF EXISTS "0_xds_truncate" ON "indirect"."usr";

CREATE TRIGGER "0_xds_truncate" BEFORE TRUNCATE ON "indirect"."usr"
  FOR EACH STATEMENT EXECUTE FUNCTION "indirect"."xds_usr_log"();

COMMIT;
