-- a comment; with ' quote
CREATE TABLE IF NOT EXISTS t (
  id INTEGER, `b b` BOOLEAN, t TINYINT, s SMALLINT, l BIGINT NOT NULL, f FLOAT, d DOUBLE PRECISION, de DEC(38, 0), dn NUMERIC(38, 37), d0 DECIMAL,
  c CHAR(4), v VARCHAR(6), st VARCHAR, bi BINARY(3), vb VARBINARY(4), by1 BYTES, dt DATE, tm TIME(0),
  ts0 TIMESTAMP(0), ts9 TIMESTAMP(9) WITHOUT TIME ZONE, tz TIMESTAMP(9) WITH LOCAL TIME ZONE, tz3 TIMESTAMP_LTZ(3), ai INT ARRAY, ar ARRAY<ROW<x INT, `y y` STRING 'c'>>, m MAP<STRING, ARRAY<DECIMAL(5, 2)>>, mm MAP<VARCHAR(3), MAP<STRING, TIMESTAMP(3)>>, r ROW(a INT NOT NULL, b ROW<c DATE, d BYTES>), ab ARRAY<BYTES>, az ARRAY<TIMESTAMP_LTZ(6)>
) COMMENT 'it''s' WITH ('connector' = 'kafka', 'topic' = 'json_more_types', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json', 'json.encode.ignore-null-fields' = 'true', 'json.timestamp-format.standard' = 'ISO-8601', 'json.map-null-key.mode' = 'drop', 'json.fail-on-missing-field' = 'false');