CREATE TABLE maps (
  id INT,
  counts MAP<STRING, INT>,
  by_no MAP<INT, ROW<a INT, b STRING>>
) WITH (
  'connector' = 'kafka',
  'topic' = 'protobuf_maps',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'protobuf',
  'protobuf.message-class-name' = 'flinksink.testbed.Item',
  'protobuf.write-null-string-literal' = 'nil'
);
