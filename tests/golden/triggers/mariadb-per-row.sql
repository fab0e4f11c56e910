DELIMITER $$

SET NAMES utf8mb4$$

SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION'$$

CREATE TABLE IF NOT EXISTS `indirect`.`event_log` (
  record_id   BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  table_key   LONGTEXT NOT NULL,
  status      CHAR(1) NOT NULL DEFAULT 'N',
  event_type  SMALLINT NOT NULL CHECK (event_type BETWEEN 1 AND 8),
  event_time  DATETIME(6) NOT NULL
              DEFAULT (SYSDATE(6) - INTERVAL TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW()) SECOND),
  perpetrator VARCHAR(128)
              DEFAULT (LEFT(USER(), CHAR_LENGTH(USER()) - CHAR_LENGTH(SUBSTRING_INDEX(USER(), '@', -1)) - 1)),
  table_name  VARCHAR(256) NOT NULL,
  column_name VARCHAR(256),
  old_value   LONGTEXT,
  new_value   LONGTEXT,
  INDEX (status, record_id)
) ENGINE = InnoDB, CHARACTER SET utf8mb4, COLLATE utf8mb4_bin$$

BEGIN NOT ATOMIC
  IF EXISTS (
    SELECT 1 FROM mysql.global_priv WHERE User = 'xds_indirect.event_log_writer' AND Host = ''
      AND (JSON_VALUE(Priv, '$.is_role') IS NULL OR JSON_VALUE(Priv, '$.access') <> 0)
    UNION ALL SELECT 1 FROM mysql.db WHERE User = 'xds_indirect.event_log_writer' AND Host = ''
    UNION ALL SELECT 1 FROM mysql.tables_priv WHERE User = 'xds_indirect.event_log_writer' AND Host = ''
      AND (Column_priv <> '' OR IF(LOWER(CONCAT(Db, '.', Table_name)) = LOWER('indirect.event_log'),
        Table_priv <> 'Insert', Table_priv NOT IN ('Select', 'Trigger', 'Select,Trigger')))
    UNION ALL SELECT 1 FROM mysql.procs_priv WHERE User = 'xds_indirect.event_log_writer' AND Host = ''
    UNION ALL SELECT 1 FROM mysql.roles_mapping WHERE User = 'xds_indirect.event_log_writer' AND Host = ''
  ) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the role of the event log may do more than write it and read logged tables, or is a user: revoke these rights (SHOW GRANTS), or drop it';
  END IF;
END$$

CREATE ROLE IF NOT EXISTS `xds_indirect.event_log_writer`$$

GRANT INSERT ON `indirect`.`event_log` TO `xds_indirect.event_log_writer`$$

GRANT SELECT, TRIGGER ON `indirect`.`usr` TO `xds_indirect.event_log_writer`$$

CREATE OR REPLACE DEFINER = `xds_indirect.event_log_writer`
  TRIGGER `indirect`.`xds_usr_insert` AFTER INSERT
  ON `indirect`.`usr` FOR EACH ROW
BEGIN
  DECLARE new_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
    DEFAULT CONCAT('idu=', COALESCE(CAST(NEW.`idu` AS CHAR), ''), '+mail box=', COALESCE(CASE WHEN CAST(NEW.`mail box` AS CHAR) REGEXP '[,;''+"=\\<>]|\A[ \t\r\n]|[ \t\r\n]\z|\A\z' THEN CONCAT('"', REPLACE(REPLACE(CAST(NEW.`mail box` AS CHAR), '\', '\\'), '"', '\"'), '"') ELSE CAST(NEW.`mail box` AS CHAR) END, ''));
  DECLARE EXIT HANDLER FOR 1048, 1264, 1292, 1300, 1301, 1366, 1406, 4078, 4079
  BEGIN
    INSERT INTO `indirect`.`event_log` (table_key, event_type, table_name)
    VALUES (new_key, 5, 'indirect.usr');
  END;
  INSERT INTO `indirect`.`event_log` (table_key, event_type, table_name)
  VALUES (new_key, 5, 'indirect.usr');
END$$

CREATE OR REPLACE DEFINER = `xds_indirect.event_log_writer`
  TRIGGER `indirect`.`xds_usr_update` AFTER UPDATE
  ON `indirect`.`usr` FOR EACH ROW
BEGIN
  DECLARE old_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
    DEFAULT CONCAT('idu=', COALESCE(CAST(OLD.`idu` AS CHAR), ''), '+mail box=', COALESCE(CASE WHEN CAST(OLD.`mail box` AS CHAR) REGEXP '[,;''+"=\\<>]|\A[ \t\r\n]|[ \t\r\n]\z|\A\z' THEN CONCAT('"', REPLACE(REPLACE(CAST(OLD.`mail box` AS CHAR), '\', '\\'), '"', '\"'), '"') ELSE CAST(OLD.`mail box` AS CHAR) END, ''));
  DECLARE new_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
    DEFAULT CONCAT('idu=', COALESCE(CAST(NEW.`idu` AS CHAR), ''), '+mail box=', COALESCE(CASE WHEN CAST(NEW.`mail box` AS CHAR) REGEXP '[,;''+"=\\<>]|\A[ \t\r\n]|[ \t\r\n]\z|\A\z' THEN CONCAT('"', REPLACE(REPLACE(CAST(NEW.`mail box` AS CHAR), '\', '\\'), '"', '\"'), '"') ELSE CAST(NEW.`mail box` AS CHAR) END, ''));
  DECLARE EXIT HANDLER FOR 1048, 1264, 1292, 1300, 1301, 1366, 1406, 4078, 4079
  BEGIN
    INSERT INTO `indirect`.`event_log` (table_key, event_type, table_name)
    VALUES (new_key, IF(CAST(old_key AS BINARY) <> CAST(new_key AS BINARY), 5, 6), 'indirect.usr');
  END;
  IF EXISTS (SELECT 1 FROM `indirect`.`usr` AS o WHERE o.`idu` = NEW.`idu` AND o.`mail box` = NEW.`mail box` AND o.`active` <=> NEW.`active` AND CAST(o.`seen` AS CHAR) <=> CAST(NEW.`seen` AS CHAR))
    AND NOT (CAST(old_key AS BINARY) <> CAST(new_key AS BINARY)
      AND EXISTS (SELECT 1 FROM `indirect`.`usr` AS o WHERE o.`idu` = OLD.`idu` AND o.`mail box` = OLD.`mail box`
        AND CAST(CONCAT('idu=', COALESCE(CAST(o.`idu` AS CHAR), ''), '+mail box=', COALESCE(CASE WHEN CAST(o.`mail box` AS CHAR) REGEXP '[,;''+"=\\<>]|\A[ \t\r\n]|[ \t\r\n]\z|\A\z' THEN CONCAT('"', REPLACE(REPLACE(CAST(o.`mail box` AS CHAR), '\', '\\'), '"', '\"'), '"') ELSE CAST(o.`mail box` AS CHAR) END, '')) AS BINARY) = CAST(old_key AS BINARY))) THEN
    IF CAST(old_key AS BINARY) <> CAST(new_key AS BINARY) THEN
      INSERT INTO `indirect`.`event_log` (table_key, event_type, table_name)
      VALUES (old_key, 4, 'indirect.usr');
      INSERT INTO `indirect`.`event_log` (table_key, event_type, table_name)
      VALUES (new_key, 5, 'indirect.usr');
    ELSE
      IF NOT (CAST(CAST(OLD.`active` AS CHAR) AS BINARY) <=> CAST(CAST(NEW.`active` AS CHAR) AS BINARY))
          OR NOT (CAST(COALESCE(CAST(CAST(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP(OLD.`seen`) SECOND AS DATETIME(0)) AS CHAR), CAST(OLD.`seen` AS CHAR)) AS BINARY) <=> CAST(COALESCE(CAST(CAST(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP(NEW.`seen`) SECOND AS DATETIME(0)) AS CHAR), CAST(NEW.`seen` AS CHAR)) AS BINARY))
          OR NOT (OLD.`photo` <=> NEW.`photo`) THEN
        INSERT INTO `indirect`.`event_log` (table_key, event_type, table_name)
        VALUES (new_key, 6, 'indirect.usr');
      END IF;
    END IF;
  END IF;
END$$

CREATE OR REPLACE DEFINER = `xds_indirect.event_log_writer`
  TRIGGER `indirect`.`xds_usr_delete` AFTER DELETE
  ON `indirect`.`usr` FOR EACH ROW
BEGIN
  DECLARE old_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
    DEFAULT CONCAT('idu=', COALESCE(CAST(OLD.`idu` AS CHAR), ''), '+mail box=', COALESCE(CASE WHEN CAST(OLD.`mail box` AS CHAR) REGEXP '[,;''+"=\\<>]|\A[ \t\r\n]|[ \t\r\n]\z|\A\z' THEN CONCAT('"', REPLACE(REPLACE(CAST(OLD.`mail box` AS CHAR), '\', '\\'), '"', '\"'), '"') ELSE CAST(OLD.`mail box` AS CHAR) END, ''));
  INSERT INTO `indirect`.`event_log` (table_key, event_type, table_name)
  VALUES (old_key, 4, 'indirect.usr');
END$$

DROP TRIGGER IF EXISTS `indirect`.`xds_usr_before_delete`$$

DROP TRIGGER IF EXISTS `indirect`.`xds_usr_before_update`$$

DELIMITER ;
