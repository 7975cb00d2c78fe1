CREATE TABLE `default_catalog`.`default_database`.`t` (
  `k` TIMESTAMP(3) NOT NULL,
  `cnt` BIGINT NOT NULL,
  `ms` MULTISET<VARCHAR(2147483647)>,
  CONSTRAINT `PK_k` PRIMARY KEY (`k`) NOT ENFORCED
)
WITH (
  'connector' = 'upsert-kafka',
  'key.format' = 'json',
  'key.json.timestamp-format.standard' = 'ISO-8601',
  'properties.bootstrap.servers' = 'localhost:9092',
  'topic' = 'upsert_raw_json',
  'value.format' = 'json',
  'value.json.ignore-parse-errors' = 'true'
)

