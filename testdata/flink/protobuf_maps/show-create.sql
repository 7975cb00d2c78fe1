CREATE TABLE `default_catalog`.`default_database`.`maps` (
  `id` INT,
  `counts` MAP<VARCHAR(2147483647), INT>,
  `by_no` MAP<INT, ROW<`a` INT, `b` VARCHAR(2147483647)>>
)
WITH (
  'connector' = 'kafka',
  'format' = 'protobuf',
  'properties.bootstrap.servers' = 'localhost:9092',
  'protobuf.message-class-name' = 'flinksink.testbed.Item',
  'protobuf.write-null-string-literal' = 'nil',
  'topic' = 'protobuf_maps'
)

