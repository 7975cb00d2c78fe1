CREATE TABLE `default_catalog`.`default_database`.`t` (
  `a` DECIMAL(10, 3) NOT NULL,
  `b` TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL,
  `c` VARBINARY(2147483647) NOT NULL,
  `d` BOOLEAN NOT NULL,
  `e` DOUBLE NOT NULL,
  `n` BIGINT,
  CONSTRAINT `PK_e_d_c_b_a` PRIMARY KEY (`e`, `d`, `c`, `b`, `a`) NOT ENFORCED
)
WITH (
  'connector' = 'upsert-kafka',
  'key.format' = 'json',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.transaction.timeout.ms' = '600000',
  'sink.parallelism' = '1',
  'topic' = 'upsert_types',
  'value.csv.null-literal' = '-',
  'value.fields-include' = 'EXCEPT_KEY',
  'value.format' = 'csv'
)

