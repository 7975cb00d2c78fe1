CREATE TABLE `default_catalog`.`default_database`.`t` (
  `id` INT,
  `b b` BOOLEAN,
  `t` TINYINT,
  `s` SMALLINT,
  `l` BIGINT NOT NULL,
  `f` FLOAT,
  `d` DOUBLE,
  `de` DECIMAL(38, 0),
  `dn` DECIMAL(38, 37),
  `d0` DECIMAL(10, 0),
  `c` CHAR(4),
  `v` VARCHAR(6),
  `st` VARCHAR(2147483647),
  `bi` BINARY(3),
  `vb` VARBINARY(4),
  `by1` VARBINARY(2147483647),
  `dt` DATE,
  `tm` TIME(0),
  `ts0` TIMESTAMP(0),
  `ts9` TIMESTAMP(9),
  `tz` TIMESTAMP(9) WITH LOCAL TIME ZONE,
  `tz3` TIMESTAMP(3) WITH LOCAL TIME ZONE
)
WITH (
  'connector' = 'kafka',
  'csv.allow-comments' = 'true',
  'csv.disable-quote-character' = 'true',
  'csv.field-delimiter' = '',
  'csv.null-literal' = 'NULL',
  'format' = 'csv',
  'properties.bootstrap.servers' = 'localhost:9092',
  'topic' = 'csv_more_types'
)

