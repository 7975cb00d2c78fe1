CREATE TABLE `default_catalog`.`default_database`.`t` (
  `k1` VARCHAR(2147483647) NOT NULL,
  `k2` INT NOT NULL,
  `v` ROW<`a` INT, `b` ARRAY<VARCHAR(2147483647)>>,
  CONSTRAINT `PK_k2_k1` PRIMARY KEY (`k2`, `k1`) NOT ENFORCED
)
WITH (
  'connector' = 'upsert-kafka',
  'key.format' = 'avro',
  'properties.bootstrap.servers' = 'localhost:9092',
  'topic' = 'upsert_avrokey',
  'value.format' = 'json',
  'value.json.encode.ignore-null-fields' = 'true'
)

