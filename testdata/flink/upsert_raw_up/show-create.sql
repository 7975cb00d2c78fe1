CREATE TABLE `default_catalog`.`default_database`.`t` (
  `k` VARBINARY(2147483647) NOT NULL,
  `v` DOUBLE,
  CONSTRAINT `PK_k` PRIMARY KEY (`k`) NOT ENFORCED
)
WITH (
  'connector' = 'upsert-kafka',
  'key.format' = 'raw',
  'properties.bootstrap.servers' = 'localhost:9092',
  'topic' = 'upsert_raw_up',
  'value.fields-include' = 'EXCEPT_KEY',
  'value.format' = 'raw',
  'value.raw.endianness' = 'little-endian'
)

