CREATE TABLE t (
  cust STRING,
  n BIGINT NOT NULL,
  total DECIMAL(20,2),
  last_item STRING
) WITH (
  'connector' = 'kafka',
  'topic' = 'sink_kafka_debezium_keyed',
  'properties.isolation.level' = 'read_committed',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'debezium-json',
  'key.format' = 'json',
  'key.fields' = 'cust',
  'value.fields-include' = 'ALL'
);
