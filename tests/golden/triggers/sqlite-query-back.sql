BEGIN;

CREATE TABLE IF NOT EXISTS "event_log" (
  record_id   INTEGER PRIMARY KEY AUTOINCREMENT,
  table_key   TEXT NOT NULL,
  status      CHAR(1) NOT NULL DEFAULT 'N',
  event_type  INTEGER NOT NULL CHECK (event_type BETWEEN 1 AND 8),
  event_time  TIMESTAMP NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  perpetrator VARCHAR(128),
  table_name  VARCHAR(256) NOT NULL,
  column_name VARCHAR(256),
  old_value   TEXT,
  new_value   TEXT
);

CREATE INDEX IF NOT EXISTS "xds_event_log_status"
  ON "event_log" (status, record_id);

DROP TRIGGER IF EXISTS "xds_usr_insert";

CREATE TRIGGER "xds_usr_insert" AFTER INSERT ON "usr"
  FOR EACH ROW WHEN EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'usr'
    AND sql = 'CREATE TABLE usr (...)')
BEGIN
  INSERT INTO "event_log" (table_key, event_type, table_name, column_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 7, 'usr', 'active';
  INSERT INTO "event_log" (table_key, event_type, table_name, column_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 7, 'usr', 'seen';
  INSERT INTO "event_log" (table_key, event_type, table_name, column_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 7, 'usr', 'photo';
END;

DROP TRIGGER IF EXISTS "xds_usr_update";

CREATE TRIGGER "xds_usr_update" AFTER UPDATE ON "usr"
  FOR EACH ROW WHEN EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'usr'
    AND sql = 'CREATE TABLE usr (...)')
    AND NOT (('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."mail box" AS TEXT) AS v)), '')) COLLATE BINARY IS NOT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')))
BEGIN
  INSERT INTO "event_log" (table_key, event_type, table_name, column_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 8, 'usr', 'active'
  WHERE CAST(OLD."active" AS TEXT) COLLATE BINARY IS NOT CAST(NEW."active" AS TEXT);
  INSERT INTO "event_log" (table_key, event_type, table_name, column_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 8, 'usr', 'seen'
  WHERE CAST(OLD."seen" AS TEXT) COLLATE BINARY IS NOT CAST(NEW."seen" AS TEXT);
  INSERT INTO "event_log" (table_key, event_type, table_name, column_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 8, 'usr', 'photo'
  WHERE CAST(OLD."photo" AS BLOB) IS NOT CAST(NEW."photo" AS BLOB);
END;

DROP TRIGGER IF EXISTS "xds_usr_rekey";

CREATE TRIGGER "xds_usr_rekey" AFTER UPDATE ON "usr"
  FOR EACH ROW WHEN EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'usr'
    AND sql = 'CREATE TABLE usr (...)')
    AND ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."mail box" AS TEXT) AS v)), '')) COLLATE BINARY IS NOT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), ''))
BEGIN
  INSERT INTO "event_log" (table_key, event_type, table_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."mail box" AS TEXT) AS v)), '')), 4, 'usr';
  INSERT INTO "event_log" (table_key, event_type, table_name, column_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 7, 'usr', 'active';
  INSERT INTO "event_log" (table_key, event_type, table_name, column_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 7, 'usr', 'seen';
  INSERT INTO "event_log" (table_key, event_type, table_name, column_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 7, 'usr', 'photo';
END;

DROP TRIGGER IF EXISTS "xds_usr_rename";

DROP TRIGGER IF EXISTS "xds_usr_delete";

CREATE TRIGGER "xds_usr_delete" AFTER DELETE ON "usr"
  FOR EACH ROW WHEN EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'usr'
    AND sql = 'CREATE TABLE usr (...)')
BEGIN
  INSERT INTO "event_log" (table_key, event_type, table_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."mail box" AS TEXT) AS v)), '')), 4, 'usr';
END;

DROP TRIGGER IF EXISTS "xds_usr_changed_insert";

CREATE TRIGGER "xds_usr_changed_insert" AFTER INSERT ON "usr"
  FOR EACH ROW WHEN NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'usr'
    AND sql = 'CREATE TABLE usr (...)')
BEGIN
  INSERT INTO "event_log" (table_key, event_type, table_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 5, (SELECT '"' || replace(tbl_name, '"', '""') || '"' FROM sqlite_master WHERE type = 'trigger' AND name = 'xds_usr_insert');
END;

DROP TRIGGER IF EXISTS "xds_usr_changed_update";

CREATE TRIGGER "xds_usr_changed_update" AFTER UPDATE ON "usr"
  FOR EACH ROW WHEN NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'usr'
    AND sql = 'CREATE TABLE usr (...)')
BEGIN
  INSERT INTO "event_log" (table_key, event_type, table_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."mail box" AS TEXT) AS v)), '')), 4, (SELECT '"' || replace(tbl_name, '"', '""') || '"' FROM sqlite_master WHERE type = 'trigger' AND name = 'xds_usr_insert')
  WHERE ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."mail box" AS TEXT) AS v)), '')) COLLATE BINARY IS NOT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), ''));
  INSERT INTO "event_log" (table_key, event_type, table_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 5, (SELECT '"' || replace(tbl_name, '"', '""') || '"' FROM sqlite_master WHERE type = 'trigger' AND name = 'xds_usr_insert')
  WHERE ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."mail box" AS TEXT) AS v)), '')) COLLATE BINARY IS NOT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), ''));
  INSERT INTO "event_log" (table_key, event_type, table_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')), 6, (SELECT '"' || replace(tbl_name, '"', '""') || '"' FROM sqlite_master WHERE type = 'trigger' AND name = 'xds_usr_insert')
  WHERE NOT (('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."mail box" AS TEXT) AS v)), '')) COLLATE BINARY IS NOT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(NEW."mail box" AS TEXT) AS v)), '')));
END;

DROP TRIGGER IF EXISTS "xds_usr_changed_delete";

CREATE TRIGGER "xds_usr_changed_delete" AFTER DELETE ON "usr"
  FOR EACH ROW WHEN NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'usr'
    AND sql = 'CREATE TABLE usr (...)')
BEGIN
  INSERT INTO "event_log" (table_key, event_type, table_name)
  SELECT ('idu=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."idu" AS TEXT) AS v)), '') || '+mail box=' || COALESCE((SELECT CASE WHEN v COLLATE BINARY = '' OR v GLOB '*[,;''+"=\<>]*' OR v COLLATE BINARY <> trim(v, char(32, 9, 13, 10)) OR instr(v, char(0)) THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END FROM (SELECT CAST(OLD."mail box" AS TEXT) AS v)), '')), 4, (SELECT '"' || replace(tbl_name, '"', '""') || '"' FROM sqlite_master WHERE type = 'trigger' AND name = 'xds_usr_insert');
END;

COMMIT;
