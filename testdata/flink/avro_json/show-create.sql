CREATE TABLE `default_catalog`.`default_database`.`t` (
  `id` INT NOT NULL,
  `de` DECIMAL(38, 10),
  `st` VARCHAR(2147483647),
  `by1` VARBINARY(2147483647),
  `dt` DATE,
  `ts` TIMESTAMP(3),
  `tz` TIMESTAMP(3) WITH LOCAL TIME ZONE,
  `ai` ARRAY<INT>,
  `m` MAP<VARCHAR(2147483647), BIGINT>,
  `r` ROW<`a` INT, `b` ROW<`c` VARCHAR(2147483647)>>
)
WITH (
  'avro.encoding' = 'json',
  'avro.timestamp_mapping.legacy' = 'false',
  'connector' = 'kafka',
  'format' = 'avro',
  'properties.bootstrap.servers' = 'localhost:9092',
  'topic' = 'avro_json'
)

