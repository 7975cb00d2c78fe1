CREATE TABLE `default_catalog`.`default_database`.`t` (
  `k_a` VARCHAR(2147483647) NOT NULL,
  `v1` DECIMAL(10, 2),
  `k_b` DATE NOT NULL,
  `v2` TIMESTAMP(3),
  CONSTRAINT `PK_k_b_k_a` PRIMARY KEY (`k_b`, `k_a`) NOT ENFORCED
)
WITH (
  'connector' = 'upsert-kafka',
  'key.csv.field-delimiter' = '|',
  'key.fields-prefix' = 'k_',
  'key.format' = 'csv',
  'properties.bootstrap.servers' = 'localhost:9092',
  'topic' = 'upsert_prefix_csv',
  'value.fields-include' = 'EXCEPT_KEY',
  'value.format' = 'avro'
)

