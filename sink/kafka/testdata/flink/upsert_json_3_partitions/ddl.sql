CREATE TABLE t (
  g STRING,
  n BIGINT,
  s INT,
  PRIMARY KEY (g) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'sink_kafka_upsert_json_3_partitions',
  'properties.isolation.level' = 'read_committed',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);
