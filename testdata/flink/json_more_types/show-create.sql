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
  `tz3` TIMESTAMP(3) WITH LOCAL TIME ZONE,
  `ai` ARRAY<INT>,
  `ar` ARRAY<ROW<`x` INT, `y y` VARCHAR(2147483647)>>,
  `m` MAP<VARCHAR(2147483647), ARRAY<DECIMAL(5, 2)>>,
  `mm` MAP<VARCHAR(3), MAP<VARCHAR(2147483647), TIMESTAMP(3)>>,
  `r` ROW<`a` INT NOT NULL, `b` ROW<`c` DATE, `d` VARBINARY(2147483647)>>,
  `ab` ARRAY<VARBINARY(2147483647)>,
  `az` ARRAY<TIMESTAMP(6) WITH LOCAL TIME ZONE>
)
COMMENT 'it''s'
WITH (
  'connector' = 'kafka',
  'format' = 'json',
  'json.encode.ignore-null-fields' = 'true',
  'json.fail-on-missing-field' = 'false',
  'json.map-null-key.mode' = 'drop',
  'json.timestamp-format.standard' = 'ISO-8601',
  'properties.bootstrap.servers' = 'localhost:9092',
  'topic' = 'json_more_types'
)

