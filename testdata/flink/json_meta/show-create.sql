CREATE TABLE `default_catalog`.`default_database`.`t` (
  `id` BIGINT COMMENT 'key',
  `name` VARCHAR(2147483647) NOT NULL,
  `数量` INT,
  `select` VARCHAR(2147483647),
  `twice` AS `id` * 2,
  `ts` TIMESTAMP(3) WITH LOCAL TIME ZONE METADATA FROM 'timestamp',
  `headers` MAP<VARCHAR(2147483647), VARBINARY(2147483647)> METADATA,
  `part` INT METADATA FROM 'partition' VIRTUAL,
  `offset` BIGINT METADATA VIRTUAL,
  `tp` VARCHAR(2147483647) METADATA FROM 'topic' VIRTUAL,
  `tt` VARCHAR(2147483647) METADATA FROM 'timestamp-type' VIRTUAL,
  `le` INT METADATA FROM 'leader-epoch' VIRTUAL,
  WATERMARK FOR `ts` AS `ts` - INTERVAL '5' SECOND
)
WITH (
  'connector' = 'kafka',
  'key.fields' = 'select;id',
  'key.format' = 'json',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'sink.partitioner' = 'default',
  'topic' = 'json_meta',
  'value.fields-include' = 'EXCEPT_KEY',
  'value.format' = 'json'
)

