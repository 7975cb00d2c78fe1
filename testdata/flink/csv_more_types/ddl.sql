CREATE TABLE t (
  id INTEGER, `b b` BOOLEAN, t TINYINT, s SMALLINT, l BIGINT NOT NULL, f FLOAT, d DOUBLE PRECISION, de DEC(38, 0), dn NUMERIC(38, 37), d0 DECIMAL,
  c CHAR(4), v VARCHAR(6), st VARCHAR, bi BINARY(3), vb VARBINARY(4), by1 BYTES, dt DATE, tm TIME(0),
  ts0 TIMESTAMP(0), ts9 TIMESTAMP(9) WITHOUT TIME ZONE, tz TIMESTAMP(9) WITH LOCAL TIME ZONE, tz3 TIMESTAMP_LTZ(3)
) WITH ('connector' = 'kafka', 'topic' = 'csv_more_types', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'csv', 'csv.null-literal' = 'NULL', 'csv.field-delimiter' = U&'\0001', 'csv.disable-quote-character' = 'true', 'csv.allow-comments' = 'true');