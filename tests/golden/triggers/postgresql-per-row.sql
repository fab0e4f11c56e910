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

DO $xds$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'xds_log_writer') THEN
    CREATE ROLE xds_log_writer NOLOGIN;
  ELSIF EXISTS (
    SELECT FROM pg_catalog.pg_roles r
    LEFT JOIN pg_catalog.pg_auth_members m ON m.member = r.oid
    WHERE r.rolname = 'xds_log_writer' AND (r.rolsuper OR r.rolcreaterole OR r.rolcreatedb
      OR r.rolreplication OR r.rolbypassrls OR r.rolcanlogin OR m.member IS NOT NULL)
  ) THEN
    RAISE EXCEPTION 'role xds_log_writer may do more than write event logs: take its attributes and its '
      'memberships away, or rename it';
  END IF;
  -- whoever gives a function to the role must be able to become it
  IF NOT pg_catalog.pg_has_role('xds_log_writer', CASE WHEN
    pg_catalog.current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END)
  THEN
    GRANT xds_log_writer TO CURRENT_USER;
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE EXCEPTION '% may not create or use the role of the triggers; let a superuser run: '
    'CREATE ROLE xds_log_writer NOLOGIN; GRANT xds_log_writer TO %',
    pg_catalog.quote_ident(current_user), pg_catalog.quote_ident(current_user);
END
$xds$;

GRANT USAGE ON SCHEMA "indirect" TO xds_log_writer;
GRANT INSERT ON "indirect"."event_log" TO xds_log_writer;

DO $xds$
DECLARE
  sequence record;
BEGIN
  FOR sequence IN
    SELECT n.nspname, c.relname FROM pg_catalog.pg_depend d
    JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.relkind = 'S'
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE d.refobjid = pg_catalog.to_regclass('"indirect"."event_log"') AND d.deptype = 'a'
  LOOP
    EXECUTE pg_catalog.format('GRANT USAGE ON SEQUENCE %I.%I TO xds_log_writer',
      sequence.nspname, sequence.relname);
  END LOOP;
END
$xds$;

DO $xds$
BEGIN
  IF EXISTS (
    SELECT FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
    WHERE n.nspname = 'indirect' AND p.proname = 'xds_usr_log' AND p.pronargs = 0
      AND r.rolname NOT IN ('xds_log_writer', CURRENT_USER)
  ) THEN
    RAISE EXCEPTION 'function % is there and belongs to another role: drop it, then start again', 'xds_usr_log';
  END IF;
END
$xds$;

CREATE OR REPLACE FUNCTION "indirect"."xds_usr_log"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
SET row_security TO off
SET standard_conforming_strings TO on
SET timezone TO 'UTC'
SET datestyle TO 'ISO, YMD'
SET intervalstyle TO 'postgres'
SET bytea_output TO 'hex'
SET extra_float_digits TO 1
SET lc_monetary TO 'C'
AS $xds$
DECLARE
  old_key text;
  new_key text;
  written text := 'indirect.usr';
  is_changed boolean;
BEGIN
  BEGIN
    old_key := 'idu=' || CASE WHEN num_nulls(OLD."idu") = 0 THEN concat(OLD."idu") END || '+mail box=' || (SELECT CASE WHEN v ~ '[,;''+"=\\<>]|^[ \t\r\n]|[ \t\r\n]$|^$' THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CASE WHEN num_nulls(OLD."mail box") = 0 THEN concat(OLD."mail box") END COLLATE "C") AS k (v));
    new_key := 'idu=' || CASE WHEN num_nulls(NEW."idu") = 0 THEN concat(NEW."idu") END || '+mail box=' || (SELECT CASE WHEN v ~ '[,;''+"=\\<>]|^[ \t\r\n]|[ \t\r\n]$|^$' THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CASE WHEN num_nulls(NEW."mail box") = 0 THEN concat(NEW."mail box") END COLLATE "C") AS k (v));
    is_changed := num_nulls(NEW."idu") IS NULL OR num_nulls(NEW."mail box") IS NULL OR pg_typeof(NEW."active") IN (regtype 'text', regtype 'varchar') OR num_nulls(NEW."seen") IS NULL OR pg_typeof(NEW."photo") IN (regtype 'text', regtype 'varchar');
  EXCEPTION WHEN undefined_column OR undefined_object THEN
    is_changed := true;
  END;
  IF (TG_TABLE_SCHEMA <> 'indirect' OR TG_TABLE_NAME <> 'usr')
    AND (TG_OP = 'TRUNCATE' OR NOT (SELECT relispartition FROM pg_class WHERE oid = TG_RELID)) THEN
    is_changed := true;
    written := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
  END IF;
  IF TG_OP = 'TRUNCATE' THEN
    IF is_changed THEN
      INSERT INTO "indirect"."event_log" (table_key, event_type, table_name)
      VALUES ('changed after its triggers were made, so run xds-publisher ddl again', 6, written);
    ELSIF row_security_active(TG_RELID) THEN
      INSERT INTO "indirect"."event_log" (table_key, event_type, table_name)
      VALUES ('truncated with row-level security, so run xds-publisher verify --repair', 6, written);
    ELSE
      INSERT INTO "indirect"."event_log" (table_key, event_type, table_name)
      SELECT 'idu=' || CASE WHEN num_nulls(t."idu") = 0 THEN concat(t."idu") END || '+mail box=' || (SELECT CASE WHEN v ~ '[,;''+"=\\<>]|^[ \t\r\n]|[ \t\r\n]$|^$' THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CASE WHEN num_nulls(t."mail box") = 0 THEN concat(t."mail box") END COLLATE "C") AS k (v)), 4, 'indirect.usr'
      FROM ONLY "indirect"."usr" AS t;
      INSERT INTO "indirect"."event_log" (table_key, event_type, table_name)
      SELECT 'idu=' || CASE WHEN num_nulls(t."idu") = 0 THEN concat(t."idu") END || '+mail box=' || (SELECT CASE WHEN v ~ '[,;''+"=\\<>]|^[ \t\r\n]|[ \t\r\n]$|^$' THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CASE WHEN num_nulls(t."mail box") = 0 THEN concat(t."mail box") END COLLATE "C") AS k (v)), 4, 'indirect.usr'
      FROM "indirect"."usr" AS t WHERE (SELECT relkind FROM pg_class WHERE oid = TG_RELID) = 'p';
    END IF;
  ELSIF is_changed THEN
    INSERT INTO "indirect"."event_log" (table_key, event_type, table_name)
    SELECT e.key, e.event_type, written
    FROM (VALUES
      (1, old_key, 4, old_key IS DISTINCT FROM new_key),
      (2, new_key, 5, old_key IS DISTINCT FROM new_key),
      (3, new_key, 6, old_key = new_key),
      (4, 'changed after its triggers were made, so run xds-publisher ddl again', 6, num_nonnulls(old_key, new_key) = 0)
    ) AS e (place, key, event_type, applies)
    WHERE e.applies AND e.key IS NOT NULL
    ORDER BY e.place;
  ELSIF old_key = new_key THEN
    IF OLD *<> NEW THEN
      INSERT INTO "indirect"."event_log" (table_key, event_type, table_name)
      VALUES (new_key, 6, 'indirect.usr');
    END IF;
  ELSE
    IF old_key IS NOT NULL THEN
      INSERT INTO "indirect"."event_log" (table_key, event_type, table_name)
      VALUES (old_key, 4, 'indirect.usr');
    END IF;
    IF new_key IS NOT NULL THEN
      INSERT INTO "indirect"."event_log" (table_key, event_type, table_name)
      VALUES (new_key, 5, 'indirect.usr');
    END IF;
  END IF;
  RETURN NULL;
END
$xds$;

REVOKE ALL ON FUNCTION "indirect"."xds_usr_log"() FROM PUBLIC;

DROP TRIGGER IF EXISTS "0_xds_log" ON "indirect"."usr";

CREATE TRIGGER "0_xds_log" AFTER INSERT OR UPDATE OR DELETE ON "indirect"."usr"
  FOR EACH ROW EXECUTE FUNCTION "indirect"."xds_usr_log"();

DROP TRIGGER IF EXISTS "0_xds_truncate" ON "indirect"."usr";

CREATE TRIGGER "0_xds_truncate" BEFORE TRUNCATE ON "indirect"."usr"
  FOR EACH STATEMENT EXECUTE FUNCTION "indirect"."xds_usr_log"();

GRANT USAGE ON SCHEMA "indirect" TO xds_log_writer;
GRANT SELECT ("idu", "mail box") ON "indirect"."usr" TO xds_log_writer;

GRANT CREATE ON SCHEMA "indirect" TO xds_log_writer;
ALTER FUNCTION "indirect"."xds_usr_log"() OWNER TO xds_log_writer;
REVOKE CREATE ON SCHEMA "indirect" FROM xds_log_writer;

COMMIT;
