CREATE TABLE `default_catalog`.`default_database`.`t` (
  `id` INT,
  `name` VARCHAR(2147483647),
  `v` DOUBLE
)
WITH (
  'connector' = 'kafka',
  'key.fields' = 'id;name',
  'key.format' = 'protobuf',
  'key.protobuf.message-class-name' = 'flinksink.testbed.Item',
  'properties.bootstrap.servers' = 'localhost:9092',
  'topic' = 'json_keyproto',
  'value.fields-include' = 'EXCEPT_KEY',
  'value.format' = 'json'
)

